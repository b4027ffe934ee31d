"""A host's knowledge of the model on an engine: its tensors, operators and classes."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from host_tools.errors import TensorError
from host_tools.tensors.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from aisrv.model import Model
    from aisrv.protocol.tensor_descriptions import TensorDescription, TensorDescriptions
    from host_tools.transports.transport import Buffer


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model's tensors by number, and the names of its operators and classes where they are known."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    operators: tuple[str, ...] = ()
    """Operators in execution order; none if the device alone was asked."""
    labels: tuple[str, ...] = ()
    """Names of the classes, from class 0; none where the file has none."""

    @classmethod
    def of_file(cls, data: bytes | memoryview) -> Self:
        """Read a model file; TensorError as of `check_model`, and for a tensor of an unknown type."""
        from aisrv.model.labels import labels_of

        model = check_model(data, "the model")
        return cls(
            tuple(map(TensorSpec.of, model.input_tensors)),
            tuple(map(TensorSpec.of, model.output_tensors)),
            tuple(operator.name for operator in model.operators),
            labels_of(data),
        )

    @classmethod
    def of_device(cls, descriptions: "TensorDescriptions") -> Self:
        """Take what a device says of its model."""
        return cls(tuple(map(_spec, descriptions.inputs)), tuple(map(_spec, descriptions.outputs)))

    def as_floats(self) -> Self:
        """Return the model with float32 tensors, as they cross a Jacdac bus."""
        inputs, outputs = (tuple(spec.as_floats() for spec in specs) for specs in (self.inputs, self.outputs))
        return replace(self, inputs=inputs, outputs=outputs)

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"{inputs or 'nothing'} -> {outputs or 'nothing'}"


def check_model(data: "Buffer", name: object) -> "Model":
    """Read what a device may load; TensorError for no `.tflite` file, nor a relocatable image."""
    from aisrv.model import ModelFileError
    from aisrv.model.relocatable.model import read_loadable

    try:
        return read_loadable(bytes(data))
    except ModelFileError as error:
        raise TensorError(f"{name}: {error}") from error


def _spec(description: "TensorDescription") -> TensorSpec:
    from aisrv.model import TensorType
    from host_tools.tensors.tensor_spec import DTYPES

    try:
        name = TensorType(description.type).name
    except ValueError:
        name = f"number {description.type}"
    if name.lower() not in DTYPES:
        raise TensorError(f"the model has a tensor of type {name}; read and write its bytes")
    scale = description.scale if description.scale and name != "FLOAT32" else None
    return TensorSpec(description.shape, name.lower(), scale, description.zero_point if scale else 0)
