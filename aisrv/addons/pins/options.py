"""The option of commands on devices that records the levels of pins."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aisrv.board import Board
from aisrv.cli.options.added import AddedOptions
from aisrv.terminal.file_types import NEW_FILE
from aisrv.terminal.option_group import option


@dataclass(frozen=True, slots=True)
class PinsOptions(AddedOptions):
    """A recording of the pins."""

    pins_vcd: Path | None = option(
        "--pins-vcd",
        type=NEW_FILE,
        help="Record the pins of the first device in this file, for GTKWave and sigrok.",
    )

    def boards(self, boards: Sequence[Board]) -> Sequence[Board]:
        """Have the pins of the first board recorded."""
        if self.pins_vcd is None:
            return boards
        from aisrv.addons.pins.board import recorded

        return [recorded(boards[0], self.pins_vcd), *boards[1:]]
