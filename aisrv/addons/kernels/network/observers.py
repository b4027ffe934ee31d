"""Observers of a network: callbacks around its operators, with their tensors, times and work.

    class Largest(Observer):
        def after(self, operator):
            print(operator, operator.outputs[0].array.max())

    observed(network, Largest()).invoke()

Tensors are views of the network's memory: they hold until an operator reuses it, and whoever wants to keep
one copies it (`tensor.array.copy()`). A network without observers pays nothing for them.
"""

import io
import math
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from aisrv.addons.kernels.backend import Kernel, kernel_origin
from aisrv.addons.kernels.network.network import Network, PreparedOperator
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.model import Model, Operator
from aisrv.model.dtypes import DTYPES
from aisrv.values.whole_file import write_whole


class Observer:
    """Base of observers: override what is of interest. An exception ends the run."""

    def before(self, operator: PreparedOperator) -> None:
        """See an operator with its inputs filled."""

    def after(self, operator: PreparedOperator) -> None:
        """See an operator with its outputs filled."""


def observed(network: Network, observer: Observer, operators: Collection[int] | None = None) -> Network:
    """The same network on the same memory, with an observer around some operators (default: all) by index."""
    return Network(
        network.model,
        network.plan,
        network.tensors,
        tuple(
            _watched(each, observer) if operators is None or each.operator.index in operators else each
            for each in network.operators
        ),
    )


def _watched(operator: PreparedOperator, observer: Observer) -> PreparedOperator:
    kernel, before, after = operator.kernel, observer.before, observer.after

    def run() -> None:
        before(operator)
        kernel()
        after(operator)

    return PreparedOperator(operator.operator, run, operator.inputs, operator.outputs)


class TensorCopies(Observer):
    """Keeps a copy of what each operator wrote in the last run, by tensor."""

    def __init__(self) -> None:
        """Start without any."""
        self.tensors: Final[dict[int, bytes]] = {}

    def after(self, operator: PreparedOperator) -> None:
        """Copy the outputs."""
        for tensor in operator.outputs:
            self.tensors[tensor.tensor.index] = tensor.buffer.tobytes()


class TensorFiles(Observer):
    """Writes all tensors that are computed or given into a folder, one below it for each run.

    `000001/input-0.npy` is an input of the first run, `000001/003-CONV_2D-12.npy` what operator 3 wrote to
    tensor 12. Tensors of types that NumPy has no array for here are left out.
    """

    def __init__(self, folder: Path) -> None:
        """Create the folder; OSError where that fails."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._run = 0
        self._last = -1
        self._seen: set[int] = set()

    def before(self, operator: PreparedOperator) -> None:
        """Write inputs that no operator has written."""
        if operator.operator.index <= self._last or not self._run:
            self._run += 1
            self._seen.clear()
            self._place.mkdir(exist_ok=True)
        self._last = operator.operator.index
        for tensor in operator.inputs:
            if not tensor.tensor.is_constant:
                self._write(tensor, f"input-{tensor.tensor.index}")

    def after(self, operator: PreparedOperator) -> None:
        """Write the outputs."""
        for tensor in operator.outputs:
            self._seen.discard(tensor.tensor.index)
            self._write(
                tensor, f"{operator.operator.index:03}-{operator.operator.name}-{tensor.tensor.index}"
            )

    @property
    def _place(self) -> Path:
        return self._folder / f"{self._run:06}"

    def _write(self, tensor: NetworkTensor, name: str) -> None:
        if tensor.tensor.index not in self._seen and tensor.tensor.type in DTYPES:
            self._seen.add(tensor.tensor.index)
            content = io.BytesIO()
            np.save(content, tensor.array)
            write_whole(self._place / f"{name}.npy", [content.getvalue()])


class Work(NamedTuple):
    """The size of an operator's task."""

    macs: int
    """Multiply-accumulates of convolutions and fully connected layers; taps outside of an input count."""
    bytes_read: int
    """Bytes of its inputs, constants included, each once."""
    bytes_written: int


def operator_work(model: Model, operator: Operator) -> Work:
    """Work of one operator of a model that loads."""
    inputs = [model.tensors[index].nbytes for index in operator.inputs if index >= 0]
    outputs = [model.tensors[index].nbytes for index in operator.outputs]
    return Work(_macs(model, operator), sum(inputs), sum(outputs))


def _macs(model: Model, operator: Operator) -> int:
    if operator.name not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") or operator.is_custom:
        return 0
    weights = model.tensors[operator.inputs[1]].shape
    outputs = math.prod(model.tensors[operator.outputs[0]].shape)
    if operator.name == "DEPTHWISE_CONV_2D":
        return outputs * weights[1] * weights[2]
    return outputs * math.prod(weights[1:])


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Time of one operator on this host; that says nothing about the device."""

    index: int
    """Position in execution order."""
    name: str
    """Name of the operation, such as CONV_2D."""
    seconds: float
    """Median over the runs."""
    work: Work
    """The size of its task."""
    computed_by: str
    """The backend, or `network`."""


def measure(network: Network, runs: int) -> tuple[OperatorCost, ...]:
    """Run a network on its inputs as they are and time every operator; ValueError for fewer runs than one."""
    if runs < 1:
        raise ValueError(f"{runs} runs: there must be one at least")
    kernels = [operator.kernel for operator in network.operators]
    ticks: list[list[int]] = [[] for _ in kernels]
    for _ in range(runs):
        for kernel, taken in zip(kernels, ticks, strict=True):
            taken.append(_time(kernel))
    return tuple(
        OperatorCost(
            each.operator.index,
            each.operator.name,
            median(taken) / 1e9,
            operator_work(network.model, each.operator),
            kernel_origin(each.kernel),
        )
        for each, taken in zip(network.operators, ticks, strict=True)
    )


def _time(kernel: Kernel) -> int:
    start = time.perf_counter_ns()
    kernel()
    return time.perf_counter_ns() - start
