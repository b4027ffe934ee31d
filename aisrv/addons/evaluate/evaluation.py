"""An evaluation from its request to its result: the data, the run, the figures, the folder."""

import asyncio
import logging
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import trio

from aisrv.addons.evaluate.against import compare_runs
from aisrv.addons.evaluate.cluster import ClusterSettings, check_dask
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.figures import (
    Figures,
    Task,
    figures_of,
    real_values,
)
from aisrv.addons.evaluate.folder.part_format import PartFormat, PartRows, check_pyarrow
from aisrv.addons.evaluate.folder.parts import Parts, describe_refused
from aisrv.addons.evaluate.folder.plan import make_plan, open_folder
from aisrv.addons.evaluate.folder.result import make_result, result_bytes
from aisrv.addons.evaluate.folder.runs import RESULT_FILE, write_run_list
from aisrv.addons.evaluate.request import ENGINE, Loaded, Request, load
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.device_run import (
    DeviceError,
    checked_indices,
    first_difference,
    open_server,
    open_virtual_server,
    run_on_device,
)
from aisrv.addons.evaluate.running.devices_run import DevicesRun
from aisrv.addons.evaluate.running.local_run import LocalRun, LocalSettings
from aisrv.inference.packages import missing_package
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.printable import printable
from aisrv.values.regular_file import read_regular
from aisrv.values.whole_file import write_whole
from host_tools.errors import HostError

DEVICE: Final = "device"

_log = logging.getLogger(__name__)

OnProgress = Callable[[int, int, int | None], None]
"""Called as examples are done: how many, of how many, and how many are wrong; None without classes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an evaluation came to."""

    loaded: Loaded
    plan: dict[str, Any]
    answers: Answers
    figures: Figures
    result: dict[str, Any]
    interrupted: bool = False
    """Whether Ctrl-C ended it early."""


def plan_of(request: Request, loaded: Loaded) -> dict[str, Any]:
    """Return the plan of a request's run, of its model and data as `loaded`."""
    on = ENGINE if request.on == ENGINE else DEVICE
    task = request.task.task
    return make_plan(
        loaded.file, loaded.data, loaded.classes, loaded.settings, request.kind, on, task, request.shard
    )


def evaluate(
    request: Request, on_progress: OnProgress | None = None, loaded: Loaded | None = None
) -> Outcome:
    """Evaluate a model on data; EvaluateError, OSError. What the folder holds already is not run again.

    `loaded` are the request's model and data, where the caller has them.
    """
    if request.cluster is not None:
        check_dask()
    if request.folder is not None and request.parts:
        check_pyarrow()
    elif request.cluster is not None:
        raise EvaluateError("a cluster writes parts: give a folder, and leave out --no-parts")
    loaded = loaded or load(request)
    plan = plan_of(request, loaded)
    answers = Answers(len(loaded.data), loaded.output_bytes, request.shard, files=bool(loaded.data.files))
    parts = None
    if request.folder is not None:
        open_folder(request.folder, plan)
        if request.parts:
            parts = _open_parts(request.folder, request, loaded, answers)
    interrupted = run(request, loaded, answers, parts, on_progress)
    if parts is not None:
        parts.remove_left()
    against = None
    if request.against is not None and not interrupted:
        against, interrupted = _against(request, loaded, answers, on_progress)
    check = None
    if request.on == ENGINE and request.check and not interrupted:
        check = check_on_device(request, loaded, answers)
    data = loaded.data
    figures = figures_of(
        request.task, answers, loaded.outputs, loaded.labels, _first_inputs(loaded), data.recordings
    )
    result = make_result(
        plan,
        loaded.file,
        loaded.data,
        answers,
        figures,
        loaded.labels,
        loaded.outputs,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        cpu=cpu_name(),
        parts=parts.listed(answers) if parts is not None else (),
        against=against,
        check=check,
    )
    if request.folder is not None:
        write_whole(request.folder / RESULT_FILE, [result_bytes(result)])
        write_run_list(request.folder)
    return Outcome(loaded, plan, answers, figures, result, interrupted)


