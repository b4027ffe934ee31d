"""The time of a whole inference, with its band."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from aisrv.inference.timings import laws
from aisrv.inference.timings.cost import Basis
from aisrv.inference.timings.device_model import DeviceModel, OperatorTime
from aisrv.inference.timings.generation import FileGeneration, Generation, generation_of
from aisrv.inference.timings.laws import Form
from aisrv.model import Model
from aisrv.protocol.memories import Memory

if TYPE_CHECKING:
    from aisrv.inference.timings.published import Published

ABOVE_PUBLISHED: Final = 1.005
"""Factor that a network may take above the largest published total of it."""


class Total(Struct, frozen=True):
    """Ticks of an inference, with the least and the most, and the ticks of a millisecond."""

    ticks: int
    low: int
    high: int
    tick_mhz: float = 100.0
    published: "tuple[Published, ...]" = ()
    """Published totals of the same network on such a device."""

    @property
    def ms(self) -> float:
        return self.in_ms(self.ticks)

    def in_ms(self, ticks: float) -> float:
        """Convert ticks to real milliseconds."""
        return ticks / (1000 * self.tick_mhz)

    def scaled(self, ticks: int, low: int, high: int) -> "Total":
        return Total(ticks, low, high, self.tick_mhz)

    def __str__(self) -> str:
        """Format as the first line of every report: 30.4 ms (28.5 to 30.7: measured)."""
        return f"{spell(self.ms)} ms ({self.band})"

    @property
    def band(self) -> str:
        """Band alone: 28.5 to 30.7: measured."""
        measured = ": measured" if self.published else ""
        low, high = self.in_ms(self.low), self.in_ms(self.high)
        return f"{spell(low, self.ms)} to {spell(high, self.ms)}{measured}"


def spell(number: float, like: float | None = None) -> str:
    """Format a number in three digits, with two from 1 to 10, or with as many decimals as `like` has so."""
    scale = number if like is None else like
    decimals = 0 if scale >= 1000 else 1 if scale >= 1 else 3 if scale >= 0.1 else 4 if scale >= 0.01 else 5
    return f"{number:,.{decimals}f}"


def sum_of(times: Sequence[OperatorTime], tick_mhz: float = 100.0) -> Total:
    """Sum up operators: errors of a class have one cause, so the bands are summed up too."""
    return Total(
        sum(time.ticks for time in times),
        sum(time.low for time in times),
        sum(time.high for time in times),
        tick_mhz,
    )


def total_of(
    times: Sequence[OperatorTime], device: DeviceModel, model: Model, file: FileGeneration | None = None
) -> Total:
    """Return the time of an inference of a model; a published total of it bounds the band."""
    total = sum_of(times, device.tick_mhz)
    file = file or generation_of(model, device.generation)
    from aisrv.inference.timings.published import published_of  # a device without a model does not need it

    published = published_of(model, device, file)
    if not published:
        return total
    low = sum(_published_low(time, file.generation) for time in times)
    high = total.high
    largest = max(each.ticks for each in published)
    forms = [time for time in times if time.form and "depthwise" not in time.form]
    if all(time.basis is Basis.MEASURED for time in forms):
        high = max(min(high, round(largest * ABOVE_PUBLISHED)), total.ticks)
    low = min(low, *(each.ticks for each in published))
    high = max(high, largest)
    return Total(total.ticks, low, high, total.tick_mhz, published)


def _published_low(time: OperatorTime, generation: Generation) -> int:
    """The least of an operator of a published network.

    What was published by itself took as long as the law says, or longer, as two depthwise layers of 2023 did.
    Of `indirect` of 2023 there is a sum alone, and of external memory one network, which its laws were
    fitted to.
    """
    is_sum = time.form == Form.INDIRECT.label and not generation.is_early
    if is_sum or time.memory is Memory.EXTERNAL or time.basis is not Basis.MEASURED:
        return time.low
    return max(time.low, round(time.ticks * laws.MEASURED_BAND.low))


def basis_shares(times: Sequence[OperatorTime]) -> dict[Basis, float]:
    """Return parts of the total by their basis: all four, which sum up to 1 if the total is not 0."""
    total = sum(time.ticks for time in times)
    return {
        basis: sum(time.ticks for time in times if time.basis is basis) / total if total else 0.0
        for basis in Basis
    }
