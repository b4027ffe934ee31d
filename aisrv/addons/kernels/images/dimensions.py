"""The dimensions that C kernels walk through: number of elements, and their distances in two tensors."""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Dimension(NamedTuple):
    """`struct dimension`: elements along it, and the bytes from one to the next in two tensors."""

    extent: int
    step1: int
    step2: int


def packed(dimensions: Iterable[Dimension]) -> bytes:
    """Pack the table for the kernels."""
    return b"".join(struct.pack("<3i", *dimension) for dimension in dimensions)


def broadcast_dimensions(
    shape1: Sequence[int], shape2: Sequence[int], shape: Sequence[int]
) -> tuple[Dimension, ...]:
    """Return the places of the elements of two int8 tensors that broadcast to `shape`; one at least."""
    return merged(shape, _steps(shape1, shape), _steps(shape2, shape)) or (Dimension(1, 0, 0),)


def merged(shape: Sequence[int], steps1: Sequence[int], steps2: Sequence[int]) -> tuple[Dimension, ...]:
    """Return the dimensions of `shape`, the outermost first: without those of one element, neighbors joined.

    Two are joined if both tensors go on from the inner one to the next of the outer one.
    """
    found: list[Dimension] = []
    for inner in map(Dimension, shape, steps1, steps2):
        if inner.extent == 1:
            continue
        last = found[-1] if found else None
        if last and last[1:] == (inner.extent * inner.step1, inner.extent * inner.step2):
            found[-1] = inner._replace(extent=last.extent * inner.extent)
        else:
            found.append(inner)
    return tuple(found)


def _steps(shape: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    one = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), shape, row_steps(shape))
    return np.broadcast_to(one, target).strides


def row_steps(shape: Sequence[int], itemsize: int = 1) -> tuple[int, ...]:
    """Return the bytes from one element to the next along each dimension of a tensor in memory."""
    steps = [itemsize]
    for extent in reversed(shape[1:]):
        steps.append(steps[-1] * extent)
    return tuple(reversed(steps[: len(shape)]))
