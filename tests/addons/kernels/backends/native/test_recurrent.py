"""LSTM and SVDF of the native library: TensorFlow Lite Micro's bytes at the sizes around a register's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tflite import TensorType

from aisrv.addons.kernels.arithmetic import Multiplier
from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.backends.native import recurrent as native
from aisrv.addons.kernels.backends.native.backend import NativeBackend, native_backend
from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.backends.native.steps import NativeKernel
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.recurrent import LstmParams, SvdfParams
from aisrv.model.reader import read_model
from tests.support.models.native import VARIANTS, library, need_variant
from tests.support.models.one_operator import random_int8
from tests.support.models.recurrent_models import lstm, svdf
from tests.support.oracles.network_runs import agree_in_turn, loaded, run_network

SIZES = [1, 15, 16, 17, 31, 32, 33, 48]


@pytest.fixture(autouse=True)
def _installed() -> None:
    library()


def kinds_of(model: bytes, backend: Any = None) -> list[str]:
    """The steps of the library that a model runs."""
    kernels = loaded(model, backend or native_backend()).kernels
    return [step.kind for kernel in kernels if isinstance(kernel, NativeKernel) for step in kernel.steps]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_library_computes_both(variant: Variant) -> None:
    backend = NativeBackend(need_variant(variant))
    assert kinds_of(lstm(), backend) == ["LSTM"]
    assert kinds_of(svdf(), backend) == ["SVDF"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_gives_what_numpy_gives(variant: Variant, size: int) -> None:
    """Also where there is no tflite-micro, as on ARM."""
    native_first = Fallback(NativeBackend(need_variant(variant)), NumpyBackend())
    for model, shape in (
        (lstm(batch=2, steps=3, size=size, units=17, seed=size), (2, 3, size)),
        (svdf(size=size, units=5, seed=size), (1, size)),
    ):
        ours, numpys = loaded(model, native_first), loaded(model, NumpyBackend())
        for run in range(3):
            inputs = [random_int8(shape, run)]
            assert run_network(ours, inputs) == run_network(numpys, inputs)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("units", [1, 16, 33])
def test_lstm_of_any_size(size: int, units: int) -> None:
    model = lstm(batch=2, steps=3, size=size, units=units, seed=size)
    agree_in_turn(model, [[random_int8((2, 3, size), run)] for run in range(2)])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [TensorType.INT8, TensorType.INT16])
def test_svdf_of_any_size(size: int, kind: TensorType) -> None:
    # Scales with which no state of 8 bits comes near its bounds, where versions of TFLM differ.
    model = svdf(kind=kind, size=size, units=5, scales=(0.01, 0.01, 0.2, 0.01, 0.002), seed=size)
    agree_in_turn(model, [[random_int8((1, size), run)] for run in range(6)])


def test_sums_that_wrap() -> None:
    """Inputs at the ends of the side that makes the sum of one filter the smallest."""
    size = 300_000
    scales = (0.5, 0.5, 0.1, 0.001, 8.0)
    model = svdf(size=size, units=3, rank=1, memory=1, zeros=(127, 0, 0), scales=scales)
    assert kinds_of(model) == ["SVDF"]
    features = np.frombuffer(read_model(model).tensors[1].data or b"", np.int8).reshape(3, size)
    ends = np.where(features[0] > 0, -128, 127).astype(np.int8).reshape(1, size)
    assert (features[0] * (ends[0].astype(np.int64) - 127)).sum() < -(1 << 31)
    agree_in_turn(model, [[ends], [random_int8((1, size), 1)]])


@pytest.mark.parametrize(
    ("model", "shape"),
    [(lstm(units=33, steps=9), (2, 9, 4)), (svdf(units=40, rank=3), (1, 6))],
    ids=["lstm", "svdf"],
)
@pytest.mark.usefixtures("shared_steps")
def test_threads_change_no_bit(model: bytes, shape: tuple[int, ...]) -> None:
    inputs = [random_int8(shape, 5)]
    alone, together = (loaded(model, native_backend(threads)) for threads in (1, 3))
    for _ in range(3):
        assert run_network(alone, inputs) == run_network(together, inputs)


def captured(model: bytes, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """The parameters that a model's layer is prepared with."""
    found = []
    plain = getattr(native, name)

    def prepare(params: Any) -> Any:
        found.append(params)
        return plain(params)

    monkeypatch.setattr(native, name, prepare)
    loaded(model, native_backend())
    (params,) = found
    return params


@pytest.mark.parametrize("shift", [32, -63])
def test_a_multiplier_beyond_64_bits_is_left_to_numpy(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    params: LstmParams = captured(lstm(), monkeypatch, "lstm")
    with pytest.raises(NotImplementedError, match="a multiplier that shifts a word out of 64 bits"):
        native.lstm(replace(params, update=replace(params.update, show=Multiplier(1 << 30, shift))))


def test_a_state_without_a_past_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    params: SvdfParams = captured(svdf(), monkeypatch, "svdf")
    with pytest.raises(NotImplementedError, match="a memory of nothing"):
        native.svdf(replace(params, times=params.times[:, :0]))


@pytest.mark.parametrize(
    "field", ["input_zero", "state_zero", "bias", "forget", "remember", "show", "sigmoid", "limits"]
)
def test_each_parameter_of_an_lstm_counts(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = lstm(units=20, steps=10, options={"cell_clip": 0.5})
    inputs = [random_int8((2, 10, 4), 0)]
    right = run_network(loaded(model, native_backend()), inputs)
    plain = native.lstm

    def wrong(params: LstmParams) -> Any:
        owner: Any = params.update if hasattr(params.update, field) else params
        value = getattr(owner, field)
        if isinstance(value, Multiplier):
            value = Multiplier(value.mantissa // 2, value.shift)
        elif isinstance(value, tuple):
            value = (value[0] // 2, value[1] // 2)
        else:
            value = value + 200
        changed = replace(owner, **{field: value})
        return plain(changed if owner is params else replace(params, update=changed))

    monkeypatch.setattr(native, "lstm", wrong)
    assert run_network(loaded(model, native_backend()), inputs) != right


class Declining:
    """A backend with recurrent operators that takes none."""

    def lstm(self, params: LstmParams) -> Any:
        raise NotImplementedError

    def svdf(self, params: SvdfParams) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(("model", "kind"), [(lstm(), "LSTM"), (svdf(), "SVDF")], ids=["lstm", "svdf"])
def test_what_one_backend_declines_the_next_one_takes(model: bytes, kind: str) -> None:
    assert kinds_of(model, Fallback(Declining(), native_backend())) == [kind]
    assert kinds_of(model, Fallback(Declining(), NumpyBackend())) == []
