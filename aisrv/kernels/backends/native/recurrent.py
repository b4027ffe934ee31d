"""LSTM and SVDF as steps of the library."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import Multiplier
from aisrv.kernels.backends.native.steps import Kind, Step, address
from aisrv.kernels.backends.native.structures import Lstm, Svdf
from aisrv.kernels.recurrent import LstmParams, SvdfParams

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
    factors = _factors((update.forget, update.remember, update.show))
    input_factors, state_factors = _factors(params.input_multipliers), _factors(params.state_multipliers)
    sigmoid, tanh, cell_tanh = map(_halfwords, (update.sigmoid, update.tanh, update.cell_tanh))
    row = np.zeros(max(weights.shape[1], recurrent.shape[1]), np.int16)
    gates = np.zeros(4 * units, np.int64)
    step = Lstm(
        input=address(params.input),
        output=address(params.output),
        state=address(params.state),
        cells=address(update.cells),
        weights=address(weights),
        recurrent=address(recurrent),
        bias=address(params.bias),
        input_factors=address(input_factors),
        state_factors=address(state_factors),
        factors=address(factors),
        sigmoid=address(sigmoid),
        tanh=address(tanh),
        cell_tanh=address(cell_tanh),
        row=address(row),
        gates=address(gates),
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
    made = weights, recurrent, factors, input_factors, state_factors, sigmoid, tanh, cell_tanh, row, gates
    return Step(Kind.LSTM, step, (params, *made))


def svdf(params: SvdfParams) -> Step:
    """Prepare SVDF; NotImplementedError for a multiplier beyond 64 bits, and a memory of nothing."""
    batch, inputs = params.input.shape
    if not params.times.shape[1]:
        raise NotImplementedError("a memory of nothing")
    features, times = _rows(params.features), np.ascontiguousarray(params.times, np.int16)
    factors = _factors((params.to_state, params.to_output))
    row = np.zeros(features.shape[1], np.int16)
    step = Svdf(
        input=address(params.input),
        output=address(params.output),
        state=address(params.state),
        features=address(features),
        times=address(times),
        bias=address(params.bias),
        factors=address(factors),
        row=address(row),
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
    return Step(Kind.SVDF, step, (params, features, times, factors, row))


def _rows(matrix: npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    """Each row as int16, filled up to whole registers."""
    rows, columns = matrix.shape
    filled = np.zeros((rows, -(-columns // LANES) * LANES), np.int16)
    filled[:, :columns] = matrix
    return filled


def _halfwords(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    return table.astype(np.int16)


def _factors(multipliers: Sequence[Multiplier]) -> npt.NDArray[np.int64]:
    """Mantissa, shift to the left and shift to the right of each."""
    words = np.array(
        [(each.mantissa, max(each.shift, 0), max(-each.shift, 0)) for each in multipliers], np.int64
    )
    if (words[:, 1] > _MOST_LEFT).any() or (words[:, 2] > _MOST_RIGHT).any():
        raise NotImplementedError("a multiplier that shifts a word out of 64 bits")
    return words
