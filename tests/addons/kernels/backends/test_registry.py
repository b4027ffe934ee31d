"""Backends by name, and backends made of two."""

import sys
from array import array
from dataclasses import fields, replace
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from tflite import BuiltinOperator

from aisrv.addons.kernels.backend import Kernel, KernelBackend, int16_kernels
from aisrv.addons.kernels.backends import registry
from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.backends.native.library import Library, NativeError
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.backends.registry import BackendError, backend_names, find_backend
from aisrv.addons.kernels.errors import AlignmentError, InvalidShape, KernelError
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.params import (
    ElementwiseAddParams,
    FusedActivation,
    MulParams,
    PoolParams,
    QuantParam,
    Shape4,
)
from aisrv.model import TensorType
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from tests.support.models import native
from tests.support.models.operators import METHODS, Draw
from tests.support.programs import run_process

SHAPE = (1, 2, 2, 1)


class Sevens:
    """A backend of one operator: every sum is 7."""

    def add(self, params: ElementwiseAddParams) -> Kernel:
        def invoke() -> None:
            for at in range(len(params.output)):
                params.output[at] = 7

        return invoke


class SquarePools:
    """Max pools of square windows are 8; others are not for it."""

    def max_pool(self, params: PoolParams) -> Kernel:
        if params.filter_w != params.filter_h:
            raise NotImplementedError
        return lambda: params.output.__setitem__(0, 8)


class Sized:
    """A backend of convolutions that wants scratch, and tells of it, or not."""

    def conv2d(self, params: Any) -> Kernel:
        raise InvalidShape("not of this size")

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:
        return 100

    def softmax_scratch_size(self, num_classes: int) -> int:
        return 4 * num_classes


class Inheriting(KernelBackend):
    """A backend of one operator that names the interface; all else is only declared."""

    def softmax(self, params: Any) -> Kernel:
        return lambda: params.output.__setitem__(0, 9)


class Hungry(ReferenceBackend):
    """Wants scratch for everything."""

    def conv2d_scratch_size(self, *shapes: Any) -> int:
        return 50

    def softmax_scratch_size(self, *shapes: Any) -> int:
        return 60


def sevens() -> Fallback:
    return Fallback(Sevens(), find_backend("reference"))


def incomplete() -> Sevens:
    return Sevens()


def broken() -> None:
    raise RuntimeError("no such chip")


