"""How accumulators become int8 outputs: step functions, and lines in float64 that are proven to equal them.

Rescaling an accumulator, adding the zero point and clamping is a step function that never falls: for each
channel, an output level is reached from some accumulator on, its threshold. A straight line in float64,
floored, is such a function as well. Both are equal on every accumulator as soon as they are equal on each
side of each threshold, because a float multiplication and an addition never turn an order around. So a line
is sought, and tried on those at most 510 accumulators of a channel, by the very operations that will run.
Where TensorFlow Lite Micro's second rounding treats negative values differently, two parallel lines are
needed; where no line is found, the thresholds themselves are searched. Source of the arithmetic: "The INT8
kernel engine", section Arithmetic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import MULTIPLY, Bounds, Multiplier, Rounding, wrapped

Array: TypeAlias = npt.NDArray[Any]

BYTE_OFFSET: Final = 128
"""Added to the output by a line, so that it is never negative and can be truncated."""

_MIDDLE: Final = 1 << 30
"""What stands for 0 in words whose bit 30 tells values that are not negative."""
_MOST_SHIFT: Final = 21
"""Words stay below 2**30 with outputs of 8 bits."""
_SHORT_SHIFT: Final = 23
_FAR: Final = 1 << 40
"""A threshold that no accumulator reaches."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A step function for each of some channels.

    `thresholds[c, i]` is the smallest accumulator whose output is at least `bounds.low + 1 + i`, `slope[c]`
    the outputs that an accumulator is worth, `reach[c]` the largest magnitude of an accumulator, `shift[c]`
    the bits of the second rounding. `zero` is the output level of 0, where that rounding turns around.
    """

    thresholds: npt.NDArray[np.int64]
    slope: npt.NDArray[np.float64]
    shift: npt.NDArray[np.int32]
    reach: npt.NDArray[np.int64]
    bounds: Bounds
    zero: int

    def of(self, channels: Array) -> "Steps":
        """The steps of these channels, in this order."""
        return replace(
            self,
            thresholds=self.thresholds[channels],
            slope=self.slope[channels],
            shift=self.shift[channels],
            reach=self.reach[channels],
        )

    @property
    def levels(self) -> npt.NDArray[np.int64]:
        """The outputs that the thresholds belong to."""
        return np.arange(self.bounds.low + 1, self.bounds.high + 1)

    @property
    def below(self) -> npt.NDArray[np.int64]:
        """The last accumulator before each threshold, as far as it can occur."""
        reach = self.reach[:, None]
        return np.clip(self.thresholds - 1, -reach, reach)

    @property
    def above(self) -> npt.NDArray[np.int64]:
        """The first accumulator of each step, as far as it can occur."""
        reach = self.reach[:, None]
        return np.clip(self.thresholds, -reach, reach)


@dataclass(frozen=True, slots=True)
class Line:
    """floor(clip(x, low, high) * slope + offset) - 128 is the output."""

    low: Array
    high: Array
    slope: Array
    offset: Array

    def of(self, channels: Array) -> "Line":
        """The lines of these channels, in this order."""
        return Line(self.low[channels], self.high[channels], self.slope[channels], self.offset[channels])

    def values(self, accumulators: Array) -> Array:
        """Return the kernel's floats for accumulators [channels, n], before they are floored."""
        clipped = np.clip(accumulators.astype(self.low.dtype), self.low[:, None], self.high[:, None])
        return np.asarray(clipped.astype(np.float64) * self.slope[:, None] + self.offset[:, None])


@dataclass(frozen=True, slots=True)
class TwoLines:
    """A line of words whose upper half is moved up by one, then shifted right: the second rounding."""

    line: Line
    shift: npt.NDArray[np.int32]
    zero: int

    def of(self, channels: Array) -> "TwoLines":
        """The lines of these channels, in this order."""
        return TwoLines(self.line.of(channels), self.shift[channels], self.zero)

    def outputs(self, accumulators: Array) -> Array:
        """Return the kernel's words for accumulators [channels, n], before they wrap into bytes."""
        words = self.line.values(accumulators).astype(np.int32)
        words += words >> 30
        shift = self.shift[:, None]
        return np.asarray((words >> shift) - (_MIDDLE >> shift) + self.zero)


@dataclass(frozen=True, slots=True)
class Wrapping:
    """Accumulators of which something may leave 32 bits, and wraps: by one multiplier and bias a channel."""

    multipliers: Sequence[Multiplier]
    bias: npt.NDArray[np.int64]
    bounds: Bounds
    zero: int
    rounding: Rounding


Rising: TypeAlias = Line | TwoLines | Steps
"""How accumulators are rescaled where nothing wraps; the thresholds are searched where no line was found."""

Rescaling: TypeAlias = Rising | Wrapping
"""How accumulators are rescaled."""


