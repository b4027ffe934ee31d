"""Buffers off a 16-byte boundary: all shipped backends take them, unless told to assume alignment."""

import struct
from array import array
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.addons.kernels.backend import int16_kernels
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.backends.registry import ASSUME_ALIGNED, BackendError, find_backend
from aisrv.addons.kernels.errors import AlignmentError, KernelError
from aisrv.addons.kernels.interpreter import KernelsInterpreter
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.load import load_network
from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import Confinement, is_shipped
from aisrv.model import TensorType
from aisrv.model.arena_plan import OFFLINE_PLAN
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from aisrv.protocol.engine_kind import EngineKind
from tests.support.models import kernel_backends
from tests.support.models.operators import METHODS, Draw
from tests.support.peers import mlperf_tiny

ARENA = 448 * 1024


def placed(buffer: memoryview, beyond: int) -> memoryview:
    """A copy that starts so many bytes beyond a multiple of 64."""
    room = np.zeros(buffer.nbytes + 128, np.uint8)
    start = -room.__array_interface__["data"][0] % 64 + beyond
    copy: memoryview = memoryview(room.data)[start : start + buffer.nbytes].cast(buffer.format)  # type: ignore[call-overload]  # any format
    copy.cast("B")[:] = buffer.cast("B")
    return copy.toreadonly() if buffer.readonly else copy


def names(params: Any) -> list[str]:
    """The buffers of parameters that hold anything."""
    values = ((field.name, getattr(params, field.name)) for field in fields(params))
    return [name for name, value in values if isinstance(value, memoryview) and value.nbytes]


