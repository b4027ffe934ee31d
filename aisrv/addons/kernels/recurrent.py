"""Parameters of recurrent operators, and the interface of backends that have kernels for them.

Arrays are the tensors themselves, and what was made of constants: without zero points, gates side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from aisrv.addons.kernels.arithmetic import Multiplier
from aisrv.addons.kernels.backend import Kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Words: TypeAlias = "npt.NDArray[np.int64]"
Reals: TypeAlias = "npt.NDArray[np.float64]"
"""Whole numbers, which BLAS multiplies exactly as such."""


@dataclass(frozen=True, slots=True)
class CellUpdate:
    """The step of an LSTM from the sums of its gates, of 16 bits, to its new states."""

    cells: "npt.NDArray[np.int16]"
    """The cell state, [batch, units]."""
    sigmoid: Words
    """By the 16 bits of a gate's sum, 15 bits after the point."""
    tanh: Words
    """Table of the candidate, as `sigmoid`."""
    cell_tanh: Words
    """By the 16 bits of a cell's state, 15 bits after the point."""
    forget: Multiplier
    """From gate * cell to a cell's state."""
    remember: Multiplier
    """From gate * candidate to a cell's state."""
    show: Multiplier
    """From gate * tanh of the cell to the hidden state."""
    limits: tuple[int, int]
    """The least and the largest cell state."""


@dataclass(frozen=True, slots=True)
class LstmParams:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of int8, with a cell state of int16.

    Gates stand in the order input, forget, output, candidate, each with a column for each unit.
    """

    input: "npt.NDArray[np.int8]"
    """[steps, batch, inputs], with any strides."""
    output: "npt.NDArray[np.int8]"
    """[steps, batch, units], with any strides."""
    state: "npt.NDArray[np.int8]"
    """The hidden state, [batch, units]."""
    input_zero: int
    state_zero: int
    weights: Reals
    """Weights of the input, [inputs, 4 * units]."""
    recurrent: Reals
    """Weights of the hidden state, [units, 4 * units]."""
    bias: Words
    """[4 * units]."""
    input_multipliers: Sequence[Multiplier]
    """For each column, from sums to steps of 2**-12."""
    state_multipliers: Sequence[Multiplier]
    """Factors of the hidden state's sums, as of the input's."""
    update: CellUpdate


@dataclass(frozen=True, slots=True)
class SvdfParams:
    """SVDF of int8 with a state of int8 or int16."""

    input: "npt.NDArray[np.int8]"
    """[batch, inputs]."""
    output: "npt.NDArray[np.int8]"
    """[batch, units]."""
    state: "npt.NDArray[np.int8 | np.int16]"
    """[batch, filters, memory], the newest last."""
    input_zero: int
    state_zero: int
    output_zero: int
    features: "npt.NDArray[np.int8]"
    """[filters, inputs]."""
    times: "npt.NDArray[np.int8 | np.int16]"
    """[filters, memory]."""
    bias: Words
    """[units]."""
    rank: int
    """Filters of a unit, which follow each other."""
    to_state: Multiplier
    to_output: Multiplier


@runtime_checkable
class RecurrentBackend(Protocol):
    """A backend that has recurrent operators, too; NotImplementedError leaves one to the network."""

    def lstm(self, params: LstmParams) -> Kernel:
        """Prepare UNIDIRECTIONAL_SEQUENCE_LSTM."""

    def svdf(self, params: SvdfParams) -> Kernel:
        """Prepare SVDF."""