def in_need() -> None:
    raise ModuleNotFoundError("No module named 'unicorn'", name="unicorn")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points as an installed package has them."""
    here = __name__
    found = EntryPoints(
        EntryPoint(name, value, registry.GROUP)
        for name, value in {
            "sevens": f"{here}:sevens",
            "incomplete": f"{here}:incomplete",
            "inheriting": f"{here}:Inheriting",
            "broken": f"{here}:broken",
            "absent": f"{here}:absent",
            "in-need": f"{here}:in_need",
            "elsewhere": "no_such_module_of_kernels:backend",
            "numpy": f"{here}:sevens",
        }.items()
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.select(group=group))


# The registry.


def test_reference_is_shipped() -> None:
    assert isinstance(find_backend("reference"), ReferenceBackend)


def test_shipped_names() -> None:
    assert backend_names()[:4] == ("reference", "numpy", "native", "relocatable")


@pytest.mark.usefixtures("registered")
def test_registered_backend_is_found_and_runs() -> None:
    assert set(Draw(1).case(BuiltinOperator.ADD).run(find_backend("sevens"))) == {7}


@pytest.mark.usefixtures("registered")
def test_names_are_those_shipped_and_those_registered() -> None:
    assert backend_names() == (
        "reference",
        "numpy",
        "native",
        "relocatable",
        "absent",
        "broken",
        "elsewhere",
        "in-need",
        "incomplete",
        "inheriting",
        "sevens",
    )


@pytest.mark.usefixtures("registered")
def test_shipped_name_cannot_be_taken() -> None:
    assert type(find_backend("numpy")).__name__ == "NumpyBackend"


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("incomplete", "has no conv2d, depthwise_conv2d, .*, mul, .*; give it another backend .*Fallback$"),
        ("inheriting", "has no conv2d, .*, max_pool, add, mul, .*softmax_scratch_size; "),
        ("broken", r"'broken' \(.*:broken\) does not load: RuntimeError: no such chip"),
        ("absent", r"'absent' \(.*:absent\) does not load: AttributeError: "),
        ("elsewhere", "'elsewhere' needs the module no_such_module_of_kernels$"),
        ("in-need", r"'in-need' needs the module unicorn \(.*\): pip install .*\[relocatable\]\"$"),
        (
            "nothing",
            "no kernel backend 'nothing'; there are: reference, numpy, native, relocatable, absent, ",
        ),
        ("", "there is no kernel backend ''"),
    ],
)
def test_backend_that_cannot_be_had(name: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        find_backend(name)


def test_error_is_of_the_family() -> None:
    assert issubclass(BackendError, KernelError)


def test_backends_are_imported_when_asked_for() -> None:
    script = (
        "import sys, aisrv.addons.kernels.backends.registry as r; r.backend_names();"
        "heavy = ('numpy', 'aisrv.addons.kernels.backends.reference', 'unicorn');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = run_process([sys.executable, "-c", script], check=True)
    assert done.stdout == "[]\n"


def no_library() -> Library:
    raise NativeError("the library of native kernels is not installed")


def test_default_without_a_compiler_at_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisrv.addons.kernels.backends.native.library.load", no_library)
    assert registry.default_backend() == "numpy"


def test_native_kernels_are_the_default() -> None:
    native.library()
    assert registry.default_backend() == "native"


def test_native_backend_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisrv.addons.kernels.backends.native.backend.load", no_library)
    with pytest.raises(
        BackendError, match=r"^the kernel backend 'native' does not load: the library of native"
    ):
        find_backend("native")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("native+threads=0", "'0' is not a number of threads from 1 to 64"),
        ("native+threads=65", "'65' is not a number of threads"),
        ("native+threads=", "'' is not a number of threads"),
        ("native+threads=two", "'two' is not a number of threads"),
        ("numpy+threads=2", "'numpy' runs on one thread; native takes a number"),
    ],
)
def test_threads_that_there_are_not(name: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        find_backend(name)


def test_threads_and_alignment_go_together() -> None:
    native.library()
    case = Draw(3).case(BuiltinOperator.ADD)
    with pytest.raises(AlignmentError):
        find_backend("native+threads=2+assume-aligned").add(
            replace(case.params, input1=memoryview(array("b", [0, *case.params.input1]))[1:])
        )


# Two backends as one.


@pytest.mark.parametrize("code", METHODS, ids=lambda code: METHODS[code])
def test_second_does_what_the_first_has_not(code: int) -> None:
    case = Draw(2).case(code)
    expected = [7] * len(case.params.output) if code == BuiltinOperator.ADD else case.run(ReferenceBackend())
    assert case.run(sevens()) == expected


def test_first_may_decline_by_parameters() -> None:
    backend = Fallback(SquarePools(), ReferenceBackend())
    cases = [Draw(seed).case(BuiltinOperator.MAX_POOL_2D) for seed in range(20)]
    square = [case for case in cases if case.params.filter_w == case.params.filter_h]
    assert 0 < len(square) < len(cases)
    for case in cases:
        if case in square:
            assert case.run(backend)[0] == 8
        else:
            assert case.run(backend) == case.run(ReferenceBackend())


def test_other_errors_of_the_first_are_the_answer() -> None:
    with pytest.raises(InvalidShape, match="not of this size"):
        Draw(0).case(BuiltinOperator.CONV_2D).run(Fallback(Sized(), ReferenceBackend()))


def test_methods_that_are_only_declared_are_not_there() -> None:
    backend = Fallback(Inheriting(), ReferenceBackend())  # type: ignore[abstract]
    case = Draw(0).case(BuiltinOperator.ADD)
    assert case.run(backend) == case.run(ReferenceBackend())
    assert Draw(0).case(BuiltinOperator.SOFTMAX).run(backend)[0] == 9
    assert backend.conv2d_scratch_size(SHAPE, SHAPE, SHAPE) == 0


def test_fallbacks_nest() -> None:
    backend = Fallback(SquarePools(), Fallback(Sevens(), ReferenceBackend()))
    assert set(Draw(1).case(BuiltinOperator.ADD).run(backend)) == {7}


@pytest.mark.parametrize(
    ("first", "second", "conv2d", "depthwise", "softmax"),
    [
        (Sevens(), ReferenceBackend(), 0, 0, 0),
        (Sevens(), Hungry(), 50, 0, 60),
        (Sized(), Hungry(), 100, 0, 60),  # no softmax of its own, so no scratch for it
        (Hungry(), ReferenceBackend(), 50, 0, 60),
        (Hungry(), Fallback(Sized(), ReferenceBackend()), 100, 0, 60),
    ],
)
def test_scratch_is_enough_for_either(
    first: object, second: KernelBackend, conv2d: int, depthwise: int, softmax: int
) -> None:
    backend = Fallback(first, second)
    assert backend.conv2d_scratch_size(SHAPE, SHAPE, SHAPE) == conv2d
    assert backend.depthwise_conv2d_scratch_size(SHAPE, SHAPE, SHAPE) == depthwise
    assert backend.softmax_scratch_size(10) == softmax


# Kernels of int16 activations.


class LoneSums:
    """A backend of int16 sums alone, which are all 7."""

    int16 = Sevens()


def int16_sum() -> ElementwiseAddParams:
    quant = QuantParam(1.0, 0)
    one, two, output = (memoryview(array("h", values)) for values in ([300, 1], [5, 6], [0, 0]))
    return ElementwiseAddParams(one, quant, two, quant, output, quant, FusedActivation.NONE)


def test_int16_kernels_of_the_first_come_before_those_of_the_second() -> None:
    kernels = int16_kernels(Fallback(LoneSums(), ReferenceBackend()))
    assert kernels is not None
    params = int16_sum()
    kernels.add(params)()
    assert params.output.tolist() == [7, 7]
    product = MulParams(**{field.name: getattr(params, field.name) for field in fields(params)})
    kernels.mul(product)()
    assert params.output.tolist() == [1500, 6]


def test_int16_kernels_of_either_are_enough() -> None:
    for backend in (
        Fallback(Sevens(), ReferenceBackend()),
        Fallback(Fallback(Sevens(), Bare()), ReferenceBackend()),
    ):
        kernels = int16_kernels(backend)
        assert kernels is not None
        params = int16_sum()
        kernels.add(params)()
        assert params.output.tolist() == [305, 7]


def test_backends_need_no_int16_kernels() -> None:
    assert int16_kernels(Bare()) is None
    assert int16_kernels(Fallback(Sevens(), Bare())) is None


class Bare(ReferenceBackend):
    """A backend that has no kernels of int16."""

    int16 = None  # type: ignore[assignment]  # as a backend without the attribute


def test_a_network_takes_numpys_int16_kernels_where_a_backend_has_none() -> None:
    unit = Quantization.per_tensor(1.0, 0)
    tensors = tuple(Tensor(name, (1, 2), TensorType.INT16, unit) for name in ("one", "two", "sum"))
    add = NetworkOperator(BuiltinOperator.ADD, ("one", "two"), ("sum",))
    network = load_network(bytes(Network(tensors, (add,), ("one", "two"), ("sum",))), Bare())
    for buffer, values in zip(network.inputs, ([300, 1], [5, 6]), strict=True):
        buffer[:] = memoryview(array("h", values)).cast("b")
    network.invoke()
    assert network.outputs[0].cast("B").cast("h").tolist() == [305, 7]
