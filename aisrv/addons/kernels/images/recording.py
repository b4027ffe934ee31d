"""The steps of a model: its kernels with their parameters, and the constants that they read.

The model is loaded as a network of kernels is, with all checks, on a backend that computes nothing and
records what it is given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from aisrv.addons.kernels.backend import Kernel, TableBackend
from aisrv.addons.kernels.checks import address
from aisrv.addons.kernels.errors import KernelError
from aisrv.addons.kernels.images.parameters import STEPS, Places, Step
from aisrv.addons.kernels.images.structures import KERNELS
from aisrv.addons.kernels.images.tensor_steps import TENSOR_STEPS
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.network import Network, PreparedOperator
from aisrv.addons.kernels.params import Buffer, Conv2dParams
from aisrv.model import Tensor
from aisrv.model.relocatable.errors import BuildError
from aisrv.model.relocatable.network import MOST_DIMENSIONS, PLACE_WEIGHTS, NodeInfo, TensorInfo
from aisrv.model.schema import OPERATORS

CONSTANT_ALIGNMENT: Final = 4


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of the network: its description and the call of its kernel."""

    info: NodeInfo
    step: Step


@dataclass(frozen=True, slots=True)
class RecordedNetwork:
    """Everything that an image of a model is made of."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    nodes: tuple[Node, ...]
    activations_size: int
    weights: bytes


def record(model: bytes) -> RecordedNetwork:
    """Read a `.tflite` file; BuildError names the operator that no C kernel computes."""
    try:
        network = load_network(model, RecordingBackend())
    except KernelError as error:
        raise BuildError(str(error)) from error
    places = NetworkPlaces(network)
    nodes = []
    for operator in network.operators:
        try:
            nodes.append(_node(operator, places))
        except (BuildError, KernelError) as error:
            raise BuildError(f"{operator}: {error}") from error
    return RecordedNetwork(
        inputs=tuple(_described(tensor, places) for tensor in _tensors(network, network.model.inputs)),
        outputs=tuple(_described(tensor, places) for tensor in _tensors(network, network.model.outputs)),
        nodes=tuple(nodes),
        activations_size=network.plan.head,
        weights=bytes(places.constants),
    )


class RecordingBackend(TableBackend):
    """A kernel backend whose kernels only know what they would have to compute."""

    def __init__(self) -> None:
        super().__init__({operator: partial(_Recorded, step) for operator, step in STEPS.items()})

    def grouped_conv2d(self, params: Conv2dParams) -> Kernel:
        return _Recorded(STEPS["conv2d"], params)


@dataclass(frozen=True, slots=True)
class _Recorded:
    prepare: Callable[[Any, Places], Step]
    params: object

    def __call__(self) -> None:
        raise NotImplementedError("a recorded kernel computes nothing")

    def step(self, places: Places) -> Step:
        return self.prepare(self.params, places)


class NetworkPlaces:
    """Places of a network's tensors, and the constants that its kernels read."""

    def __init__(self, network: Network) -> None:
        self.constants: Final = bytearray()
        self._spans: list[tuple[int, int, int]] = []
        self._known: dict[bytes, int] = {}
        for each in network.plan.allocations:
            if each.tensor < len(network.tensors) and (buffer := network.tensors[each.tensor].buffer).nbytes:
                self._spans.append((address(buffer), buffer.nbytes, each.offset))
        self._constants = {
            address(tensor.buffer): tensor.buffer
            for tensor in network.tensors
            if tensor.tensor.is_constant and tensor.buffer.nbytes
        }

    def buffer(self, buffer: Buffer) -> int:
        """Return the place of a tensor: in the activations, or among the constants."""
        start = address(buffer)
        for first, size, offset in self._spans:
            if first == start and buffer.nbytes <= size:
                return offset
        if start in self._constants:
            return self.constant(bytes(buffer))
        raise BuildError("reads a tensor that is made anew for each run, which no C kernel does")

    def constant(self, data: bytes) -> int:
        """Place a copy of constants; the same bytes get the same place."""
        if data not in self._known:
            self.constants.extend(bytes(-len(self.constants) % CONSTANT_ALIGNMENT))
            self._known[data] = len(self.constants)
            self.constants.extend(data)
            self.constants.extend(bytes(-len(self.constants) % CONSTANT_ALIGNMENT))
        return self._known[data] | PLACE_WEIGHTS


def _node(operator: PreparedOperator, places: NetworkPlaces) -> Node:
    kernel, name = operator.kernel, operator.operator.name
    if name in TENSOR_STEPS:
        step = TENSOR_STEPS[name](operator, places)
    elif isinstance(kernel, _Recorded):
        step = kernel.step(places)
    else:
        raise BuildError(f"no C kernel for it; known ones: {', '.join(KERNELS)}")
    label = operator.outputs[0].tensor.name if operator.outputs else name
    info = NodeInfo(OPERATORS.index(name), KERNELS.index(step.kernel), step.multiplications, 0, 0, label)
    return Node(info, step)


def _tensors(network: Network, indices: tuple[int, ...]) -> list[tuple[Tensor, Buffer]]:
    return [(network.tensors[index].tensor, network.tensors[index].buffer) for index in indices]


def _described(tensor: tuple[Tensor, Buffer], places: NetworkPlaces) -> TensorInfo:
    value, buffer = tensor
    if len(value.shape) > MOST_DIMENSIONS:
        raise BuildError(f"tensor {value.index} has {len(value.shape)} dimensions, at most six can be told")
    if value.quantization is not None and value.quantization.is_per_channel:
        raise BuildError(f"tensor {value.index}, an input or output, has more than one scale")
    place = places.buffer(buffer)
    if place & PLACE_WEIGHTS:
        raise BuildError(f"tensor {value.index}, an output, is a constant")
    return TensorInfo.of(value, place)