def everywhere(params: Any, beyond: int) -> Any:
    """Parameters all of whose buffers lie so many bytes beyond a multiple of 64; words at multiples of 4."""
    moved = {}
    for name in names(params):
        buffer = getattr(params, name)
        moved[name] = placed(buffer, beyond // buffer.itemsize * buffer.itemsize)
    return replace(params, **moved)


@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
@pytest.mark.parametrize("name", kernel_backends.NAMES)
def test_backends_take_buffers_wherever_they_are(name: str, code: int) -> None:
    backend = kernel_backends.shipped_backend(name)
    case = Draw(5).case(code)
    expected = case.run(ReferenceBackend())
    for beyond in (1, 7, 12):
        params = everywhere(case.params, beyond)
        getattr(backend, METHODS[code])(params)()
        assert params.output.tolist() == expected


@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
@pytest.mark.parametrize("name", kernel_backends.NAMES)
def test_assuming_backends_compute_on_aligned_buffers(name: str, code: int) -> None:
    kernel_backends.shipped_backend(name)
    backend = find_backend(name + ASSUME_ALIGNED)
    case = Draw(5).case(code)
    for beyond in (0, 16, 48):
        params = everywhere(case.params, beyond)
        getattr(backend, METHODS[code])(params)()
        assert params.output.tolist() == case.run(ReferenceBackend())


@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
@pytest.mark.parametrize("name", kernel_backends.NAMES)
def test_assuming_backends_refuse_each_buffer_that_is_not_aligned(name: str, code: int) -> None:
    kernel_backends.shipped_backend(name)
    backend = find_backend(name + ASSUME_ALIGNED)
    aligned = everywhere(Draw(5).case(code).params, 0)
    for buffer in names(aligned):
        params = replace(aligned, **{buffer: placed(getattr(aligned, buffer), 8)})
        with pytest.raises(AlignmentError, match=f"^{buffer} starts 8 bytes beyond a multiple of 16"):
            getattr(backend, METHODS[code])(params)


@pytest.mark.parametrize("name", kernel_backends.NAMES)
def test_int16_kernels_assume_it_too(name: str) -> None:
    kernel_backends.shipped_backend(name)
    kernels = int16_kernels(find_backend(name + ASSUME_ALIGNED))
    assert kernels is not None
    params = Draw(5).add().params
    wide = {key: placed(memoryview(array("h", getattr(params, key).tolist())), 0) for key in names(params)}
    quant = {
        key: replace(getattr(params, key), zero_point=0)
        for key in ("input1_quant", "input2_quant", "output_quant")
    }
    params = replace(params, **wide, **quant)
    kernels.add(params)()
    assert any(params.output)
    with pytest.raises(AlignmentError, match="input2 starts 2 bytes beyond"):
        kernels.add(replace(params, input2=placed(params.input2, 2)))


def test_scratch_is_the_backends() -> None:
    class Scratchy(ReferenceBackend):
        def softmax_scratch_size(self, num_classes: int) -> int:
            return num_classes

    from aisrv.addons.kernels.backends.assume_aligned import AssumeAligned

    shape = (1, 2, 2, 1)
    backend = AssumeAligned(Scratchy())
    sizes = (
        backend.softmax_scratch_size(77),
        backend.conv2d_scratch_size(shape, shape, shape),
        backend.depthwise_conv2d_scratch_size(shape, shape, shape),
    )
    assert sizes == (77, 0, 0)


# Models.


def network(offset: int) -> bytes:
    """A sum of two tensors, of which the plan in the file has one at an offset of the arena."""
    unit = Quantization.per_tensor(1.0, 0)
    tensors = tuple(Tensor(name, (1, 16), TensorType.INT8, unit) for name in ("one", "two", "sum"))
    plan = struct.pack("<6i", 1, 0, 3, -1, offset, -1)
    add = NetworkOperator(BuiltinOperator.ADD, ("one", "two"), ("sum",))
    return bytes(Network(tensors, (add,), ("one", "two"), ("sum",), metadata={OFFLINE_PLAN: plan}))


def test_a_models_misaligned_tensor_is_named() -> None:
    load_network(network(64), find_backend("numpy+assume-aligned"))
    load_network(network(72), find_backend("numpy"))
    with pytest.raises(NetworkError, match=r"operator 0 \(ADD\): input2 starts 8 bytes beyond") as error:
        load_network(network(72), find_backend("numpy+assume-aligned"))
    assert isinstance(error.value.__cause__, AlignmentError)
    assert isinstance(error.value.__cause__, KernelError)


@pytest.mark.parametrize("name", ["ad01_int8", "kws_ref_model"])
def test_models_of_a_late_converter_are_aligned(name: str) -> None:
    load_network(mlperf_tiny.model_bytes(name), find_backend("numpy+assume-aligned"))


@pytest.mark.parametrize("name", ["pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8"])
def test_models_of_an_early_converter_are_not(name: str) -> None:
    with pytest.raises(NetworkError, match=r"CONV_2D\): (weights|bias) starts (4|8|12) bytes beyond"):
        load_network(mlperf_tiny.model_bytes(name), find_backend("numpy+assume-aligned"))


def test_an_engine_may_assume_alignment() -> None:
    engine = KernelsInterpreter("reference+assume-aligned")
    engine.load(digits.model_bytes(), ARENA)
    with pytest.raises(ModelError, match="input2 starts 4 bytes beyond a multiple of 16"):
        engine.load(network(68), ARENA)


@pytest.mark.parametrize("name", ["numpy", "reference"])
def test_an_engine_that_assumes_is_confined_as_its_backend_is(name: str) -> None:
    assert KernelsInterpreter(name + ASSUME_ALIGNED).confinement is Confinement.BEFORE_LOAD
    assert is_shipped(EngineKind.parse(f"kernels:{name}{ASSUME_ALIGNED}"))


@pytest.mark.parametrize(
    "name", ["nosuch+assume-aligned", "+assume-aligned", "numpy+assume-aligned+assume-aligned"]
)
def test_only_backends_that_there_are_assume_anything(name: str) -> None:
    with pytest.raises(BackendError, match="there is no kernel backend"):
        find_backend(name)
