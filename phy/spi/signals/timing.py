"""The timing that a master must keep: the rules, and ports before a slave that watch over them.

`CheckedPort` reports breaches in the log. `StrictPort` also corrupts what is clocked, the same way each time.
Only what a message states is checked; a master that states nothing breaks no rule. Rules: "XCORE AI server:
numbers and wire behavior", section SPI. What a breach does to the bits is a model of ours,
docs/reference/spi.md.
"""

import enum
import logging
from collections.abc import Container, Sequence
from itertools import accumulate, islice, pairwise
from typing import Final, NamedTuple

import trio
from msgspec import Struct, field
from msgspec.structs import replace

from phy.spi.bus import SpiPort, SpiRelayPort, SpiTransfer

logger = logging.getLogger(__name__)

SECOND: Final = 10**9
"""Nanoseconds."""


class Rule(enum.Enum):
    """Time that a rule bounds."""

    CLOCK_PERIOD = "clock period"
    """Time of a bit."""
    CS_SETUP = "CS enable"
    """Chip select low to the first clock edge."""
    CS_HOLD = "CS disable"
    """Last clock edge to chip select high."""
    CS_IDLE = "CS idle"
    """Chip select high to low again."""


class TimingRules(Struct, frozen=True):
    """Minimum of each time, in nanoseconds."""

    clock_period: int = 20
    cs_setup: int = 100
    """Chip select low to the first clock edge."""
    cs_hold: int = 100
    """Last clock edge to chip select high."""
    cs_idle: int = 200
    """Chip select high between two transactions."""


RULES: Final = TimingRules()


class Breach(NamedTuple):
    """A rule that a transfer breaks, in nanoseconds."""

    rule: Rule
    stated: float
    required: int

    def __str__(self) -> str:
        return f"{self.rule.value} {self.stated:.5g} ns, {self.required} ns or more are required"


Found = tuple[Breach, ...]


def check(
    transfers: Sequence[SpiTransfer], *, selected: bool = False, rules: TimingRules = RULES
) -> list[Found]:
    """Find the rules that each transfer breaks; `selected` says whether chip select is low before.

    CS enable and CS idle are those of transfers with which chip select goes low, CS disable of those at whose
    end it goes high; elsewhere they mean nothing.
    """
    found = []
    for transfer in transfers:
        stated: list[tuple[Rule, int | None, int]] = []
        if not selected:
            stated.append((Rule.CS_SETUP, transfer.timing.cs_setup, rules.cs_setup))
            stated.append((Rule.CS_IDLE, transfer.timing.cs_idle, rules.cs_idle))
        if transfer.deselect:
            stated.append((Rule.CS_HOLD, transfer.timing.cs_hold, rules.cs_hold))
        broken = [Breach(rule, ns, least) for rule, ns, least in stated if ns is not None and ns < least]
        # By multiplication: a rate of just 50 MHz must not be a breach by rounding.
        if transfer.clock_hz and transfer.clock_hz * rules.clock_period > SECOND:
            broken.insert(0, Breach(Rule.CLOCK_PERIOD, SECOND / transfer.clock_hz, rules.clock_period))
        found.append(tuple(broken))
        selected = not transfer.deselect
    return found


class CheckedPort(SpiRelayPort):
    """Logs a message that breaks rules; nothing else changes.

    The line names each breach once. A message with the same breaches as the last one reported is passed over.
    """

    def __init__(self, inner: SpiPort, *, rules: TimingRules = RULES, name: str = "spi") -> None:
        super().__init__(inner)
        self._rules = rules
        self._name = name
        self._selected = False
        self._reported: Found = ()

    async def _relay_message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        found = check(transfers, selected=self._selected, rules=self._rules)
        miso = await self._clock(transfers, found)
        if any(found):
            self._report(tuple(dict.fromkeys(breach for each in found for breach in each)))
        if transfers:
            self._selected = not transfers[-1].deselect
        return miso

    async def _relay_release(self) -> None:
        await super()._relay_release()
        self._selected = False

    async def _clock(self, transfers: Sequence[SpiTransfer], found: Sequence[Found]) -> list[bytes]:
        del found  # a breach is only reported here
        return await self._inner.message(transfers)

    def _report(self, breaches: Found) -> None:
        if breaches != self._reported:
            self._reported = breaches
            logger.warning("%s: %s", self._name, "; ".join(map(str, breaches)))


# What a breach does to the bits.


def _later(data: bytes, first: int) -> bytes:
    """Return the data with every bit one clock later; `first` comes in and the last bit is lost."""
    bits = first << 8 * len(data) | int.from_bytes(data, "big")
    return (bits >> 1).to_bytes(len(data), "big")


