"""The Model Runner: an AI engine as a Jacdac service. No I/O: the engine gets jobs and answers later.

Source: Jacdac's specification of the service; what it leaves open is decided in docs/guides/jacdac.md.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

from aisrv.addons.jacdac.task.auto_invoke import SampleWindow
from aisrv.addons.jacdac.task.engine_jobs import (
    BootJob,
    LoadJob,
    LoadResult,
    ModelState,
    RunJob,
    RunResult,
    Submit,
)
from aisrv.addons.jacdac.task.numbers import FLOAT_BYTES, is_convertible, to_floats, to_tensor
from aisrv.addons.jacdac.task.prediction import Prediction
from aisrv.addons.jacdac.task.service import INITIALIZING, READY, Host, Service, constants, fit_text
from aisrv.addons.jacdac.task.upload import Upload
from aisrv.addons.jacdac.wire.frame import FrameError
from aisrv.addons.jacdac.wire.packing import Value
from aisrv.addons.jacdac.wire.pipes import LAST_PORT, PipeArgument
from aisrv.addons.jacdac.wire.service_spec import ServiceSpec
from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER
from aisrv.addons.jacdac.wire.timers import MILLISECOND
from aisrv.model.schema import SCHEMA_VERSION
from aisrv.protocol.tensor_descriptions import TensorDescription

TFLITE: Final = 0x334C4654
MOST_PREDICTIONS: Final = 8
MOST_DIMENSIONS: Final = 116
"""Dimensions of a shape that a packet carries."""
OUTPUTS_SHOWN: Final = 58
"""Numbers that a packet carries."""
LOAD_PATIENCE: Final = 100 * MILLISECOND
"""Delay of a get while a load changes what it asks for."""
NO_MODEL: Final = "no model"
LOADING: Final = "loading"

_SET_MODEL: Final = 0x80
_PREDICT: Final = 0x81
_OF_THE_MODEL: Final = (
    "input_shape",
    "output_shape",
    "allocated_arena_size",
    "model_size",
    "last_error",
)
"""Registers that a load changes."""


class ModelRunner(Service):
    """One engine."""

    SPEC: ClassVar[ServiceSpec] = MODEL_RUNNER

    def __init__(
        self,
        device: Host,
        index: int,
        engine: int,
        submit: Submit,
        *,
        state: ModelState | None = None,
        parallel: bool = False,
        resets_after_load: Callable[[], None] | None = None,
    ) -> None:
        """Serve an engine with the model that `state` gives; `resets_after_load` resets the device."""
        super().__init__(device, index, f"engine {engine}")
        self._submit = submit
        self._reset_device = resets_after_load
        self._state = ModelState()
        self._last_error = NO_MODEL
        self._outputs = b""
        self._run_time = 0
        self._window = SampleWindow()
        self._upload: Upload | None = None
        self._predictions: list[Prediction] = []
        self._loading = False
        self._waiting: list[int] = []  # codes of the registers that were asked for during a load
        self._model_number = 0  # of the models that there were: results of an earlier one are dropped
        self._auto_runs = False  # an automatic run is in flight
        self._auto_failed = False
        self.getters |= constants(
            self, {"format": TFLITE, "format_version": SCHEMA_VERSION, "parallel": int(parallel)}
        )
        self.getters |= {
            0x080: lambda: self._window.every,
            0x101: lambda: self._floats_shown(),
            0x180: lambda: self._shape(self._state.tensors.inputs),
            0x181: lambda: self._shape(self._state.tensors.outputs),
            0x182: lambda: self._run_time,
            0x183: lambda: self._state.arena_used,
            0x184: lambda: self._state.model_bytes,
            0x185: lambda: fit_text(self._last_error),
        }
        self._deferred: Final = frozenset(self.SPEC.register(name).code for name in _OF_THE_MODEL)
        self.setters[0x080] = self._set_auto_invoke
        self.actions |= {_SET_MODEL: self._set_model, _PREDICT: self._predict}
        if state is not None:
            self._adopt(state, "")

    # What others tell it.

    def model_changed(self, state: ModelState, error: str = "") -> None:
        """Update the model after another client of the engine changed it."""
        if self._loading:
            return  # the load that is under way asks the engine when it ends
        self._adopt(state, error)
        self._report_model()

    def inputs_changed(self, sample_bytes: int) -> None:
        """Take the size of a sample as float32, in bytes, 0 if the aggregator has no inputs."""
        self._window.set_inputs(sample_bytes)
        self._auto_failed = False
        self._complain_of_window()

    def take_sample(self, sample: bytes) -> None:
        self._window.add(sample)
        self._invoke_if_due()

    def reset(self) -> None:
        super().reset()
        if self._upload is not None:
            self._upload.abort()
            self._upload = None
        self._window.every = 0
        self._auto_failed = False
        if not self._loading:
            self._begin_load()
            self._submit(BootJob(self._finish_load))

    def sender_left(self, sender: object) -> None:
        upload = self._upload
        if upload is not None and upload.sender is sender:
            upload.abort()
            self._upload = None
            self._fail(f"set_model: its host has left after {upload.received} of {upload.size} bytes")

    # Loading.

    def _set_model(self, payload: bytes) -> None:
        size = int.from_bytes(payload[:4], "little")
        refusal = self._refusal(size)
        if refusal:
            self._fail(refusal)
            self._answer_port(_SET_MODEL, 0)
            return
        if self._upload is not None:
            self._upload.abort()
        self._upload = Upload(self.device, size, self._finish_upload, self._give_up_upload)
        if not self._upload.port:
            self._upload.abort()
            self._upload = None
            self._fail("set_model: all ports are taken")
            self._answer_port(_SET_MODEL, 0)
            return
        self._answer_port(_SET_MODEL, self._upload.port)

    def _refusal(self, size: int) -> str:
        if self._loading:
            return "set_model: a model is being loaded"
        if not size:
            return "set_model: a model of 0 bytes"
        if size > self._state.room:
            return f"set_model: a model of {size} bytes, there is room for {self._state.room}"
        return ""

    def _give_up_upload(self, upload: Upload) -> None:
        self._upload = None
        self._fail(f"set_model: nothing came for 5 s after {upload.received} of {upload.size} bytes")

    def _finish_upload(self, upload: Upload) -> None:
        self._upload = None
        self._begin_load()
        if upload.is_whole:
            self._submit(LoadJob(bytes(upload.model), self._finish_load))
            return
        complaint = f"set_model: {upload.received} bytes came of a model of {upload.size}"

        def finish(result: LoadResult) -> None:
            self._finish_load(LoadResult(result.state, complaint))

        self._submit(LoadJob(b"", finish))

    def _begin_load(self) -> None:
        self._loading = True
        self._forget_model()
        self._state = ModelState(room=self._state.room)
        self._last_error = LOADING
        self.set_status(INITIALIZING)

    def _finish_load(self, result: LoadResult) -> None:
        self._loading = False
        self._adopt(result.state, result.error)
        self.set_status(READY)
        waiting, self._waiting = self._waiting, []
        for code in waiting:
            super()._get(code)
        self._report_model()
        if self._reset_device is not None and not result.error:
            self._reset_device()

    def _adopt(self, state: ModelState, error: str) -> None:
        self._forget_model()
        self._state = state
        self._last_error = error or self._complaint_of_model()
        self._window.set_model(self._input_elements())
        self._auto_failed = False
        self._complain_of_window()

    def _forget_model(self) -> None:
        self._model_number += 1
        self._auto_runs = False
        self._outputs = b""
        self._run_time = 0
        self._window.set_model(0)
        for prediction in list(self._predictions):
            prediction.stop()

    def _complaint_of_model(self) -> str:
        tensors = self._state.tensors
        if not self._state.is_loaded:
            return NO_MODEL
        if len(tensors.inputs) != 1 or len(tensors.outputs) != 1:
            return (
                f"the model has {len(tensors.inputs)} inputs and {len(tensors.outputs)} outputs: "
                "only models with one of each run here"
            )
        if not all(map(is_convertible, (*tensors.inputs, *tensors.outputs))):
            return "the model's tensors are of a type that has no numbers: it does not run here"
        return ""

    def _input_elements(self) -> int:
        return 0 if self._complaint_of_model() else self._state.tensors.inputs[0].elements

    def _report_model(self) -> None:
        for name in _OF_THE_MODEL:
            self.report_register(name)

    def _get(self, code: int) -> bool:
        if not (self._loading and code in self._deferred):
            return super()._get(code)
        if code not in self._waiting:
            self._waiting.append(code)
            self.device.timers.after(LOAD_PATIENCE, partial(self._answer_as_it_stands, code))
        return True

    def _answer_as_it_stands(self, code: int) -> None:
        if code in self._waiting:
            self._waiting.remove(code)
            super()._get(code)

    # Running.

    def _predict(self, payload: bytes) -> None:
        try:
            outputs = PipeArgument.from_bytes(payload)
        except FrameError as error:
            self._refuse_predict(f"predict: {error}")
            return
        complaint = LOADING if self._loading else self._complaint_of_model()
        if complaint:
            self._refuse_predict(f"predict: {complaint}")
        elif not 1 <= outputs.port <= LAST_PORT:
            self._refuse_predict(f"predict: unknown port {outputs.port}")
        elif len(self._predictions) == MOST_PREDICTIONS:
            self._refuse_predict(f"predict: {MOST_PREDICTIONS} are open already")
        else:
            prediction = Prediction(
                self.device, outputs, self._input_elements() * FLOAT_BYTES, self._run, self._end_prediction
            )
            if prediction.is_alive:
                self._predictions.append(prediction)
            self._answer_port(_PREDICT, prediction.port)

    def _refuse_predict(self, reason: str) -> None:
        self._fail(reason)
        self._answer_port(_PREDICT, 0)

    def _end_prediction(self, prediction: Prediction, complaint: str) -> None:
        if prediction in self._predictions:
            self._predictions.remove(prediction)
        if complaint:
            self._fail(complaint)

    def _run(self, prediction: Prediction, floats: bytes) -> None:
        def done(floats: bytes) -> None:
            prediction.finish_run(floats)

        self._start_run(floats, done, prediction.stop, lambda: prediction.is_alive)

    def _start_run(
        self,
        floats: bytes,
        done: Callable[[bytes], None],
        failed: Callable[[], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        model = self._model_number

        def finish(result: RunResult) -> None:
            if model != self._model_number:
                return
            if result.error:
                self._fail(result.error)
                failed()
                return
            self._outputs = to_floats(result.output, self._state.tensors.outputs[0])
            self._run_time = result.microseconds
            self._change_error("")
            done(self._outputs)

        tensor = to_tensor(floats, self._state.tensors.inputs[0])
        self._submit(RunJob(tensor, finish, lambda: model == self._model_number and is_wanted()))

    def _floats_shown(self) -> Value:
        shown = self._outputs[: OUTPUTS_SHOWN * FLOAT_BYTES]
        return self.SPEC.by_code[0x101].packing.unpack(shown)

    def _set_auto_invoke(self, value: Value) -> None:
        if isinstance(value, int):
            self._window.every = value
            self._auto_failed = False
            self._complain_of_window()
            self._invoke_if_due()

    def _complain_of_window(self) -> None:
        complaint = self._window.complaint
        if complaint and not self._loading:
            self._change_error(complaint)

    def _invoke_if_due(self) -> None:
        if self._auto_runs or self._auto_failed or not self._window.is_due:
            return
        self._auto_runs = True
        self._start_run(self._window.begin_run(), self._finish_auto, self._fail_auto, lambda: True)

    def _finish_auto(self, _floats: bytes) -> None:
        self._auto_runs = False
        self.report_register("outputs")
        self._invoke_if_due()

    def _fail_auto(self) -> None:
        self._auto_runs = False
        self._auto_failed = True

    # Answers.

    def _answer_port(self, action: int, port: int) -> None:
        self.report(action, port.to_bytes(2, "little"))

    def _fail(self, reason: str) -> None:
        self._change_error(reason)

    def _change_error(self, text: str) -> None:
        if text != self._last_error:
            self._last_error = text
            self.report_register("last_error")

    @staticmethod
    def _shape(tensors: tuple[TensorDescription, ...]) -> Value:
        return tuple(min(size, 0xFFFF) for size in tensors[0].shape[:MOST_DIMENSIONS]) if tensors else ()