def rescaling_steps(
    multipliers: Sequence[Multiplier],
    bias: npt.NDArray[np.int64],
    reach: npt.NDArray[np.int64],
    bounds: Bounds,
    zero: int,
    rounding: Rounding,
) -> Steps:
    """The steps of clamp(M(x + bias, m, s) + zero), none of which wraps: a multiplier and bias a channel."""
    mantissa = np.array([each.mantissa for each in multipliers], np.int64)
    exponent = np.array([each.shift for each in multipliers], np.int64)
    levels = np.arange(bounds.low + 1, bounds.high + 1) - zero
    thresholds = np.empty((len(mantissa), len(levels)), np.int64)
    constant = reach == 0  # unused channels, whose multipliers are extreme
    for channel in constant.nonzero()[0]:
        value = wrapped(MULTIPLY[rounding](int(bias[channel]), multipliers[channel]) + zero) - zero
        thresholds[channel] = np.where(levels <= value, -_FAR, _FAR)
    # Python's integers for the few channels whose numerators have more than 63 bits.
    short = np.abs(exponent) <= _SHORT_SHIFT
    for chosen, number in ((short, np.dtype(np.int64)), (~short, np.dtype(object))):
        varying = chosen & ~constant
        if varying.any():
            thresholds[varying] = _thresholds(mantissa[varying], exponent[varying], levels, rounding, number)
    slope = np.ldexp(mantissa.astype(np.float64), (exponent - 31).astype(np.int32))
    shift = np.maximum(-exponent, 0).astype(np.int32)
    return Steps(thresholds - bias[:, None], slope, shift, reach, bounds, zero)


def _thresholds(
    mantissas: Array, exponents: Array, levels: Array, rounding: Rounding, number: np.dtype[Any]
) -> Array:
    """The smallest x for which M(x, m, s) is at least each level."""
    exponent, one = exponents.astype(number)[:, None], np.array(1, number)
    level = levels.astype(number)[None, :]
    left = np.maximum(exponent, 0)
    if rounding is Rounding.DOUBLE:
        right = np.maximum(-exponent, 0)
        half = np.where(right > 0, one << np.maximum(right - 1, 0), 0)
        rounded = (level << right) - half + ((level <= 0) & (right > 0))
        numerator = (rounded << 31) - (1 << 30)
    else:
        bits = np.maximum(31 - exponent, 0)
        numerator = (level << bits) - np.where(bits > 0, one << np.maximum(bits - 1, 0), 0)
        left = np.maximum(exponent - 31, 0)
    divisor = np.maximum(mantissas, 1).astype(number)[:, None] << left
    quotient = np.clip(-(-numerator // divisor), -_FAR, _FAR)
    return np.where(mantissas[:, None] == 0, np.where(level <= 0, -_FAR, _FAR), quotient).astype(np.int64)


def mean_steps(counts: npt.NDArray[np.int64], bounds: Bounds) -> Steps:
    """The steps of a sum of so many values divided by their number, half away from zero, clamped."""
    levels = np.arange(bounds.low + 1, bounds.high + 1)[None, :]
    number = counts[:, None]
    thresholds = levels * number - number // 2 + np.where((levels <= 0) & (number % 2 == 0), 1, 0)
    shift = np.full(len(counts), 16, np.int32)
    return Steps(thresholds, 1.0 / counts, shift, counts * 128, bounds, 0)


def rescaling(steps: Steps, dtype: npt.DTypeLike) -> Rising:
    """The fastest way to rescale accumulators of a float type, proven to be exact."""
    if steps.thresholds.shape[1] == 0:
        return steps
    with np.errstate(all="ignore"):  # of a line that is tried and dropped
        line = _line(
            steps, steps.levels[None, :] + BYTE_OFFSET, steps.slope, np.full_like(steps.slope, 1.0), dtype
        )
        if line is not None and _proves(lambda x: np.floor(line.values(x)) - BYTE_OFFSET, steps):
            return line
        two = _two_lines(steps, dtype)
        return steps if two is None else two


def _two_lines(steps: Steps, dtype: npt.DTypeLike) -> TwoLines | None:
    shift = np.maximum(steps.shift, 1)
    if shift.max() > _MOST_SHIFT:
        return None
    unit = np.ldexp(1.0, shift)
    level = (steps.levels - steps.zero)[None, :]
    words = level * unit[:, None] + _MIDDLE - (level > 0)
    line = _line(steps, words, steps.slope * unit, unit, dtype)
    if line is None:
        return None
    two = TwoLines(line, shift, steps.zero)
    return two if _proves(two.outputs, steps) else None


def _line(steps: Steps, levels: Array, slope: Array, unit: Array, dtype: npt.DTypeLike) -> Line | None:
    """The line in the middle of those that pass each level between both sides of its threshold."""
    reach = steps.reach[:, None]
    lift = levels - slope[:, None] * steps.above
    room = levels - slope[:, None] * steps.below
    least = np.where(steps.thresholds <= reach, lift, -np.inf).max(axis=1)
    most = np.where(steps.thresholds > -reach, room, np.inf).min(axis=1)
    if not (least <= most).all():
        return None
    least = np.where(np.isinf(least), most - unit / 2, least)
    most = np.where(np.isinf(most), least + unit / 2, most)
    offset = least + (most - least) / 2
    safe = np.where(slope == 0, 1.0, slope)
    # Half an output beyond the outermost levels: so no conversion to a byte can leave its range.
    low = np.maximum(steps.below[:, 0], (levels[:, 0] - unit / 2 - offset) / safe)
    high = np.minimum(steps.above[:, -1], (levels[:, -1] + unit / 2 - offset) / safe)
    return Line(low.astype(dtype), np.maximum(high, low).astype(dtype), slope, offset)


def _proves(function: Callable[[Array], Array], steps: Steps) -> bool:
    """Whether a function that never falls has the steps' outputs on each side of every threshold."""
    levels, low, high = steps.levels[None, :], steps.bounds.low, steps.bounds.high
    below, above = function(steps.below), function(steps.above)
    reach = steps.reach[:, None]
    return bool(
        ((below < levels) | (steps.thresholds <= -reach)).all()
        and ((above >= levels) | (steps.thresholds > reach)).all()
        and (below >= low).all()
        and (above <= high).all()
    )
