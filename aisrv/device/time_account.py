"""What a host's run took in device time, and where: by command, on the link, in the device, in inferences.

What a host does between its commands is its own time, as it was on this machine.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from aisrv.protocol.commands import command_name
from aisrv.xcore.timed.timeline import Timeline

if TYPE_CHECKING:
    from aisrv.inference.timed_engine import TimedInferenceEngine
    from flash_server.chip.timed_chip import TimedChip
    from phy.usb.timed_xud import TimedWires


class Spent(Struct, frozen=True):
    """Clocks by what they were spent on."""

    link: Fraction = Fraction(0)
    """Transactions, and the turns after them."""
    turns: Fraction = Fraction(0)
    """The turns alone, which are an estimate."""
    inference: Fraction = Fraction(0)
    least_inference: Fraction = Fraction(0)
    most_inference: Fraction = Fraction(0)
    load: Fraction = Fraction(0)
    flash: Fraction = Fraction(0)
    host: Fraction = Fraction(0)
    """Waits for the host."""
    sum: Fraction = Fraction(0)
    """All of it, with what tasks and channels took."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(*(getattr(self, name) - getattr(other, name) for name in self.__struct_fields__))

    def __truediv__(self, number: Fraction | int) -> "Spent":
        return Spent(*(getattr(self, name) / number for name in self.__struct_fields__))

    @property
    def tasks(self) -> Fraction:
        """What tasks and channels took."""
        return self.sum - self.link - self.inference - self.load - self.flash - self.host

    @property
    def device(self) -> Fraction:
        """All but the host's time."""
        return self.sum - self.host

    @property
    def least(self) -> Fraction:
        """All but the host's time, without estimates and with the least of inferences."""
        return self.device - self.turns - self.load - self.inference + self.least_inference

    @property
    def most(self) -> Fraction:
        """All but the host's time, with estimates twice and the most of inferences."""
        return self.device + self.turns + self.load - self.inference + self.most_inference


class CommandRow(Struct, frozen=True):
    """All commands of one kind over one link, in ticks of 10 ns."""

    link: str
    command: str
    count: int
    spent: Spent


class TimeAccount:
    """The account of one device."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline: Final = timeline
        self.wires: TimedWires | None = None
        self.spi: Mapping[int, tuple[int, Fraction]] = {}
        """Messages over SPI by their first byte: how many, and their ticks while the device was not BUSY."""
        self.engines: Final[list[TimedInferenceEngine]] = []
        self.chips: Final[list[TimedChip]] = []
        self._begun = Spent()
        self._rows: dict[int, tuple[int, Spent]] = {}
        self._busy_begun: Spent | None = None
        self._busy: dict[int, Spent] = {}
        self._all_busy = Fraction(0)

    # What the data task tells.

    def begin(self) -> None:
        """Note that the task waits for a command."""
        self._begun = self._spent()

    def arrived(self) -> None:
        """Note that it has come: engines that worked meanwhile did so for others."""
        now, begun = self._spent(), self._begun
        self._begun = replace(now, link=begun.link, turns=begun.turns, host=begun.host, sum=begun.sum)

    def end(self, command: int) -> None:
        """Note that a command was served."""
        count, spent = self._rows.get(command, (0, Spent()))
        self._rows[command] = count + 1, spent + (self._spent() - self._begun)

    # What the SPI buffer tells.

    def begin_busy(self) -> None:
        """Note that what a master sent over SPI is carried out."""
        self._busy_begun = self._spent()

    def end_busy(self, command: int) -> None:
        """Note that it is done."""
        begun, self._busy_begun = self._busy_begun, None
        assert begun is not None  # noqa: S101 - for the type checker
        spent = self._spent() - begun
        spent = replace(spent, link=Fraction(0), turns=Fraction(0), host=Fraction(0))
        self._busy[command] = self._busy.get(command, Spent()) + spent
        self._all_busy += spent.sum

    def busy_clocks(self) -> int:
        """Return the clocks so far in which something from SPI was carried out."""
        begun = self._busy_begun
        if begun is None:
            return int(self._all_busy)
        return int(self._all_busy + max(Fraction(0), self.timeline.now() - begun.sum))

    def _spent(self) -> Spent:
        """Return all clocks so far."""
        wires, engines = self.wires, self.engines
        turns = crossing = awaited = 0
        if wires is not None:
            turns, crossing, awaited = wires.turns * wires.turn, wires.crossing, wires.awaited
        return Spent(
            Fraction(crossing + turns),
            Fraction(turns),
            sum((each.run_clocks for each in engines), Fraction(0)),
            sum((each.least_run_clocks for each in engines), Fraction(0)),
            sum((each.most_run_clocks for each in engines), Fraction(0)),
            Fraction(sum(each.load_clocks for each in engines)),
            sum((each.fetch_clocks for each in engines), Fraction(sum(each.clocks for each in self.chips))),
            Fraction(awaited),
            Fraction(self.timeline.now()),
        )

    # What reports ask.

    @property
    def rows(self) -> Sequence[CommandRow]:
        """All commands so far, in the order in which they first came."""
        clocks = Fraction(self.timeline.core_clock_mhz, 100)
        rows = [
            CommandRow("usb", command_name(command), count, spent / clocks)
            for command, (count, spent) in self._rows.items()
        ]
        for command, (count, ticks) in self.spi.items():
            busy = self._busy.get(command, Spent()) / clocks
            spent = busy + Spent(link=ticks, sum=ticks)
            rows.append(CommandRow("spi", command_name(command), count, spent))
        return rows
