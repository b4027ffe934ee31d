"""The checks of a board's pins and peripherals: each setting by its kind, and each signal on one pin."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aisrv.addons.pins.specs import KINDS, PeripheralKind, PeripheralSpec, PinSpec, signals_of
from aisrv.board.specs import BoardError
from aisrv.protocol.i2c import LAST_ADDRESS
from aisrv.xcore.ports.map import PORT_PINS, pin_number
from aisrv.xcore.traps import SizeError

SPEEDS: Final = ("standard", "fast", "fast-plus")
"""Names in `aisrv.addons.pins.peripherals.i2c_target.SPEEDS`."""
I2C_REGISTERS: Final = ("generic", "gc2145", "memory", "sensor")
"""Registers of an I2C target: a model of `aisrv.sensors.registers`, 256 bytes, or the board's sensor's."""
PARITIES: Final = ("none", "even", "odd")
STIMULI: Final = (".vcd", ".csv")
MOST_BAUD: Final = 25_000_000
MOST_SPI_HZ: Final = 50_000_000
_CLASS: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
LEVELS: Final = ("low", "high")


def check_pins(
    pins: Sequence[PinSpec],
    peripherals: Sequence[PeripheralSpec],
    *,
    has_spi: bool,
    has_sensor: bool,
) -> None:
    """Check the pins and peripherals of a board with these parts. Raises BoardError."""
    by_name: dict[str, PeripheralSpec] = {}
    for number, peripheral in enumerate(peripherals):
        if not (peripheral.name.isascii() and peripheral.name.replace("-", "_").isidentifier()):
            raise BoardError(
                f"a peripheral's name is letters, digits, - and _, not {peripheral.name!r}",
                *("peripherals", number, "name"),
            )
        if peripheral.name in by_name:
            raise BoardError(f"two peripherals are called {peripheral.name!r}", "peripherals", number, "name")
        by_name[peripheral.name] = peripheral
        _check_settings(number, peripheral)
        if peripheral.kind is PeripheralKind.SPI_PORT and not has_spi:
            raise BoardError(
                f"{peripheral.name}: the board has no SPI port; add [spi]", "peripherals", number
            )
        if peripheral.registers == "sensor" and not has_sensor:
            raise BoardError(
                f"{peripheral.name}: the board has no sensor; add [sensor]",
                *("peripherals", number, "registers"),
            )
    _check_wires(pins, by_name)
    for number, peripheral in enumerate(peripherals):
        kind = KINDS[peripheral.kind]
        wired = signals_of(pins, peripheral)
        missing = [signal for signal in kind.signals if signal not in (*wired, *kind.optional)]
        if missing or not wired:
            needed = " and ".join(missing) or " or ".join(kind.signals)
            raise BoardError(
                f"{peripheral.name}: no pin is to its {needed}; add [[pins]] with to = "
                f'"{peripheral.name}.{(missing or kind.signals)[0]}"',
                *("peripherals", number),
            )


def _check_wires(pins: Sequence[PinSpec], peripherals: Mapping[str, PeripheralSpec]) -> None:
    taken: set[tuple[str, str]] = set()
    for number, pin in enumerate(pins):
        _check_pin(number, pin)
        if not pin.to:
            continue
        name, signal = pin.target
        peripheral = peripherals.get(name)
        if peripheral is None:
            known = ", ".join(peripherals) or "none"
            raise BoardError(f"unknown peripheral {name!r}; there are {known}", "pins", number, "to")
        signals = peripheral.signals
        if signal not in signals and (signal or len(signals) > 1):
            raise BoardError(
                f"{pin.to!r} is no signal: {name} has {', '.join(signals)}", "pins", number, "to"
            )
        wire = (name, signal or signals[0])
        if wire in taken:
            raise BoardError(f"{'.'.join(wire)} is on two pins", "pins", number, "to")
        taken.add(wire)


def _check_pin(number: int, pin: PinSpec) -> None:
    try:
        pin_number(pin.port)
    except SizeError as error:
        wide = len(PORT_PINS.get(pin.port, ())) > 1
        hint = f"; {pin.port} has several: write {pin.port}.0 for its first" if wide else ""
        raise BoardError(f"{error}{hint}", "pins", number, "port") from None
    if pin.port[:2] in ("X0", "X1") and int(pin.port[1]) != pin.tile:
        raise BoardError(f"{pin.port} is a pin of tile {pin.port[1]}, not {pin.tile}", "pins", number, "tile")
    if not pin.to and pin.stimulus is None:
        raise BoardError(f"nothing is on the pin {pin.port}: give to, or stimulus", "pins", number)
    if pin.stimulus is not None and pin.stimulus.suffix not in STIMULI:
        raise BoardError(
            f"{pin.stimulus.name} is no stimulus: its name ends in {' or '.join(STIMULI)}",
            *("pins", number, "stimulus"),
        )


def _check_settings(number: int, spec: PeripheralSpec) -> None:
    kind = KINDS[spec.kind]
    for each in spec.given():
        if each not in ("name", "kind", *kind.settings):
            known = ", ".join(kind.settings) or "none"
            raise BoardError(
                f"{spec.name}: a peripheral of kind {spec.kind.value} has no {each}; it has {known}",
                *("peripherals", number, each),
            )
    for name in kind.required:
        if getattr(spec, name) is None:
            raise BoardError(
                f"{spec.name}: a peripheral of kind {spec.kind.value} needs {name}", "peripherals", number
            )
    if spec.address is not None and spec.registers not in (None, "generic", "memory"):
        raise BoardError(
            f"{spec.name}: registers {spec.registers} have an address of their own",
            *("peripherals", number, "address"),
        )
    for name, value, allowed, words in _values(spec):
        if value is not None and not allowed:
            raise BoardError(
                f"{spec.name}: {name} is {words}, not {_shown(value)}", "peripherals", number, name
            )


def _values(spec: PeripheralSpec) -> list[tuple[str, Any, bool, str]]:
    """Return the name, value and words of each setting, and whether the value is one that it may have."""
    return [
        (
            "registers",
            spec.registers,
            spec.registers in I2C_REGISTERS or _CLASS.fullmatch(spec.registers or "") is not None,
            f"one of {', '.join(I2C_REGISTERS)}, or a class of yours as module:Class",
        ),
        _among("speed", spec.speed, SPEEDS),
        _among("parity", spec.parity, PARITIES),
        _among("active", spec.active, LEVELS),
        _between("address", spec.address, 0, LAST_ADDRESS),
        _between("mode", spec.mode, 0, 3),
        _between("clock", spec.clock, 1, MOST_SPI_HZ),
        _between("baud", spec.baud, 1, MOST_BAUD),
        _between("bits", spec.bits, 5, 9),
        _between("stop", spec.stop, 1, 2),
        _among("width", spec.width, (16, 24, 32)),
        _between("rate", spec.rate, 1, 768_000),
        _between("slot", spec.slot, 8, 64),
        _between("stretch", spec.stretch, 0, 1e6),
        _between("every", spec.every, 1e-6, 1e6),
        _between("hold", spec.hold, 1e-6, 1e6),
        ("answer", spec.answer, _is_hex(spec.answer), 'bytes in hexadecimal, as "9f 00"'),
        ("send", spec.send, _is_hex(spec.send), 'bytes in hexadecimal, as "9f 00"'),
        ("presses", spec.presses, _ascends(spec.presses), "seconds from 0 on, which ascend"),
        ("bounces", spec.bounces, all(each > 0 for each in spec.bounces or ()), "ticks above 0"),
    ]


def _among(name: str, value: object, allowed: Sequence[object]) -> tuple[str, Any, bool, str]:
    return name, value, value in allowed, f"one of {', '.join(map(str, allowed))}"


def _between(name: str, value: float | None, least: float, most: float) -> tuple[str, Any, bool, str]:
    inside = value is not None and least <= value <= most
    return name, value, inside, f"{least:g} to {most:.12g}"


def _is_hex(text: str | None) -> bool:
    try:
        bytes.fromhex(text or "")
    except ValueError:
        return False
    return True


def _ascends(times: Sequence[float] | None) -> bool:
    times = times or ()
    return all(each >= 0 and math.isfinite(each) for each in times) and list(times) == sorted(times)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)
