"""Networks for tests and benchmarks: each function returns a `.tflite` file, the same bytes at every call.

`run` is the interpreter called directly: what every way through a device must equal.
"""

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import tflite
from tflite import ActivationFunctionType, BuiltinOperator, Padding, TensorType

from aisrv import digits
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import ABSENT, Network, NetworkOperator, constant_tensor

MMAC_INPUT_BYTES: Final = 96 * 96 * 3
MMAC_MACS: Final = 51_426_560
"""Multiply-accumulates of one run of `mmac_network`."""
BIG_INPUT_BYTES: Final = 1024

_UNIT: Final = Quantization.per_tensor(1.0, 0)


def run(model: bytes, *inputs: bytes) -> list[bytes]:
    """Run a model once with the reference kernels on one thread; tensors in the model's order."""
    try:
        from tflite_runtime.interpreter import Interpreter, OpResolverType
    except ModuleNotFoundError:  # there is none for Python 3.12 and later
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    interpreter = Interpreter(
        model_content=model, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for details, data in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(
            details["index"], np.frombuffer(data, details["dtype"]).reshape(details["shape"])
        )
    interpreter.invoke()
    return [
        interpreter.get_tensor(details["index"]).tobytes() for details in interpreter.get_output_details()
    ]


def adding_network(inputs: int = 2, outputs: int = 1, length: int = 16) -> bytes:
    """Output j is the saturated sum of inputs j and j+1, modulo `inputs`; all are int8 [1, length]."""
    sources = tuple(f"input{number}" for number in range(inputs))
    sums = tuple(f"sum{number}" for number in range(outputs))
    tensors = tuple(Tensor(name, (1, length), TensorType.INT8, _UNIT) for name in sources + sums)
    operators = tuple(
        NetworkOperator(
            BuiltinOperator.ADD, (sources[number % inputs], sources[(number + 1) % inputs]), (sums[number],)
        )
        for number in range(outputs)
    )
    return bytes(Network(tensors, operators, sources, sums, "adding"))


def two_input_add_network(length: int = 16) -> bytes:
    """The sum of two int8 [1, length] inputs, saturated to -128 to 127."""
    return adding_network(2, 1, length)


def summing_network() -> bytes:
    """The sum of the last three inputs, float [1, 4]: they are kept in a variable tensor."""
    tensors = (
        Tensor("input", (1, 4), TensorType.FLOAT32),
        constant_tensor("feature", np.eye(4, dtype=np.float32)),
        constant_tensor("time", np.ones((4, 3), np.float32)),
        Tensor("state", (1, 12), TensorType.FLOAT32, is_variable=True),
        Tensor("sum", (1, 4), TensorType.FLOAT32),
    )
    inputs = ("input", "feature", "time", ABSENT, "state")
    operator = NetworkOperator(BuiltinOperator.SVDF, inputs, ("sum",), {"rank": 1})
    return bytes(Network(tensors, (operator,), ("input",), ("sum",), "sums"))


def floats(*values: float) -> bytes:
    """Bytes of a float tensor."""
    return np.array(values, np.float32).tobytes()


@functools.cache
def mmac_network() -> bytes:
    """An image classifier of MMAC_MACS multiply-accumulates: int8 [1, 96, 96, 3] to 10 scores."""
    layers = Layers((96, 96, 3))
    for channels, stride in ((16, 2), (32, 2), (64, 1), (64, 1), (64, 2), (128, 1)):
        layers.convolution(channels, stride)
    layers.average_pool()
    layers.fully_connected(10)
    layers.softmax()
    return bytes(layers.model("about 50 million multiply-accumulates"))


@functools.cache
def big_network(nbytes: int = 4 * 2**20) -> bytes:
    """A fully connected layer, int8 [1, 1024] to about nbytes/1028 scores, in a file of exactly `nbytes`."""
    per_output = BIG_INPUT_BYTES + 4  # its weights and its bias
    outputs = (nbytes - 2048) // per_output
    if nbytes % 16 or outputs < 1:
        raise ValueError(f"big_network makes files of 4096 bytes or more, a multiple of 16, not {nbytes}")
    layers = Layers((BIG_INPUT_BYTES,))
    layers.fully_connected(outputs)
    model = layers.model("big")
    unpadded = len(bytes(replace(model, metadata={"padding": b""})))
    return bytes(replace(model, metadata={"padding": bytes(nbytes - unpadded)}))


def cut_in_two(model: bytes | None = None, at: str = "features") -> tuple[bytes, bytes]:
    """Cut a chain of layers (default: the digits network) at a tensor, which joins the two parts."""
    whole = read(digits.model_bytes() if model is None else model)
    first = 1 + next(i for i, operator in enumerate(whole.operators) if at in operator.outputs)
    return (
        _part(whole, whole.operators[:first], whole.inputs, (at,)),
        _part(whole, whole.operators[first:], (at,), whole.outputs),
    )


def unknown_operator_network(code: int = 9999) -> bytes:
    """One operator with a builtin code that the schema does not have."""
    return _single_operator(NetworkOperator(code, ("input",), ("output",)))


def custom_operator_network(name: str = "NoSuchOperator") -> bytes:
    """One custom operator that no interpreter has."""
    return _single_operator(
        NetworkOperator(BuiltinOperator.CUSTOM, ("input",), ("output",), custom_code=name)
    )


def wrong_version(model: bytes, version: int = 2) -> bytes:
    """The same file with another schema version."""
    table = tflite.Model.GetRootAs(model, 0)._tab
    position = table.Pos + table.Offset(4)  # `version` is the table's first field
    return model[:position] + version.to_bytes(4, "little") + model[position + 4 :]


def truncations(model: bytes) -> Iterator[bytes]:
    """Beginnings of the file: nothing, within and around the header, and up to one byte short."""
    for length in (
        0,
        1,
        3,
        4,
        7,
        8,
        9,
        16,
        64,
        len(model) // 4,
        len(model) // 2,
        len(model) - 16,
        len(model) - 1,
    ):
        yield model[:length]


class Layers:
    """A chain of int8 layers with random weights, scaled so that activations do not fade on the way."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0) -> None:
        self._random = np.random.RandomState(seed)
        self._activation = Quantization.per_tensor(1 / 16, 0)
        self._tensors = [Tensor("input", (1, *shape), TensorType.INT8, self._activation)]
        self._operators: list[NetworkOperator] = []
        self._last = self._tensors[0]
        self.macs = 0

    def convolution(self, channels: int, stride: int = 1) -> None:
        """Add a 3x3 convolution with ReLU, one scale for each channel."""
        _, height, width, depth = self._last.shape
        shape = (1, -(-height // stride), -(-width // stride), channels)
        # Input and output have the same scale, so the weights' scale alone maps sums to outputs.
        scales = self._weight_scale(9 * depth) * self._random.uniform(0.75, 1.25, channels)
        self.macs += math.prod(shape) * 9 * depth
        options = {
            "padding": Padding.SAME,
            "stride_w": stride,
            "stride_h": stride,
            "fused_activation_function": ActivationFunctionType.RELU,
        }
        constants = self._constants((channels, 3, 3, depth), Quantization.per_channel(scales, dimension=0))
        self._add(BuiltinOperator.CONV_2D, constants, shape, options)

    def fully_connected(self, units: int) -> None:
        """Add a fully connected layer, one scale for all."""
        depth = math.prod(self._last.shape)
        self.macs += depth * units
        constants = self._constants((units, depth), Quantization.per_tensor(self._weight_scale(depth), 0))
        self._add(BuiltinOperator.FULLY_CONNECTED, constants, (1, units), {})

    def average_pool(self) -> None:
        """Average each channel over the whole picture."""
        _, height, width, depth = self._last.shape
        options = {
            "padding": Padding.VALID,
            "stride_w": 1,
            "stride_h": 1,
            "filter_width": width,
            "filter_height": height,
        }
        self._add(BuiltinOperator.AVERAGE_POOL_2D, (), (1, 1, 1, depth), options)

    def softmax(self) -> None:
        """Turn scores into int8 probabilities."""
        self._activation = Quantization.per_tensor(1 / 256, -128)
        self._add(BuiltinOperator.SOFTMAX, (), self._last.shape, {"beta": 1.0})

    def model(self, description: str) -> Network:
        """The layers so far."""
        return Network(
            tuple(self._tensors), tuple(self._operators), ("input",), (self._last.name,), description
        )

    def _weight_scale(self, fan_in: int) -> float:
        # Random int8 weights have a deviation of 74, and a ReLU passes half of the power: 74 / 2**0.5 is 52.
        return 1 / (52 * math.sqrt(fan_in))

    def _constants(self, shape: tuple[int, ...], quantization: Quantization) -> tuple[Tensor, Tensor]:
        number = len(self._operators)
        weights = self._random.randint(-127, 128, shape).astype(np.int8)
        bias = self._random.randint(-1000, 1000, shape[0]).astype(np.int32)
        bias_scales = (scale * self._activation.scales[0] for scale in quantization.scales)
        return (
            constant_tensor(f"weights{number}", weights, quantization),
            constant_tensor(f"bias{number}", bias, Quantization.per_channel(bias_scales, dimension=0)),
        )

    def _add(
        self, code: int, constants: tuple[Tensor, ...], shape: tuple[int, ...], options: dict[str, Any]
    ) -> None:
        output = Tensor(f"layer{len(self._operators)}", shape, TensorType.INT8, self._activation)
        inputs = (self._last.name, *(constant.name for constant in constants))
        self._operators.append(NetworkOperator(code, inputs, (output.name,), options))
        self._tensors += [*constants, output]
        self._last = output


def read(model: bytes) -> Network:
    """Read a file that the writer wrote, by the schema's own classes."""
    root = tflite.Model.GetRootAs(model, 0)
    subgraph = root.Subgraphs(0)
    tensors = tuple(_read_tensor(root, subgraph.Tensors(i)) for i in range(subgraph.TensorsLength()))

    def names(indices: Any) -> tuple[str, ...]:
        return tuple(ABSENT if index < 0 else tensors[index].name for index in indices)

    operators = []
    for i in range(subgraph.OperatorsLength()):
        operator = subgraph.Operators(i)
        code = root.OperatorCodes(operator.OpcodeIndex())
        operators.append(
            NetworkOperator(
                code.BuiltinCode(),
                names(operator.InputsAsNumpy()),
                names(operator.OutputsAsNumpy()),
                _read_options(operator),
                (code.CustomCode() or b"").decode(),
            )
        )
    metadata = {
        root.Metadata(i).Name().decode(): _read_buffer(root, root.Metadata(i).Buffer()) or b""
        for i in range(root.MetadataLength())
    }
    return Network(
        tensors,
        tuple(operators),
        names(subgraph.InputsAsNumpy()),
        names(subgraph.OutputsAsNumpy()),
        root.Description().decode(),
        metadata,
        root.Version(),
    )


def _read_tensor(root: Any, tensor: Any) -> Tensor:
    parameters = tensor.Quantization()
    quantization = None
    if parameters is not None:
        quantization = Quantization(
            tuple(parameters.ScaleAsNumpy().tolist()),
            tuple(parameters.ZeroPointAsNumpy().tolist()),
            parameters.QuantizedDimension(),
        )
    return Tensor(
        tensor.Name().decode(),
        tuple(tensor.ShapeAsNumpy().tolist()) if tensor.ShapeLength() else (),
        tensor.Type(),
        quantization,
        _read_buffer(root, tensor.Buffer()),
        tensor.IsVariable(),
    )


def _read_buffer(root: Any, index: int) -> bytes | None:
    buffer = root.Buffers(index)
    return buffer.DataAsNumpy().tobytes() if buffer.DataLength() else None


def _read_options(operator: Any) -> dict[str, Any]:
    types = {name: code for name, code in vars(tflite.BuiltinOptions).items() if not name.startswith("_")}
    table = next(name for name, code in types.items() if code == operator.BuiltinOptionsType())
    if table == "NONE":
        return {}
    options = getattr(tflite, table)()
    options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
    fields = [name.removeprefix(f"{table}Add") for name in dir(tflite) if name.startswith(f"{table}Add")]
    values = {}
    for field in fields:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", field).lower()
        if hasattr(options, f"{field}Length"):
            values[name] = tuple(getattr(options, f"{field}AsNumpy")().tolist())
        else:
            values[name] = getattr(options, field)()
    return values


def _part(
    whole: Network, operators: tuple[NetworkOperator, ...], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> bytes:
    used = set(inputs).union(chain.from_iterable(each.inputs + each.outputs for each in operators))
    tensors = tuple(tensor for tensor in whole.tensors if tensor.name in used)
    return bytes(Network(tensors, operators, inputs, outputs, f"part of {whole.description}"))


def _single_operator(operator: NetworkOperator) -> bytes:
    tensors = tuple(Tensor(name, (1, 16), TensorType.INT8, _UNIT) for name in ("input", "output"))
    return bytes(Network(tensors, (operator,), ("input",), ("output",)))
