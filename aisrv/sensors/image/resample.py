"""Resampling of planes of samples, in whole numbers.

An axis is filtered by area averaging where it shrinks (a box filter in which a pixel that two outputs share
counts for each by the part that it shares) and by linear interpolation where it grows, pixels taken as small
areas with their centers at halves. All weights of an axis are whole numbers with one sum, `norm`. Products
and sums of whole numbers are exact in floating point as long as they fit the mantissa, in whatever order a
BLAS adds them up: the results are the same on every machine.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Bytes = npt.NDArray[np.uint8]
DType = np.dtype[np.floating[Any]]

Samples = Callable[[int], Iterable[tuple[int, int]]]
"""Samples of a plane that make a pixel of an axis: pairs of index and weight."""

BLOCK: Final = 32  # outputs: few enough to leave out most zeros, many enough for a fast matrix product
SINGLE_EXACT: Final = 1 << 24
"""Whole numbers up to here are exact in single precision."""


def each_sample(pixel: int) -> tuple[tuple[int, int]]:
    """Return the one sample of a pixel in a plane of full resolution."""
    return ((pixel, 1),)


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """The wanted part of an axis, its end excluded, and the number of pixels to make of it."""

    start: int
    end: int
    target: int

    @property
    def ratio(self) -> tuple[int, int]:
        """Pixels wanted and target, in lowest terms."""
        length = self.end - self.start
        common = gcd(length, self.target)
        return length // common, self.target // common

    @property
    def norm(self) -> int:
        """Sum of the weights of each output."""
        length, target = self.ratio
        return length if length >= target else 2 * target

    def weights(self, output: int) -> Iterable[tuple[int, int]]:
        """Return the pixels of the whole axis that make an output, with their weights."""
        length, target = self.ratio
        return (
            self._area(output, length, target) if length >= target else self._linear(output, length, target)
        )

    def _area(self, output: int, length: int, target: int) -> Iterable[tuple[int, int]]:
        begin, end = output * length, (output + 1) * length  # in parts of a pixel: `target` parts are one
        for pixel in range(begin // target, -(-end // target)):
            yield self.start + pixel, min(end, (pixel + 1) * target) - max(begin, pixel * target)

    def _linear(self, output: int, length: int, target: int) -> Iterable[tuple[int, int]]:
        center = (2 * output + 1) * length  # in halves of those parts
        left = (center - target) // (2 * target)
        right_weight = center - target * (2 * left + 1)
        last = self.end - self.start - 1
        yield self.start + max(left, 0), 2 * target - right_weight
        if right_weight:
            yield self.start + min(left + 1, last), right_weight


@dataclass(frozen=True, slots=True)
class Block:
    """Neighboring outputs, and the inputs that they need, counted from the filter's first."""

    outputs: slice
    inputs: slice
    matrix: Floats


@dataclass(frozen=True, slots=True)
class AxisFilter:
    """A span as matrices, for the samples of one plane along one axis."""

    inputs: slice
    target: int
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, span: AxisSpan, samples: Samples, dtype: DType) -> "AxisFilter":
        """Compute the matrices, of which only entries near the diagonal are kept."""
        blocks = []
        for begin in range(0, span.target, BLOCK):
            outputs = range(begin, min(begin + BLOCK, span.target))
            entries = [
                (output - begin, sample, weight * part)
                for output in outputs
                for pixel, weight in span.weights(output)
                for sample, part in samples(pixel)
            ]
            # no sample of this plane may touch the outputs: a green row of a region of one red pixel
            touched = [sample for _, sample, _ in entries] or [0]
            low, high = min(touched), max(touched) + 1
            matrix = np.zeros((len(outputs), high - low), dtype)
            for output, sample, weight in entries:
                matrix[output, sample - low] += weight
            blocks.append(Block(slice(outputs.start, outputs.stop), slice(low, high), matrix))
        first = min(block.inputs.start for block in blocks)
        last = max(block.inputs.stop for block in blocks)
        moved = (
            Block(block.outputs, slice(block.inputs.start - first, block.inputs.stop - first), block.matrix)
            for block in blocks
        )
        return cls(slice(first, last), span.target, tuple(moved))

    def down(self, plane: Floats) -> Floats:
        """Filter the columns of a plane: rows become `target` rows."""
        result = np.empty((self.target, plane.shape[1]), plane.dtype)
        for block in self.blocks:
            np.matmul(block.matrix, plane[block.inputs], out=result[block.outputs])
        return result

    def across(self, plane: Floats) -> Floats:
        """Filter the rows of a plane: columns become `target` columns."""
        result = np.empty((plane.shape[0], self.target), plane.dtype)
        for block in self.blocks:
            result[:, block.outputs] = plane[:, block.inputs] @ block.matrix.T
        return result


@dataclass(frozen=True, slots=True)
class Plane:
    """Samples of one kind among the bytes of a frame: every so many rows and bytes of a row."""

    row: int
    row_step: int
    column: int
    column_step: int

    def of(self, frame: Bytes) -> Bytes:
        """Return the samples as rows of bytes."""
        return frame[self.row :: self.row_step, self.column :: self.column_step]


@dataclass(frozen=True, slots=True)
class Term:
    """A plane, and its filters down and across: one summand of a channel."""

    plane: Plane
    down: Samples
    across: Samples


@dataclass(frozen=True, slots=True)
class Summand:
    """A term with its filters computed."""

    plane: Plane
    down: AxisFilter
    across: AxisFilter

    def of(self, frame: Bytes, dtype: DType) -> Floats:
        """Resample the plane: weighted sums, not divided."""
        samples = self.plane.of(frame)[self.down.inputs, self.across.inputs].astype(dtype)
        return self.across.across(self.down.down(samples))


class Resampler:
    """Channels of a frame, each a sum of terms, resampled to one size.

    `unit` is the sum of a channel's weights on its samples for a pixel. `norm` is what the sums are to be
    divided by.
    """

    def __init__(
        self, rows: AxisSpan, columns: AxisSpan, channels: Iterable[Iterable[Term]], unit: int
    ) -> None:
        self.norm: Final = rows.norm * columns.norm * unit
        self.exact_in_single: Final = self.norm * 0xFF < SINGLE_EXACT
        self._dtype: DType = np.dtype(np.float32 if self.exact_in_single else np.float64)
        self._channels = [
            [
                Summand(
                    term.plane,
                    AxisFilter.of(rows, term.down, self._dtype),
                    AxisFilter.of(columns, term.across, self._dtype),
                )
                for term in terms
            ]
            for terms in channels
        ]

    def sums(self, frame: Bytes) -> list[Floats]:
        """Resample each channel of a frame given as rows of bytes: whole numbers up to 255 `norm`."""
        return [self._sum(summands, frame) for summands in self._channels]

    def _sum(self, summands: list[Summand], frame: Bytes) -> Floats:
        result = summands[0].of(frame, self._dtype)
        for summand in summands[1:]:
            result += summand.of(frame, self._dtype)
        return result
