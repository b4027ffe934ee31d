"""What a model's file says, with each operator's predicted time and each tensor's place in the arena."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from aisrv.inference.timings import (
    DeviceModel,
    FileGeneration,
    OperatorTime,
    Total,
    generation_of,
    total_of,
)
from aisrv.inference.timings.estimation import estimate_times
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.inference.timings.products import macs_of
from aisrv.model import Activation, Model, ModelFileError, Operator, Padding, Tensor, TensorType
from aisrv.model.arena_plan import Allocation, plan_arena
from aisrv.model.arena_scratch import tflm_scratch
from aisrv.model.custom_options import CustomOptions
from aisrv.model.labels import labels_of
from aisrv.model.metadata import input_metadata
from aisrv.model.relocatable.model import read_loadable
from aisrv.values.printable import printable

NAME_LIMIT: Final = 120
"""Characters of a name, a text of options, or a message that are shown."""
_ENUMS: Final = {
    "padding": Padding,
    "fused_activation_function": Activation,
    "in_data_type": TensorType,
    "out_data_type": TensorType,
    "output_type": TensorType,
    "quantized_bias_type": TensorType,
}
"""Options of the schema that are enumerations."""

Value = int | float | str | list["int | float | str"]
"""A value of an option, as JSON has it."""


class Place(Struct, frozen=True):
    """Where a tensor lies in the arena, and how long: `size` bytes at `offset`, from step `first` to `last`.

    Step 0 is before the first operator, step k + 1 is operator k.
    """

    offset: int
    size: int
    first: int
    last: int


class TensorView(Struct, frozen=True):
    """A tensor of the main subgraph."""

    index: int
    name: str
    shape: tuple[int, ...]
    type: str
    nbytes: int
    scales: tuple[float | str, ...]
    """One for the tensor, or one for each index of `dimension`; a text where it is no number."""
    zero_points: tuple[int, ...]
    dimension: int | None
    kind: str
    """What it is: "constant", "variable", "input", "output", "activation" or "unused"."""
    place: Place | None
    """None for what does not lie in the arena."""

    @property
    def spelt(self) -> str:
        """Type and shape: int8[1, 96, 96, 3]."""
        return f"{self.type.lower()}[{', '.join(map(str, self.shape))}]"

    @property
    def quantization(self) -> str:
        """Scale and zero point; how many there are where each channel has its own."""
        if not self.scales:
            return ""
        if len(self.scales) > 1:
            return f"{len(self.scales)} scales by dimension {self.dimension}"
        scale, zero = self.scales[0], self.zero_points[0] if self.zero_points else 0
        return f"scale {scale if isinstance(scale, str) else format(scale, '.6g')}, zero point {zero}"


class OperatorView(Struct, frozen=True):
    """An operator of the main subgraph; times are predicted, in ticks of the reference clock."""

    index: int
    name: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Value]
    """By the schema's names, or by the names in a custom operator's own options."""
    macs: int
    ticks: int
    low: int
    high: int
    basis: str
    source: str
    form: str


class ModelView(Struct, frozen=True):
    """A model file, seen."""

    name: str
    nbytes: int
    version: int
    description: str
    generation: FileGeneration
    total: Total
    head: int | None
    """Bytes of the arena that all tensors take; None where the plan in the file is broken."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tensors: tuple[TensorView, ...]
    operators: tuple[OperatorView, ...]
    other_subgraphs: int
    labels: tuple[str, ...]
    metadata: tuple[tuple[str, int], ...]
    """Name and bytes of each."""
    input_metadata: tuple[str, ...]
    """What the metadata say of each input."""
    notes: tuple[str, ...]
    """What could not be told, and why."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of an inference."""
        return sum(operator.macs for operator in self.operators)

    def as_json(self) -> dict[str, Any]:
        """Return all as JSON has it; times are in ms, too, each with its band."""
        total = self.total
        return {
            "name": self.name,
            "bytes": self.nbytes,
            "version": self.version,
            "description": self.description,
            "generation": str(self.generation),
            "arena_head": self.head,
            "macs": self.macs,
            "reference_mhz": total.tick_mhz,
            **_times(total, total.ticks, total.low, total.high),
            "inputs": self.inputs,
            "outputs": self.outputs,
            "tensors": [asdict(each) | {"place": _place(each.place)} for each in self.tensors],
            "operators": [
                asdict(each) | _times(total, each.ticks, each.low, each.high) for each in self.operators
            ],
            "other_subgraphs": self.other_subgraphs,
            "labels": self.labels,
            "metadata": [{"name": name, "bytes": size} for name, size in self.metadata],
            "input_metadata": self.input_metadata,
            "notes": self.notes,
        }


