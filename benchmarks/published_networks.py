"""The networks whose times were published, as models of shapes, and files of measured operators."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from aisrv.inference.parameters import FLASH_LOADS
from aisrv.inference.timings import DeviceModel, Generation, Memory
from aisrv.model import Model, Operator, Options, Tensor, TensorType

PROFILES: Final = Path(__file__).parent / "profiles"
"""Files of measured operators."""
TICKS_PER_PRINTED_MS: Final = 100_000
"""The firmware prints ticks of its reference clock as if they were of 10 ns."""
_CONVOLUTION: Final = "XC_conv2d_v2"

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A network of which each operator was measured, and the device that it was measured on."""

    name: str
    model: Model
    ticks: tuple[int, ...]
    """Of each operator."""
    device: DeviceModel


class ShapeModel:
    """Collects operators by their shapes."""

    def __init__(self) -> None:
        """Begin without tensors."""
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []

    def tensor(self, shape: Shape, kind: TensorType = TensorType.INT8, *, is_constant: bool = False) -> int:
        """Add a tensor and return its index."""
        index = len(self._tensors)
        data = bytes(math.prod(shape) * kind.bits // 8) if is_constant else None
        self._tensors.append(Tensor(f"t{index}", shape, kind, data=data, index=index))
        return index

    def operator(self, name: str, inputs: list[int], outputs: list[int]) -> None:
        """Add an operator."""
        at, is_custom = len(self._operators), name.startswith("XC_")
        self._operators.append(Operator(at, name, tuple(inputs), tuple(outputs), Options(), is_custom))

    def model(self) -> Model:
        """The model; its inputs and outputs are those of no use."""
        return Model(3, "", tuple(self._tensors), tuple(self._operators), (0,), (len(self._tensors) - 1,))


def read_csv(path: Path, device: DeviceModel | None = None) -> Measured:
    """Read a file of measured operators, of the tools of 2022 where `device` names no others.

    Columns: index, operator, inputs, outputs, milliseconds as printed. A file without loads has its
    parameters and activations in external memory, unless `device` says otherwise.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    has_loads = any(row["operator"] in FLASH_LOADS for row in rows)
    built, loads = ShapeModel(), 0
    for row in rows:
        name, is_load = row["operator"], row["operator"] in FLASH_LOADS
        inputs = [
            built.tensor(
                shape,
                # Multipliers are the third input.
                TensorType.INT16 if name == _CONVOLUTION and number == 2 else TensorType.INT8,
                is_constant=number > 0 and not (has_loads and name == _CONVOLUTION),
            )
            for number, shape in enumerate(_shapes(row["inputs"]))
        ]
        # Weights and multipliers are loaded in turn.
        kind = TensorType.INT16 if is_load and loads % 2 else TensorType.INT8
        loads += is_load
        outputs = list(_shapes(row["outputs"])) or [()]
        built.operator(name, inputs, [built.tensor(shape, kind) for shape in outputs])
    ticks = tuple(round(float(row["milliseconds"]) * TICKS_PER_PRINTED_MS) for row in rows)
    memory = Memory.INTERNAL if has_loads else Memory.EXTERNAL
    device = device or DeviceModel(parameters=memory, arena=memory)
    generation = device.generation or Generation.G2022
    return Measured(
        path.stem, built.model(), ticks, replace(device, generation=generation).for_generation(generation)
    )


def _shapes(text: str) -> Iterator[Shape]:
    """Shapes such as `1x4x4x256 2`; scalars are nothing between blanks."""
    for part in text.split(" ") if text else []:
        yield tuple(int(each) for each in part.split("x")) if part else ()


# The person detector: height and width, channels, stride of the depthwise convolution, channels after the
# pointwise one.
_STAGES: Final = (
    (48, 8, 1, 16),
    (48, 16, 2, 32),
    (24, 32, 1, 32),
    (24, 32, 2, 64),
    (12, 64, 1, 64),
    (12, 64, 2, 128),
    *[(6, 128, 1, 128)] * 5,
    (6, 128, 2, 256),
    (3, 256, 1, 256),
)
_POINTWISE_WEIGHTS: Final = {8: 512, 16: 768}
"""Bytes that the converter pads weights of few input channels to; others have their size."""


def person_detector() -> Model:
    """The person detector of 47 operators, as the tools of 2023 convert it: MLPerf Tiny's vww."""
    built = ShapeModel()
    last = built.tensor((1, 96, 96, 3))

    def add(name: str, output: Shape, weights: int = 0) -> None:
        nonlocal last
        inputs = [last, *([built.tensor((weights,), is_constant=True)] if weights else [])]
        last = built.tensor(output)
        built.operator(name, inputs, [last])

    add("XC_pad_3_to_4", (1, 96, 96, 4))
    add("XC_pad", (1, 97, 97, 4))
    add(_CONVOLUTION, (1, 48, 48, 8), 768)
    for side, channels, stride, out_channels in _STAGES:
        padded = side + (2 if stride == 1 else 1)
        add("XC_pad", (1, padded, padded, channels))
        side //= stride
        add(_CONVOLUTION, (1, side, side, channels), 9 * max(channels, 16) + 16)
        weights = _POINTWISE_WEIGHTS.get(channels, channels * out_channels)
        add(_CONVOLUTION, (1, side, side, out_channels), weights)
    add(_CONVOLUTION, (1, 1, 1, 256), 9 * 256 + 16)
    add(_CONVOLUTION, (1, 1, 1, 4), 1408)
    add("XC_strided_slice", (1, 1, 1, 2))
    add("RESHAPE", (1, 2))
    add("SOFTMAX", (1, 2))
    return built.model()


_REFERENCE_NODES: Final = (19, 40)
"""Depthwise convolutions of the person detector that one published run left to the reference kernels."""


def person_detector_with_reference_kernels() -> Model:
    """The person detector with two depthwise convolutions, of 36 pixels and of 9, left as they were."""
    model = person_detector()
    tensors, operators = list(model.tensors), list(model.operators)
    for index in _REFERENCE_NODES:
        operator = operators[index]
        channels = tensors[operator.outputs[0]].shape[3]
        weights = operator.inputs[1]
        tensors[weights] = replace(tensors[weights], shape=(1, 3, 3, channels), data=bytes(9 * channels))
        operators[index] = replace(operator, name="DEPTHWISE_CONV_2D", is_custom=False)
    return replace(model, tensors=tuple(tensors), operators=tuple(operators))


_LOADED_MULTIPLIERS: Final = 64
"""Multipliers of a convolution from which on the tools of 2024 load them with the weights."""


def person_detector_2024() -> Model:
    """The person detector as the tools of 2024 convert it: each convolution's parameters loaded before it."""
    built, source = ShapeModel(), person_detector()
    names = {"XC_strided_slice": "XC_slice", "RESHAPE": "XC_no_op", "SOFTMAX": "XC_softmax"}
    last = built.tensor((1, 96, 96, 3))
    for operator in source.operators:
        inputs, output = [last], source.tensors[operator.outputs[0]].shape
        if operator.name == _CONVOLUTION:
            inputs.append(built.tensor(source.tensors[operator.inputs[1]].shape))
            multipliers = 2 * max(output[3], 8)
            if multipliers >= _LOADED_MULTIPLIERS:
                inputs.append(built.tensor((multipliers,), TensorType.INT16))
            built.operator("XC_ld_weights", [], inputs[1:])
        elif operator.name == "SOFTMAX":
            inputs.append(built.tensor((1024,)))
            built.operator("XC_ld_weights", [], inputs[1:])
        last = built.tensor(output)
        built.operator(names.get(operator.name, operator.name), inputs, [last])
    return built.model()
