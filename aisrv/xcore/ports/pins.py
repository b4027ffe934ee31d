"""The pins of a tile, each made when it is first asked for."""

from collections.abc import Iterator, Mapping

from aisrv.xcore.ports.map import PIN_NUMBERS, pin_number
from aisrv.xcore.ports.pin import Pin
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.traps import SizeError


class Pins(Mapping[str, Pin]):
    """The 64 pins of a tile by name: `pins["X0D12"]` of tile 0, `pins["1E"]`, `pins["4A.2"]`."""

    def __init__(self, runtime: Runtime, tile: int) -> None:
        """Create those of the tile of that number."""
        self._runtime = runtime
        self._tile = tile
        self._made: dict[int, Pin] = {}

    def __getitem__(self, name: str) -> Pin:
        """Return a pin; raises SizeError where the tile has none of that name."""
        if name[:2] in ("X0", "X1") and name[1] != str(self._tile):
            raise SizeError(f"pin {name!r} is not of tile {self._tile}")
        return self.numbered(pin_number(name))

    def __iter__(self) -> Iterator[str]:
        return (f"X{self._tile}D{number:02}" for number in PIN_NUMBERS)

    def __len__(self) -> int:
        return len(PIN_NUMBERS)

    def numbered(self, number: int) -> Pin:
        """Return the pin of a number: 12 of X0D12."""
        pin = self._made.get(number)
        if pin is None:
            pin = self._made[number] = Pin(self._runtime, f"X{self._tile}D{number:02}")
        return pin

    @property
    def made(self) -> tuple[Pin, ...]:
        """The pins that somebody has asked for."""
        return tuple(self._made.values())