def _earlier(data: bytes) -> bytes:
    """Return the data with every bit one clock earlier: the first is lost and 0 comes in."""
    bits = (int.from_bytes(data, "big") << 1) & ((1 << 8 * len(data)) - 1)
    return bits.to_bytes(len(data), "big")


def _repeat_bit(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] & 0xFE | data[-1] >> 1 & 1,)) if data else data


class _Part(Struct):
    """One message's part of one transaction, as the slave sees it."""

    missed_clock: bool = False
    """The slave did not count the first clock, and is one bit behind since."""
    unseen: bool = False
    """Whether it runs on into a transaction on which the slave has acted."""
    held: int | None = None
    """Bit that a slave which is behind still has on MISO from the message before."""
    transfers: list[SpiTransfer] = field(default_factory=list)
    fast: list[bool] = field(default_factory=list)
    short_hold: bool = False

    def add(self, transfer: SpiTransfer, rules: Container[Rule]) -> None:
        self.transfers.append(transfer)
        self.fast.append(Rule.CLOCK_PERIOD in rules)
        self.short_hold = Rule.CS_HOLD in rules

    def run_on(self) -> None:
        """Take back the end: chip select was high for too short a time to be seen."""
        self.transfers[-1] = replace(self.transfers[-1], deselect=False)
        self.short_hold = False

    def to_slave(self) -> list[SpiTransfer]:
        pairs = zip(self.transfers, self.fast, strict=True)
        data = b"".join(_later(each.mosi, 0) if fast else each.mosi for each, fast in pairs)
        if self.short_hold:
            data = _repeat_bit(data)
        if self.missed_clock:
            data = _earlier(data)
        pieces = zip(self.transfers, self._cut(data), strict=True)
        return [replace(each, mosi=piece) for each, piece in pieces]

    def to_master(self, answers: list[bytes]) -> list[bytes]:
        if self.missed_clock and (data := b"".join(answers)):
            answers = self._cut(_later(data, data[0] >> 7 if self.held is None else self.held))
            self.held = data[-1] & 1
        return [_later(each, 0) if fast else each for each, fast in zip(answers, self.fast, strict=True)]

    def nothing(self) -> list[bytes]:
        """Return the bytes past the end of a transaction."""
        return [bytes(len(each.mosi)) for each in self.transfers]

    def _cut(self, data: bytes) -> list[bytes]:
        ends = accumulate((len(each.mosi) for each in self.transfers), initial=0)
        return [data[start:end] for start, end in pairwise(ends)]


class StrictPort(CheckedPort):
    """Reports breaches and corrupts what they touch, as docs/reference/spi.md describes."""

    def __init__(self, inner: SpiPort, *, rules: TimingRules = RULES, name: str = "spi") -> None:
        super().__init__(inner, rules=rules, name=name)
        self._open: _Part | None = None  # the transaction that the last message left open
        self._acted = False  # on a transaction before

    async def _relay_release(self) -> None:
        await super()._relay_release()
        self._acted |= self._open is not None
        self._open = None

    async def _clock(self, transfers: Sequence[SpiTransfer], found: Sequence[Found]) -> list[bytes]:
        parts = self._divide(transfers, found)
        seen = [each for part in parts if not part.unseen for each in part.to_slave()]
        if seen or not transfers:
            answers = iter(await self._inner.message(seen))
        else:
            await trio.lowlevel.checkpoint()
            answers = iter(())
        miso: list[bytes] = []
        for part in parts:
            miso += part.nothing() if part.unseen else part.to_master(list(islice(answers, len(part.fast))))
        if parts:
            self._open = None if transfers[-1].deselect else parts[-1]
            self._acted |= any(each.deselect for each in transfers)
        return miso

    def _divide(self, transfers: Sequence[SpiTransfer], found: Sequence[Found]) -> list[_Part]:
        """Reports breaches and corrupts what they touch, as docs/reference/spi.md describes."""
        parts: list[_Part] = []
        part: _Part | None = None
        if transfers and self._open is not None:
            part = _Part(self._open.missed_clock, self._open.unseen, self._open.held)
            parts.append(part)
        for transfer, breaches in zip(transfers, found, strict=True):
            rules = {breach.rule for breach in breaches}
            if part is None and parts and Rule.CS_IDLE in rules:
                part = parts[-1]
                part.run_on()
            elif part is None:
                unseen = Rule.CS_IDLE in rules and self._acted
                part = _Part(missed_clock=Rule.CS_SETUP in rules, unseen=unseen)
                parts.append(part)
            part.add(transfer, rules)
            if transfer.deselect:
                part = None
        return parts