def view_model(data: bytes, name: str = "model", device: DeviceModel | None = None) -> ModelView:
    """Look at a model file, or a relocatable image; ModelFileError for bytes that are none.

    `device` decides on the times: that of the file's generation where there is none.
    """
    model = read_loadable(data)
    generation = generation_of(model)
    device = (device or DeviceModel()).for_generation(generation.generation)
    times = estimate_times(device, model)
    notes = [generation.note] if generation.note else []
    plan: dict[int, Allocation] = {}
    head = None
    try:
        planned = plan_arena(model, tflm_scratch(model))
        plan, head = {each.tensor: each for each in planned.allocations}, planned.head
    except ModelFileError as error:
        notes.append(f"no places in the arena: {_text(str(error))}")
    described: tuple[str, ...] = ()
    try:
        described = tuple(map(_describe, input_metadata(model)))
    except ModelFileError as error:
        notes.append(f"no metadata of inputs: {_text(str(error))}")
    return ModelView(
        name=_text(name),
        nbytes=len(data),
        version=model.version,
        description=_text(model.description),
        generation=generation,
        total=total_of(times, device, model, generation),
        head=head,
        inputs=model.inputs,
        outputs=model.outputs,
        tensors=_tensors(model, plan),
        operators=tuple(map(_operator, _nodes(model), times)),
        other_subgraphs=len(model.other_subgraphs),
        labels=tuple(_text(label) for label in labels_of(data)),
        metadata=tuple((_text(each.name), len(each.data)) for each in model.metadata),
        input_metadata=described,
        notes=tuple(notes),
    )


def _times(total: Total, ticks: int, low: int, high: int) -> dict[str, int | float]:
    return {
        "ticks": ticks,
        "low": low,
        "high": high,
        "ms": total.in_ms(ticks),
        "ms_low": total.in_ms(low),
        "ms_high": total.in_ms(high),
    }


def _place(place: Place | None) -> dict[str, int] | None:
    return None if place is None else asdict(place)


def _text(text: str) -> str:
    return printable(text, NAME_LIMIT)


def _describe(each: Any) -> str:  # noqa: ANN401 - metadata of an input
    parts = [_text(each.name) or "an input"]
    if each.color_space is not None:
        parts.append(each.color_space.name.lower())
    if each.mean:
        parts.append(f"mean {_numbers(each.mean)}, deviation {_numbers(each.std)}")
    return ", ".join(parts)


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _tensors(model: Model, plan: Mapping[int, Allocation]) -> tuple[TensorView, ...]:
    used = {index for operator in model.operators for index in (*operator.inputs, *operator.outputs)}
    inputs, outputs = set(model.inputs), set(model.outputs)

    def kind(tensor: Tensor, index: int) -> str:
        if tensor.is_constant or tensor.is_variable:
            return "constant" if tensor.is_constant else "variable"
        if index in inputs or index in outputs:
            return "input" if index in inputs else "output"
        return "activation" if index in used else "unused"

    return tuple(
        _tensor(tensor, index, kind(tensor, index), plan.get(index))
        for index, tensor in enumerate(model.tensors)
    )


def _tensor(tensor: Tensor, index: int, kind: str, allocation: Allocation | None) -> TensorView:
    quantization = tensor.quantization
    scales = () if quantization is None else quantization.scales
    return TensorView(
        index,
        _text(tensor.name),
        tensor.shape,
        TensorType(tensor.type).name,
        tensor.nbytes,
        tuple(_number(scale) for scale in scales),
        () if quantization is None else quantization.zero_points,
        quantization.dimension if quantization is not None and quantization.is_per_channel else None,
        kind,
        None
        if allocation is None
        else Place(allocation.offset, allocation.size, allocation.first, allocation.last),
    )


def _number(value: float) -> float | str:
    """A number as JSON can have it."""
    return value if math.isfinite(value) else str(value)


def _nodes(model: Model) -> list[OperatorTensors]:
    return [OperatorTensors.of(model, operator) for operator in model.operators]


def _operator(node: OperatorTensors, time: OperatorTime) -> OperatorView:
    operator = node.operator
    return OperatorView(
        operator.index,
        _text(operator.name),
        operator.is_custom,
        operator.inputs,
        operator.outputs,
        _custom_options(operator) if operator.is_custom else _options(operator),
        macs_of(node),
        time.ticks,
        time.low,
        time.high,
        time.basis.value,
        time.source,
        time.form,
    )


def _options(operator: Operator) -> dict[str, Value]:
    return {name: _value(name, value) for name, value in operator.options.fields.items()}


def _value(name: str, value: object) -> Value:
    if isinstance(value, tuple):
        return [_scalar(each) for each in value]
    enumeration = _ENUMS.get(name)
    if enumeration is not None and isinstance(value, int):
        return next((each.name for each in enumeration if each.value == value), value)
    return _scalar(value)


def _scalar(value: object) -> int | float | str:
    if isinstance(value, float):
        return _number(value)
    return value if isinstance(value, int) else _text(str(value))


def _custom_options(operator: Operator) -> dict[str, Value]:
    """Read what can be read of a custom operator's options; bytes are told by their number."""
    if not operator.custom_options:
        return {}
    try:
        options = CustomOptions.from_bytes(operator.custom_options)
        return {_text(name): _custom_value(options, name) for name in sorted(options.names)}
    except ValueError:
        return {"custom_options": f"{len(operator.custom_options)} bytes"}


def _custom_value(options: CustomOptions, name: str) -> Value:
    for read in (options.integer, options.integers):
        try:
            found = read(name)
        except ValueError:
            continue
        if found is not None:
            return list(found) if isinstance(found, tuple) else found
    try:
        data = options.data(name)
    except ValueError:
        data = None
    return "not read" if data is None else f"{len(data)} bytes"
