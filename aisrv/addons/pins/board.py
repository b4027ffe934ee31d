"""The arrays `[[peripherals]]` and `[[pins]]` of a board, and a recording of its pins."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Self

from msgspec.structs import replace

from aisrv.addons.pins.checks import check_pins
from aisrv.addons.pins.specs import PeripheralSpec, PinSpec
from aisrv.board import Board, Part
from aisrv.values.settings.toml_file import TomlFile


class Pins(Part, frozen=True, eq=False):
    """The peripherals and stimuli on pins."""

    table: ClassVar[str] = "pins"
    arrays: ClassVar[tuple[str, ...]] = ("peripherals", "pins")
    opens: ClassVar[str] = "aisrv.addons.pins.device:PinsOnDevice"

    peripherals: tuple[PeripheralSpec, ...] = ()
    """Peripherals on pins of its tiles."""
    pins: tuple[PinSpec, ...] = ()
    """Pins with a peripheral or a stimulus on them."""
    recording: Path | None = None
    """File in which the levels of all pins are recorded, from the node's start on."""
    file: TomlFile | None = None
    """The board's file, which messages name, and in whose folder modules and sources are looked for."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pins) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    @property
    def _values(self) -> tuple[object, ...]:
        """All but the file: boards are equal wherever they are written."""
        return self.peripherals, self.pins, self.recording

    @property
    def folder(self) -> Path | None:
        """Folder of the board's file."""
        return None if self.file is None else self.file.directory

    def place(self, name: str, *path: str | int) -> str:
        """Return the place of a table or a key, as errors begin: `board.toml:9: pins[0]`, or else a name."""
        return name if self.file is None else self.file.place(path)

    def placed(self, file: TomlFile) -> Self:
        return replace(self, file=file)

    def within(self, tiles: int) -> Self:
        return replace(self, pins=tuple(replace(pin, tile=min(pin.tile, tiles - 1)) for pin in self.pins))

    def check(self, board: Board) -> None:
        for number, pin in enumerate(self.pins):
            board.check_tile(f"the pin {pin.port}", pin.tile, "pins", number)
        check_pins(
            self.pins,
            self.peripherals,
            has_spi=board.spi is not None,
            has_sensor=board.sensor is not None,
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        kinds = {each.name: each.kind.value for each in self.peripherals}
        for pin in self.pins:
            name, signal = pin.target
            what = f"{name} {signal}".rstrip() + f", {kinds[name]}" if name else ""
            stimulus = "" if pin.stimulus is None else f"driven by {pin.stimulus}"
            yield f"tile {pin.tile}", pin.port, ", ".join(filter(None, (what, stimulus)))


def recorded(board: Board, path: Path | None) -> Board:
    """Return a board whose pins are recorded in a file; with None it has no recording."""
    pins = board.part(Pins)
    if pins is None and path is None:
        return board
    return board.with_part(Pins, replace(pins or Pins(), recording=path))
