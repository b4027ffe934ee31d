"""LSTM and SVDF as steps of the library."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.arithmetic import Multiplier
from aisrv.addons.kernels.backends.native.steps import Step, make_step
from aisrv.addons.kernels.recurrent import LstmParams, SvdfParams

LANES: Final = 16
"""Elements of a register of int16: rows of weights are filled up with zeros to whole ones."""

_MOST_LEFT: Final = 31
_MOST_RIGHT: Final = 62


def lstm(params: LstmParams) -> Step:
    """Prepare UNIDIRECTIONAL_SEQUENCE_LSTM; NotImplementedError for a multiplier beyond 64 bits."""
    update = params.update
    steps, batch, inputs = params.input.shape
    units = params.state.shape[1]
    weights, recurrent = _rows(params.weights.T), _rows(params.recurrent.T)
    return make_step(
        "LSTM",
        "lstm",
        input=params.input,
        output=params.output,
        state=params.state,
        cells=update.cells,
        weights=weights,
        recurrent=recurrent,
        bias=params.bias,
        input_factors=pack_factors(params.input_multipliers),
        state_factors=pack_factors(params.state_multipliers),
        factors=pack_factors((update.forget, update.remember, update.show)),
        sigmoid=update.sigmoid.astype(np.int16),
        tanh=update.tanh.astype(np.int16),
        cell_tanh=update.cell_tanh.astype(np.int16),
        row=np.zeros(max(weights.shape[1], recurrent.shape[1]), np.int16),
        gates=np.zeros(4 * units, np.int64),
        steps=steps,
        batch=batch,
        inputs=inputs,
        units=units,
        input_width=weights.shape[1],
        state_width=recurrent.shape[1],
        input_step=params.input.strides[0],
        input_batch=params.input.strides[1],
        output_step=params.output.strides[0],
        output_batch=params.output.strides[1],
        input_zero=params.input_zero,
        state_zero=params.state_zero,
        low=update.limits[0],
        high=update.limits[1],
    )


def svdf(params: SvdfParams) -> Step:
    """Prepare SVDF; NotImplementedError for a multiplier beyond 64 bits, and a memory of nothing."""
    batch, inputs = params.input.shape
    if not params.times.shape[1]:
        raise NotImplementedError("a memory of nothing")
    features, times = _rows(params.features), np.ascontiguousarray(params.times, np.int16)
    return make_step(
        "SVDF",
        "svdf",
        input=params.input,
        output=params.output,
        state=params.state,
        features=features,
        times=times,
        bias=params.bias,
        factors=pack_factors((params.to_state, params.to_output)),
        row=np.zeros(features.shape[1], np.int16),
        batch=batch,
        inputs=inputs,
        width=features.shape[1],
        units=len(params.bias),
        rank=params.rank,
        memory=times.shape[1],
        is_wide=params.state.dtype == np.int16,
        input_zero=params.input_zero,
        state_zero=params.state_zero,
        output_zero=params.output_zero,
    )


def _rows(matrix: npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    """Each row as int16, filled up to whole registers."""
    rows, columns = matrix.shape
    filled = np.zeros((rows, -(-columns // LANES) * LANES), np.int16)
    filled[:, :columns] = matrix
    return filled


def pack_factors(multipliers: Sequence[Multiplier]) -> npt.NDArray[np.int64]:
    """Mantissa, shift to the left and shift to the right of each, as `struct factor` has them."""
    words = np.array(
        [(each.mantissa, max(each.shift, 0), max(-each.shift, 0)) for each in multipliers], np.int64
    )
    if (words[:, 1] > _MOST_LEFT).any() or (words[:, 2] > _MOST_RIGHT).any():
        raise NotImplementedError("a multiplier that shifts a word out of 64 bits")
    return words
