"""What is to be evaluated: a request, and the model and the data that it names, ready to run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from aisrv.addons.evaluate.cluster import ClusterSettings
from aisrv.addons.evaluate.data.allowance import LARGEST_DATA
from aisrv.addons.evaluate.data.data_set import (
    DataSet,
    check_recordings,
    class_indices,
    class_names,
    real_labels,
)
from aisrv.addons.evaluate.data.opening import open_data
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.figures import TaskSettings, count_of_classes
from aisrv.addons.evaluate.folder.plan import SHARD, ModelFile
from aisrv.addons.evaluate.inputs.preparation import Preparation, input_settings
from aisrv.addons.evaluate.inputs.settings import InputSettings, read_settings
from aisrv.addons.evaluate.running.device_run import CHECKED
from aisrv.model import Model
from aisrv.model.labels import labels_of
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.regular_file import read_regular
from host_tools.errors import TensorError
from host_tools.model_summary import check_model
from host_tools.tensors.tensor_spec import TensorSpec

ENGINE: Final = "engine"
"""Where the model runs that no device is named for."""
DEFAULT_KIND: Final = EngineKind("kernels")


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be evaluated, and how."""

    model: Path
    data: str
    """Folder, file or name of the data."""
    labels: Path | None = None
    """Names of classes, or the labels of IDX data."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of a table, by what they are for."""
    inputs: Path | None = None
    """Settings of inputs."""
    limit: int | None = None
    """Examples at most."""
    kind: EngineKind = DEFAULT_KIND
    on: str = ENGINE
    """Where the model runs: in engine processes, or at the address of a device."""
    processes: int | None = None
    """Engine processes; None is one for each processor."""
    seconds: float = 60.0
    """Time that a run may take."""
    check: int = CHECKED
    """Examples that run through a virtual device, too."""
    task: TaskSettings = field(default_factory=TaskSettings)
    against: str | None = None
    """An engine, a device or a model's file to compare with."""
    layers: bool = False
    """Whether tensors are compared, too."""
    folder: Path | None = None
    """The run's folder; None keeps nothing."""
    parts: bool = True
    """Whether the folder keeps what each example has become."""
    shard: int = SHARD
    """Examples of a part."""
    cluster: ClusterSettings | None = None
    """The cluster that runs the shards; None is this machine."""
    devices: int = 1
    """Devices at once, where they are virtual."""
    memory: int = LARGEST_DATA
    """Bytes that the data may take in memory."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model with its data, ready to run."""

    file: ModelFile
    model: Model
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    data: DataSet
    classes: tuple[str, ...]
    labels: npt.NDArray[Any]
    """Class of each example, or a real number."""
    settings: tuple[InputSettings, ...]
    preparation: Preparation

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs."""
        return sum(spec.nbytes for spec in self.outputs)


def load(request: Request) -> Loaded:
    """Read model, data and settings; EvaluateError, OSError."""
    data_of_model = read_regular(request.model)
    file = ModelFile(request.model.name, data_of_model)
    model, inputs, outputs = read_model_file(file)
    data, given = open_data(request.data, request.labels, request.columns, request.memory)
    data = data.first(request.limit)
    names = tuple(spec.name for spec in inputs)
    settings = read_settings(request.inputs, names) if request.inputs is not None else {}
    data = in_order(data, names)
    found = input_settings(model, inputs, data, settings)
    preparation = Preparation(inputs, found)
    classes: tuple[str, ...] = ()
    if request.task.task == "classes":
        classes = class_names(data, labels_of(data_of_model), given)
        labels: npt.NDArray[Any] = class_indices(data, classes, count_of_classes(outputs))
    elif request.task.task == "anomaly":
        classes = class_names(data, (), given)
        labels = class_indices(data, classes, 2)
        check_recordings(data, labels)
    else:
        labels = real_labels(data)
    return Loaded(file, model, inputs, outputs, data, classes, labels, found, preparation)


def read_model_file(file: ModelFile) -> tuple[Model, tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return a model with its inputs and outputs; EvaluateError for what is none, or keeps values."""
    try:
        model = check_model(file.data, file.name)
        inputs = tuple(map(TensorSpec.of, model.input_tensors))
        outputs = tuple(map(TensorSpec.of, model.output_tensors))
    except TensorError as error:
        raise EvaluateError(str(error)) from None
    if not inputs or not outputs:
        raise EvaluateError(f"{file.name}: a model without inputs or outputs")
    if model.has_variables:
        raise EvaluateError(
            f"{file.name}: the model keeps values from run to run: answers depend on the order of runs"
        )
    return model, inputs, outputs


def in_order(data: DataSet, names: Sequence[str]) -> DataSet:
    """Put the arrays of several inputs in the order of the model's."""
    if len(names) == len(data.arrays) > 1 and set(data.array_names) == set(names):
        order = [data.array_names.index(name) for name in names]
        return replace(data, arrays=tuple(data.arrays[number] for number in order), array_names=tuple(names))
    if data.arrays and len(data.arrays) != len(names):
        raise EvaluateError(
            f"{data.uri}: {len(data.arrays)} arrays, the model has {len(names)} inputs: {', '.join(names)}"
        )
    return data
