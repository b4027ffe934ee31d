"""The ports of a tile: their resource ids, widths and pins.

Sources: the constants of xs1.h, and the signal tables of the data sheets of XMOS's packages.
"""

from typing import Final

from aisrv.xcore.traps import SizeError

_ONE_BIT_NUMBERS: Final = (2, 0, 1, 3, 6, 4, 5, 7, 10, 8, 9, 11, 12, 13, 14, 15)
"""Numbers in the resource ids of ports 1A to 1P."""

PORT_IDS: Final = (
    {f"1{letter}": 0x10000 | _ONE_BIT_NUMBERS[at] << 8 for at, letter in enumerate("ABCDEFGHIJKLMNOP")}
    | {f"4{letter}": 0x40000 | at << 8 for at, letter in enumerate("ABCDEF")}
    | {f"8{letter}": 0x80000 | at << 8 for at, letter in enumerate("ABCD")}
    | {f"16{letter}": 0x100000 | at << 8 for at, letter in enumerate("AB")}
    | {"32A": 0x200000}
)
"""Resource id of each port: `XS1_PORT_1A` and so on."""

PORT_NAMES: Final = {resource_id: name for name, resource_id in PORT_IDS.items()}

_8A: Final = (2, 3, 4, 5, 6, 7, 8, 9)
_8B: Final = (14, 15, 16, 17, 18, 19, 20, 21)
_8C: Final = (26, 27, 28, 29, 30, 31, 32, 33)
_8D: Final = (36, 37, 38, 39, 40, 41, 42, 43)

PORT_PINS: Final[dict[str, tuple[int, ...]]] = {
    **{
        f"1{letter}": (pin,)
        for letter, pin in zip(
            "ABCDEFGHIJKLMNOP", (0, 1, 10, 11, 12, 13, 22, 23, 24, 25, 34, 35, 36, 37, 38, 39), strict=True
        )
    },
    "4A": (2, 3, 8, 9),
    "4B": (4, 5, 6, 7),
    "4C": (14, 15, 20, 21),
    "4D": (16, 17, 18, 19),
    "4E": (26, 27, 32, 33),
    "4F": (28, 29, 30, 31),
    "8A": _8A,
    "8B": _8B,
    "8C": _8C,
    "8D": _8D,
    "16A": _8A + _8B,
    "16B": _8C + _8D,
    "32A": (*range(49, 59), *range(61, 71), *_8A, 14, 15, 20, 21),
}
"""Numbers of the pins of each port, from bit 0 on: pin 2 of tile 0 is X0D02."""

PIN_NUMBERS: Final = tuple(sorted({pin for pins in PORT_PINS.values() for pin in pins}))
"""The 64 pins of a tile: D00 to D43, and those that only 32A has."""

CLOCK_BLOCK_TYPE: Final = 6
"""Resource type of clock blocks: `XS1_CLKBLK_REF` is 0x006, `XS1_CLKBLK_1` 0x106."""


def width_of(port: str) -> int:
    """Return the bits of a port of that name."""
    return len(PORT_PINS[port])


def port_name(port: str | int) -> str:
    """Return the name of a port, such as `1A`, from that, from `XS1_PORT_1A` or from its resource id.

    Raises SizeError where no tile has it.
    """
    name = PORT_NAMES.get(port) if isinstance(port, int) else port.removeprefix("XS1_PORT_")
    if name is None or name not in PORT_IDS:
        shown = f"0x{port:x}" if isinstance(port, int) else repr(port)
        raise SizeError(f"port {shown}: a tile has 1A to 1P, 4A to 4F, 8A to 8D, 16A, 16B and 32A")
    return name


def pin_number(name: str) -> int:
    """Return the number of a pin, named as `X0D12`, `D12`, by a port of one bit `1E`, or a port's bit `4A.2`.

    Raises SizeError where no tile has it.
    """
    port, dot, bit = name.removeprefix("XS1_PORT_").partition(".")
    pins = PORT_PINS.get(port, ())
    if len(pins) == 1 and not dot:
        return pins[0]
    if dot and bit.isdecimal() and int(bit) < len(pins):
        return pins[int(bit)]
    digits = name.rpartition("D")[2]
    if digits.isdecimal() and int(digits) in PIN_NUMBERS and name.rpartition("D")[0] in ("", "X0", "X1"):
        return int(digits)
    raise SizeError(f"pin {name!r}: a pin is named as X0D12, D12, 1E, or 4A.2 for a bit of a wider port")
