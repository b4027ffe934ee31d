"""The clock as a port sees it: its edges by number, its counter, and when it samples."""

from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.pin import HIGH

COUNTER_MASK = 0xFFFF


class PortClock:
    """The edges of a port's clock block; falling edge `base` is 0 in the port's counter of 16 bits."""

    __slots__ = ("_ready_before", "base", "block", "samples_falling")

    def __init__(self, block: ClockBlock) -> None:
        self.block = block
        self.base = 0
        self.samples_falling = False
        """Whether the port samples at falling edges, and not at rising ones."""
        self._ready_before = True

    def fallen(self, tick: int) -> int:
        """Count the falling edges up to a tick."""
        return self.block.edges.falling_until(tick)

    def counter(self, falling: int) -> int:
        """Return the port's counter after a falling edge."""
        return falling - self.base & COUNTER_MASK

    def falling_at(self, time: int, after: int) -> int:
        """Return the first falling edge later than edge `after` at which the counter becomes `time`."""
        return after + 1 + (time - self.counter(after + 1) & COUNTER_MASK)

    def sampled(self, tick: int) -> int:
        """Count the sampling edges up to a tick."""
        edges = self.block.edges
        return edges.falling_until(tick) if self.samples_falling else edges.rising_until(tick)

    def sample_tick(self, sample: int) -> int | None:
        """Return the tick of a sampling edge; None where it is not known yet."""
        edges = self.block.edges
        return edges.falling(sample) if self.samples_falling else edges.rising(sample)

    def sample_counter(self, sample: int) -> int:
        """Return the port's counter at a sampling edge."""
        return self.counter(sample if self.samples_falling else sample - 1 + self.block.edges.lag)

    def is_sampled_at(self, time: int | None, timestamp: int) -> bool:
        """Whether a sample with that timestamp is that of a time, which the counter is before its edge."""
        return time is not None and (timestamp - self.samples_falling - time) & COUNTER_MASK == 0

    def sample_at(self, time: int, after: int) -> int:
        """Return the first sampling edge later than edge `after` before which the counter is `time`."""
        counter = self.sample_counter(after + 1) - self.samples_falling
        return after + 1 + (time - counter & COUNTER_MASK)

    def samples_before(self, falling: int) -> int:
        """Count the sampling edges that come before a falling edge."""
        return falling - 1 if self.samples_falling else falling - self.block.edges.lag

    def ready_at(self, tick: int) -> bool:
        """Return the ready signal at the end of a tick; high where the block has none."""
        gate = self.block.ready_source
        return gate is None or (gate.pins[0].value(tick) == HIGH) != gate.is_inverted

    def last_ready(self, sampled: int) -> bool:
        """Return the ready signal as read at a sampling edge; of edge 0 what was read of the clock before."""
        tick = self.sample_tick(sampled) if sampled else None
        return self._ready_before if tick is None else self.ready_at(tick - 1)

    def note_ready(self, now: int) -> None:
        """Keep what was read last, as the clock is about to be another one."""
        self._ready_before = self.last_ready(self.sampled(now))

    def samples_first(self, sample: int, falling: int) -> bool:
        """Return whether a sampling edge comes before a falling one that is in the same tick."""
        return self.samples_before(falling) >= sample
