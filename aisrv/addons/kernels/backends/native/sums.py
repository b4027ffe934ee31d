"""How the sums of a layer become outputs: as words of 32 bits, or for int16 where they need it in 64.

Words are taken where no sum of any channel leaves them on its way to an output, which is proven from the
weights. Else windows of int16 are cut into pieces with sums of 32 bits; these are added and rescaled in 64.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import arithmetic, int16
from aisrv.addons.kernels.arithmetic import Bounds, Multiplier
from aisrv.addons.kernels.backends.native.formats import Target
from aisrv.addons.kernels.backends.native.pictures import Segments
from aisrv.addons.kernels.backends.native.recurrent import pack_factors
from aisrv.addons.kernels.backends.native.rescaling import LANES, empty_rescaling, pack_once, pack_rescaling
from aisrv.addons.kernels.backends.native.steps import STRUCTURES, aligned, structure
from aisrv.addons.kernels.params import (
    INT16,
    Conv2dParams,
    DepthwiseConv2dParams,
    FullyConnectedParams,
)

Layer: TypeAlias = Conv2dParams | DepthwiseConv2dParams | FullyConnectedParams
Multipliers: TypeAlias = tuple[Multiplier, ...]

PIECE_WEIGHTS: Final = (1 << 16) - 1
"""Weights of a piece, without their signs: times 32,768 they stay below 2**31."""


class Sums(NamedTuple):
    """What a tile needs to make outputs of its sums."""

    rescaling: npt.NDArray[np.int32]
    segments: Segments
    """Those of a window, cut where pieces end."""
    wide: ctypes.Structure
    keep_alive: tuple[object, ...]

    @property
    def are_wide(self) -> bool:
        """Return whether they may need 64 bits."""
        return bool(self.wide.is_needed)


def pack_words(
    params: Layer, weights: npt.NDArray[Any], multipliers: Multipliers, target: Target, sign: int = 0
) -> npt.NDArray[np.int32]:
    """The rescaling of words with weights [taps, channels]; NotImplementedError where sums may leave them."""
    if not target.tiles:
        raise NotImplementedError("sums of words in plain C")
    weights = weights.astype(np.int64)
    bias, bounds = _bias(params, weights), _bounds(params, target)
    if target.elements is INT16 and int16.is_wide(params.bias):
        int16.check_wide(multipliers, params.bias)
        return aligned(pack_once(bias, weights, multipliers, bounds))
    zero_in, zero_out = params.input_quant.zero_point, params.output_quant.zero_point
    start = bias - (zero_in + sign) * weights.sum(axis=0)
    words = pack_rescaling(start, bias, weights, zero_in, multipliers, zero_out, bounds, target.elements)
    return aligned(words)


def wide_sums(
    params: Layer, weights: npt.NDArray[Any], multipliers: Multipliers, counts: Sequence[int] = ()
) -> tuple[ctypes.Structure, tuple[object, ...]]:
    """What rescales sums of int16 in 64 bits, and what it points to; `counts` are segments by piece."""
    once = int16.is_wide(params.bias)
    pieces, bias = np.array(counts, np.int32), _bias(params, weights)
    factors = _factors_of_wide(multipliers) if once else pack_factors(multipliers)
    values: dict[str, Any] = {"pieces": pieces, "bias": bias, "factors": factors}
    return structure("wide_sums", **values, is_needed=1, rounds_once=int(once)), (pieces, bias, factors)


def layer_sums(
    params: Layer, weights: npt.NDArray[Any], multipliers: Multipliers, segments: Segments, target: Target
) -> Sums:
    """Decide how sums become outputs; weights are [taps, channels] in the order of the segments."""
    try:
        words = pack_words(params, weights, multipliers, target, target.format.sign)
    except NotImplementedError:
        if target.elements is not INT16:
            raise
    else:
        return Sums(words, segments, STRUCTURES["wide_sums"](), ())
    segments, counts = cut_segments(weights.astype(np.int64), segments, target.format.unit)
    wide, keep_alive = wide_sums(params, weights, multipliers, counts)
    blocks = -(-weights.shape[1] // LANES)
    return Sums(aligned(empty_rescaling(blocks)), segments, wide, keep_alive)


def cut_segments(
    weights: npt.NDArray[np.int64], segments: Segments, unit: int
) -> tuple[Segments, Sequence[int]]:
    """Cut segments, between units, so that pieces of them have sums of 32 bits; how many each piece has."""
    cut: Segments = []
    counts: list[int] = []
    sizes = np.abs(weights)
    reach = np.zeros(weights.shape[1], np.int64)
    at = count = 0
    for offset, length in segments:
        begin = 0
        for end in range(0, length, unit):
            more = sizes[at + end : at + min(end + unit, length)].sum(axis=0)
            if (reach + more).max() > PIECE_WEIGHTS:
                if end > begin:
                    cut.append((offset + begin, end - begin))
                    count += 1
                counts.append(count)
                begin, count, reach = end, 0, np.zeros_like(reach)
            reach = reach + more
        cut.append((offset + begin, length - begin))
        count += 1
        at += length
    return cut, (*counts, count)


def _factors_of_wide(multipliers: Multipliers) -> npt.NDArray[np.int64]:
    """The 15 bits of each mantissa, and the shift to the right."""
    rows = [(int16.reduced_mantissa(each), 0, 15 - each.shift) for each in multipliers]
    return np.array(rows, np.int64)


def _bias(params: Layer, weights: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.array(params.bias, np.int64) if params.bias else np.zeros(weights.shape[1], np.int64)


def _bounds(params: Layer, target: Target) -> Bounds:
    return arithmetic.activation_bounds(params.activation, params.output_quant, target.elements)
