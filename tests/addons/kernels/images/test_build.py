"""Building images: bit for bit the engine `kernels`, the same bytes each time, what cannot be built."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.images import compiler
from aisrv.addons.kernels.images.build import build_image, build_kernels, c_array, c_name, static_sizes
from aisrv.addons.kernels.images.compiler import COMPILER, compile_image
from aisrv.addons.kernels.images.packing import pack_image
from aisrv.addons.kernels.images.recording import record
from aisrv.addons.kernels.images.source import network_source
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE
from aisrv.addons.kernels.relocatable.runtime import LoadMode, Runtime
from aisrv.model.relocatable.container import Core, FloatAbi, Image, Variant
from aisrv.model.relocatable.errors import BuildError
from aisrv.model.relocatable.network import Network
from aisrv.model.values import Quantization
from tests.support.amounts import some
from tests.support.models import networks
from tests.support.models.one_operator import constant, single, tensor
from tests.support.models.relocatable import (
    DIGITS,
    DIGITS_FPU,
    DIGITS_M33,
    fresh_image,
    needs_compiler,
    read,
)
from tests.support.paths import ROOT
from tests.support.peers import mlperf_tiny

M4 = Variant(Core.CORTEX_M4)
OTHER_VARIANT = pytest.mark.long("the committed image of a Cortex-M4 is compared every day")
KERNELS_IMAGE = ROOT / "aisrv/addons/kernels/images/images/kernels-cortex-m4.nbin"


@pytest.fixture(autouse=True)
def _compiler(request: pytest.FixtureRequest) -> None:
    if "without_compiler" not in request.node.name:
        needs_compiler()


def network_outputs(model: bytes, inputs: list[bytes]) -> list[bytes]:
    """What the engine `kernels` computes."""
    network = load_network(model, find_backend("numpy"))
    for buffer, data in zip(network.inputs, inputs, strict=True):
        buffer[:] = memoryview(data).cast("b")
    network.invoke()
    return [bytes(buffer) for buffer in network.outputs]


def check_equal(model: bytes, variant: Variant, mode: LoadMode, runs: int = 3) -> None:
    """Run an image and the engine `kernels` on random inputs and compare all outputs."""
    pytest.importorskip("unicorn")
    runtime = Runtime(variant.core, seconds=60)
    runtime.write_flash(FLASH_BASE, fresh_image(model, variant))
    info = runtime.rt_get_info(FLASH_BASE)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, mode)
    assert runtime.init(handle, info.weights, runtime.malloc(info.acts_sz))
    report, rng = runtime.get_report(handle), np.random.default_rng(17)
    for _ in range(runs):
        inputs = [rng.integers(-128, 128, tensor.bytes).astype(np.int8).tobytes() for tensor in report.inputs]
        outputs = [bytearray(tensor.bytes) for tensor in report.outputs]
        assert runtime.run(handle, inputs, outputs) == 1, runtime.fault(handle)
        assert [bytes(output) for output in outputs] == network_outputs(model, inputs)


QUICKEST_FIRST = (
    "ad01_int8",
    "str_ww_ref_model",
    "kws_ref_model",
    "pretrainedResnet_quant",
    "vww_96_int8",
)


@pytest.mark.in_full
@pytest.mark.parametrize("name", some(QUICKEST_FIRST, every_day=1))
def test_mlperf_tiny_bit_for_bit(name: str) -> None:
    check_equal(mlperf_tiny.model_bytes(name), M4, LoadMode.XIP, runs=1)


@pytest.mark.long("a large network; those of digits run on this core every day")
@pytest.mark.in_full
@pytest.mark.parametrize("mode", some(list(LoadMode), every_day=1))
def test_keyword_spotting_on_a_cortex_m7(mode: LoadMode) -> None:
    model = mlperf_tiny.model_bytes("kws_ref_model")
    check_equal(model, Variant(Core.CORTEX_M7, uses_fpu=True, float_abi=FloatAbi.HARD), mode)


CORES = (Core.CORTEX_M4, Core.CORTEX_M7, Core.CORTEX_M33)
PAIRED = pytest.mark.long("every core and every mode run every day, but not each pair of them")


@pytest.mark.parametrize(
    ("core", "mode"),
    [
        pytest.param(core, mode, marks=() if place % len(LoadMode) == other else PAIRED)
        for place, core in enumerate(CORES)
        for other, mode in enumerate(LoadMode)
    ],
)
def test_the_digits_network_with_two_outputs(core: Core, mode: LoadMode) -> None:
    check_equal(digits.two_output_model_bytes(), Variant(core), mode)


def test_several_inputs_and_outputs() -> None:
    check_equal(networks.adding_network(3, 2), M4, LoadMode.XIP)


def test_an_image_is_the_same_each_time() -> None:
    model = digits.model_bytes()
    first = build_image(model, "digits").image
    compiler._objects.cache_clear()
    assert build_image(model, "digits").image == first


@pytest.mark.parametrize(
    ("path", "variant", "split"),
    [
        (DIGITS, M4, False),
        pytest.param(DIGITS_M33, Variant(Core.CORTEX_M33), True, marks=OTHER_VARIANT),
        pytest.param(
            DIGITS_FPU,
            Variant(Core.CORTEX_M7, uses_fpu=True, float_abi=FloatAbi.HARD),
            False,
            marks=OTHER_VARIANT,
        ),
    ],
)
def test_committed_images_are_what_is_built_now(path: Path, variant: Variant, split: bool) -> None:
    built = build_image(digits.model_bytes(), "digits", variant, split=split)
    if not is_debian_12():
        pytest.skip(f"another {COMPILER} than the one that the images were built with")
    assert built.image == read(path)
    assert built.weights == (read(path.with_suffix(".weights")) if split else None)


def test_the_committed_kernels_are_what_is_built_now() -> None:
    if not is_debian_12():
        pytest.skip(f"another {COMPILER} than the one that the image was built with")
    assert build_kernels() == KERNELS_IMAGE.read_bytes()


def is_debian_12() -> bool:
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout
    return "15:12.2.rel1-1" in version.splitlines()[0]


def test_split_is_the_same_image_without_weights() -> None:
    model = digits.model_bytes()
    whole, apart = build_image(model, "digits"), build_image(model, "digits", split=True)
    assert apart.weights is not None
    assert whole.image[100:] == apart.image[100:] + apart.weights
    assert Image.from_bytes(whole.image).weights == apart.weights


def test_the_description_of_an_image() -> None:
    network = Network.of(Image.from_bytes(build_image(digits.model_bytes(), "digits").image))
    assert [(tensor.bytes, tensor.zero_point) for tensor in (*network.inputs, *network.outputs)] == [
        (64, -128),
        (10, -128),
    ]
    assert network.multiplications == 84224


def test_an_image_of_the_kernels_has_all_of_them() -> None:
    image = Image.from_bytes(build_kernels())
    assert image.name == "kernels"
    assert Network.of(image).nodes == ()
    assert image.context.activations_size == 0


def test_a_c_array_is_the_image(tmp_path: Path) -> None:
    image = read(DIGITS)
    source, library = tmp_path / "image.c", tmp_path / "image.so"
    source.write_text(c_array(image, "digits"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    array = (ctypes.c_uint8 * len(image)).in_dll(ctypes.CDLL(str(library)), "digits_image")
    assert bytes(array) == image


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("digits", "digits"),
        ("a-b.c", "a_b_c"),
        ("7up", "_7up"),
        ("", "network"),
        ("\N{GREEK SMALL LETTER PI}", "_"),
        ("x" * 80, "x" * 31),
    ],
)
def test_names_become_identifiers(name: str, expected: str) -> None:
    assert c_name(name) == expected


def test_a_name_full_of_quotes() -> None:
    image = Image.from_bytes(build_image(digits.model_bytes(), 'x"; \\ %s').image)
    assert image.name == "x______s"


# What cannot be built.


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (b"", "0 bytes"),
        (networks.unknown_operator_network(), "9999"),
        (networks.custom_operator_network(), "custom"),
        (networks.summing_network(), "SVDF"),
    ],
)
def test_a_model_that_cannot_become_an_image(model: bytes, reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        build_image(model)


def _layer(bias: int) -> bytes:
    """FULLY_CONNECTED of one input and one weight of 1, whose sums are halved."""
    return single(
        BuiltinOperator.FULLY_CONNECTED,
        [
            tensor("in", (1, 1), 1.0, -128),
            constant("weights", [[1]], np.int8, Quantization.per_tensor(1.0, 0)),
            constant("bias", [bias], np.int32, Quantization.per_tensor(1.0, 0)),
        ],
        [tensor("out", (1, 1), 2.0)],
    )


def test_sums_that_may_leave_32_bits_are_refused_with_the_layers_name() -> None:
    # An input less its zero point is 255 at most, a zero point 128 below 0.
    largest = (1 << 31) - 1 - 255 - 128
    assert len(record(_layer(largest)).nodes) == len(record(_layer(-largest)).nodes) == 1
    for bias in (largest + 1, -largest - 1):
        with pytest.raises(
            BuildError, match=r"^operator 0 \(FULLY_CONNECTED\): the sum of channel 0 may be 2147483520 times"
        ):
            record(_layer(bias))


def test_a_core_without_images() -> None:
    with pytest.raises(BuildError, match="cortex-m55: images are built for cortex-m4, cortex-m7, cortex-m33"):
        build_image(digits.model_bytes(), variant=Variant(Core.CORTEX_M55))


def test_without_compiler_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    compiler._objects.cache_clear()
    with pytest.raises(BuildError) as caught:
        build_image(digits.model_bytes())
    assert str(caught.value) == "arm-none-eabi-gcc is not installed: apt-get install gcc-arm-none-eabi"


def test_code_that_does_not_compile() -> None:
    with pytest.raises(BuildError, match="arm-none-eabi-gcc failed"):
        compile_image("this is not C", M4)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (("int number = 3; extern const void *const table; "
         "const void *const table __attribute__((section(\".rodata.table\"), used)) = &number;"),
         r"number: its address is in \.rodata"),
        (("int number = 3; __attribute__((section(\".text.table\"), used, naked)) void table(void) "
         "{ __asm__(\".word number\"); }"),
         r"number: its address is in \.text"),
        (("int number = 3; __attribute__((section(\".text.table\"), used, naked)) void table(void) "
         "{ __asm__(\".word number - .\"); }"),
         r"number: \.text reaches it relative to the pc"),
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_relocated(source: str, reason: str) -> None:
    network = record(digits.model_bytes())
    kernels = sorted({node.step.kernel for node in network.nodes})
    text = network_source("digits", network, M4, kernels) + source
    with pytest.raises(BuildError, match=reason):
        pack_image(compile_image(text, M4, keep=("table",)), network.weights)


def test_no_elf_file() -> None:
    with pytest.raises(BuildError, match="cannot be read"):
        pack_image(b"no ELF", b"")


def test_static_code_is_smaller() -> None:
    needs_compiler()
    model = digits.model_bytes()
    sizes = Image.from_bytes(build_image(model).image).sizes
    static = static_sizes(model)
    assert (static.flash < sizes.ro, static.ram < sizes.xip) == (True, True)