def _open_parts(folder: Path, request: Request, loaded: Loaded, answers: Answers) -> Parts:
    """Take the answers of the parts that a folder has. That others are made again is said once."""
    form = PartFormat(loaded.outputs, request.task.task, bool(loaded.data.files))
    parts = Parts(folder, form)
    parts.make_folders()
    refused = parts.read(answers, loaded.labels)
    if refused:
        _log.warning("%s", printable(describe_refused(refused)))
    return parts


def _first_inputs(loaded: Loaded) -> Callable[[npt.NDArray[np.intp]], npt.NDArray[np.float64]]:
    def values(indices: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        spec = loaded.inputs[0]
        if loaded.data.arrays:
            rows = loaded.preparation.array_rows([array[indices] for array in loaded.data.arrays])
            rows = np.ascontiguousarray(rows[:, : spec.nbytes])
        else:
            raise EvaluateError("--score reconstruction compares arrays, as in an .npz file")
        return real_values(rows.view(np.dtype(spec.dtype).newbyteorder("<")), spec)

    return values


def run(
    request: Request,
    loaded: Loaded,
    answers: Answers,
    parts: Parts | None = None,
    on_progress: OnProgress | None = None,
) -> bool:
    """Run the examples without answers; return whether Ctrl-C ended it early. EvaluateError, OSError.

    `loaded` is the request's model and data, `parts` are written as shards are complete.
    """
    watch = _Watch(loaded, answers, parts, on_progress, request.task.task)
    if not answers.missing():
        return False
    if request.cluster is not None and parts is not None:
        return _run_on_cluster(request.cluster, request, loaded, answers, parts, on_progress)
    if request.on == ENGINE:
        package = missing_package(request.kind)
        if package is not None:
            raise DeviceError(f"{request.kind}: {package}", 3)
        processes = request.processes or len(os.sched_getaffinity(0))
        settings = LocalSettings(request.kind, loaded.file.data, processes, request.seconds)
        local = LocalRun(settings, loaded.data, loaded.preparation, answers, watch.done)
        trio.run(local.run)
        if local.was_killed:
            raise KeyboardInterrupt
        interrupted = local.was_stopped
    elif request.devices > 1:
        devices = DevicesRun(
            request.on,
            request.devices,
            loaded.file.data,
            loaded.data,
            loaded.preparation,
            answers,
            len(loaded.outputs),
            watch.done,
        )
        trio.run(devices.run)
        if devices.was_killed:
            raise KeyboardInterrupt
        interrupted = devices.was_stopped
    else:
        interrupted = False
        with open_server(request.on, loaded.file.data) as server:
            try:
                run_on_device(
                    server, loaded.data, loaded.preparation, answers, len(loaded.outputs), watch.done
                )
            except KeyboardInterrupt:
                interrupted = True
    return interrupted


def _run_on_cluster(
    cluster: ClusterSettings,
    request: Request,
    loaded: Loaded,
    answers: Answers,
    parts: Parts,
    on_progress: OnProgress | None,
) -> bool:
    from aisrv.addons.evaluate.fleet.cluster_run import ClusterRun  # with which Dask is loaded

    watch = _Watch(loaded, answers, None, on_progress, request.task.task)
    cluster_run = ClusterRun(cluster, request, loaded, answers, parts, watch.done)
    asyncio.run(cluster_run.run())
    return cluster_run.was_stopped


class _Watch:
    """Writes parts as their shards are complete, and tells how far a run is."""

    def __init__(
        self,
        loaded: Loaded,
        answers: Answers,
        parts: Parts | None,
        on_progress: OnProgress | None,
        task: Task,
    ) -> None:
        self._loaded = loaded
        self._answers = answers
        self._parts = parts
        self._on_progress = on_progress
        self._task = task
        self._classes = task == "classes"
        self._count = int(answers.done.sum())
        self._wrong = 0

    def done(self, first: int, end: int) -> None:
        self._count += end - first
        answers = self._answers
        if self._on_progress is not None:
            if self._classes:
                self._wrong += self._wrong_of(first, end)
            self._on_progress(self._count, len(answers), self._wrong if self._classes else None)
        if self._parts is None:
            return
        for shard in range(first // answers.shard, (end - 1) // answers.shard + 1):
            if answers.is_complete(shard):
                self._parts.write(shard, self._rows(shard), platform.node(), answers.seconds(shard))

    def _wrong_of(self, first: int, end: int) -> int:
        spec = self._loaded.outputs[0]
        data = np.ascontiguousarray(self._answers.outputs[first:end, : spec.nbytes])
        values = data.view(np.dtype(spec.dtype).newbyteorder("<"))
        labels = self._loaded.labels[first:end]
        found = real_values(values, spec)[:, 0] > 0.5 if values.shape[1] == 1 else values.argmax(axis=1)
        return int((found != labels).sum())

    def _rows(self, shard: int) -> PartRows:
        first, end = self._answers.bounds(shard)
        part = self._answers.part(shard)
        return PartRows(first, part, self._loaded.labels[first:end])


def check_on_device(request: Request, loaded: Loaded, answers: Answers) -> dict[str, Any]:
    """Run some examples on a virtual device with the same engine; return the comparison for the result.

    `loaded` is the request's model and data. A device that does not take the model is no difference.
    """
    indices = checked_indices(answers, request.check)
    if not indices:
        return {"examples": 0, "same": None, "reason": "no example ran"}
    try:
        with open_virtual_server(request.kind, loaded.file.data) as server:
            found = first_difference(
                server, loaded.data, loaded.preparation, answers, len(loaded.outputs), indices
            )
    except (DeviceError, HostError) as error:
        return {"examples": 0, "same": None, "reason": str(error)}
    if found is None:
        return {"examples": len(indices), "same": True, "reason": ""}
    index, device, engine = found
    place = int(np.flatnonzero(device != engine)[0])
    if request.task.task == "classes" and len(loaded.outputs) == 1:
        spec = loaded.outputs[0]
        says, ours = (int(spec.elements(bytes(each)).argmax()) for each in (device, engine))
        if says != ours:
            reason = f"example {index}: the device says {says}, the engine {ours}"
            return {"examples": len(indices), "same": False, "reason": reason}
    reason = (
        f"example {index}: byte {place} of the outputs is {device[place]} on the device, not {engine[place]}"
    )
    return {"examples": len(indices), "same": False, "reason": reason}


def _against(
    request: Request, loaded: Loaded, answers: Answers, on_progress: OnProgress | None
) -> tuple[dict[str, Any], bool]:
    """Run the same examples on what the request compares with; return how it differs, and if Ctrl-C came."""
    assert request.against is not None  # noqa: S101 - the caller saw to it
    other_request, other = against_request(request, loaded)
    found = Answers(len(other.data), other.output_bytes, request.shard, files=bool(other.data.files))
    interrupted = run(other_request, other, found, None, on_progress)
    labels = loaded.labels if request.task.task == "classes" else None
    values = compare_runs(answers, found, loaded.outputs, other.outputs, labels)
    values["name"] = request.against
    if request.layers and not interrupted:
        from aisrv.addons.evaluate.layers import compare_layers

        values["layers"] = compare_layers(request, loaded, other_request, other)
    return values, interrupted


def against_request(request: Request, loaded: Loaded) -> tuple[Request, Loaded]:
    """Return the request for what another compares with, and its model and data; EvaluateError, OSError."""
    name = request.against or ""
    if name.endswith(".tflite") or Path(name).is_file():
        other_request = replace(request, model=Path(name), against=None)
        return other_request, load(other_request)
    if is_address(name):
        return replace(request, on=name, against=None), loaded
    return replace(request, kind=EngineKind.parse(name), on=ENGINE, against=None), loaded


def is_address(name: str) -> bool:
    """Return whether a name is that of a device, such as usb or virtual:BOARD."""
    from host_tools.errors import BadAddressError
    from host_tools.transports.schemes import check_scheme

    try:
        check_scheme(name)
    except BadAddressError:
        return False
    return True


def cpu_name() -> str:
    """Return the name of this machine's processor."""
    try:
        lines = read_regular("/proc/cpuinfo").decode(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
