"""The configuration that XMOS's library wants: models that lack it get it, and stay the same models."""

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import tflite
from msgspec import structs

from aisrv import digits
from aisrv.inference.errors import ModelError
from aisrv.inference.interpreters.xcore_config import with_config
from aisrv.model import Metadata
from aisrv.model.reader import read_model
from tests.support.models import networks

NAME = "xcoreSharedConfig"
CONFIG_BYTES = 13 * 4 + 2 * 25 * 12
"""`xcore_metadata_t` of lib_tflite_micro."""

HEADER = """
namespace {name} {{
static const unsigned major_version = {};
static const unsigned minor_version = {};
static const unsigned patch_version = {};
}}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with the headers that say the libraries' versions."""
    for name, version in {"lib_nn": (1, 23, 456), "lib_tflite_micro": (7, 8, 9)}.items():
        folder = tmp_path / "runtime" / "include" / name / "api"
        folder.mkdir(parents=True)
        (folder / "version.h").write_text(HEADER.format(*version, name=name))
    return tmp_path


def configured(data: bytes, package: Path) -> bytes:
    return with_config(data, read_model(data), package)


def with_metadata(**metadata: bytes) -> bytes:
    return bytes(replace(networks.read(digits.model_bytes()), metadata=metadata))


def config(architecture: int = 0, threads: int = 1, inputs: int = 0, outputs: int = 0) -> bytes:
    words = (architecture, 1, 23, 456, 7, 8, 9, 1, 4, 2, threads, inputs, outputs)
    return struct.pack("<13I", *words).ljust(CONFIG_BYTES, b"\0")


MODELS = {
    "digits": digits.model_bytes(),
    "two outputs": digits.two_output_model_bytes(),
    "with metadata": with_metadata(first=b"one", second=bytes(99)),
    "a variable": networks.summing_network(),
    "two inputs": networks.two_input_add_network(1024),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_model_stays_the_same_but_for_the_metadata(model: bytes, package: Path) -> None:
    before, after = read_model(model), read_model(configured(model, package))
    expected = struct.pack("<13I", 0, 1, 23, 456, 7, 8, 9, 0, 0, 0, 1, 0, 0).ljust(CONFIG_BYTES, b"\0")
    added = Metadata(NAME, expected)
    assert after == structs.replace(before, description="", metadata=(*before.metadata, added))


def test_tensorflow_s_interpreter_takes_it_and_computes_the_same(package: Path) -> None:
    model = configured(digits.model_bytes(), package)
    for image, _ in digits.test_images()[:5]:
        assert networks.run(model, image) == networks.run(digits.model_bytes(), image)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_all_data_are_aligned(model: bytes, package: Path) -> None:
    data = configured(model, package)
    root = tflite.Model.GetRootAs(data, 0)
    starts = []
    for number in range(root.BuffersLength()):
        buffer = root.Buffers(number)
        if not buffer.DataIsNone():
            starts.append(buffer._tab.Vector(buffer._tab.Offset(4)))
    assert starts
    assert [start % 16 for start in starts] == [0] * len(starts)


def test_the_new_buffer_is_the_last(package: Path) -> None:
    before = tflite.Model.GetRootAs(digits.model_bytes(), 0)
    after = tflite.Model.GetRootAs(configured(digits.model_bytes(), package), 0)
    assert after.BuffersLength() == before.BuffersLength() + 1
    assert after.Metadata(after.MetadataLength() - 1).Buffer() == before.BuffersLength()


@pytest.mark.parametrize("architecture", [0, 1])
@pytest.mark.parametrize("threads", [1, 5])
def test_a_model_with_a_configuration_is_left_alone(architecture: int, threads: int, package: Path) -> None:
    model = with_metadata(xcoreSharedConfig=config(architecture, threads))
    assert configured(model, package) == model


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "has 0 bytes of 652"),
        (config()[:-1], "has 651 bytes of 652"),
        (config(architecture=2), "for architecture 2"),
        (config(threads=0), "for 0 threads: there are 1 to 5"),
        (config(threads=6), "for 6 threads: there are 1 to 5"),
        (config(inputs=1), "1 inputs and 0 outputs of the model are in external memory"),
        (config(outputs=26), "0 inputs and 26 outputs of the model are in external memory"),
    ],
)
def test_configurations_that_the_library_would_run_into(data: bytes, reason: str, package: Path) -> None:
    with pytest.raises(ModelError, match=reason):
        configured(with_metadata(xcoreSharedConfig=data), package)


def test_names_count_up_to_the_length_that_the_library_compares(package: Path) -> None:
    with pytest.raises(ModelError, match="has 3 bytes"):
        configured(with_metadata(xcoreSharedConfigToo=b"bad"), package)


def test_a_package_without_headers_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"lib_nn/api/version\.h"):
        configured(digits.model_bytes(), tmp_path)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (1, "lib_nn 99.23.456, this is 1.23.456"),
        (2, "lib_nn 1.99.456, this is 1.23.456"),
        (4, "lib_tflite_micro 99.8.9, this is 7.8.9"),
        (5, "lib_tflite_micro 7.99.9, this is 7.8.9"),
    ],
)
def test_a_model_for_another_version_is_refused_by_name_and_version(
    package: Path, place: int, message: str
) -> None:
    other = bytearray(config())
    struct.pack_into("<I", other, 4 * place, 99)
    with pytest.raises(ModelError, match=f"made for another version of XMOS's library: {re.escape(message)}"):
        configured(with_metadata(**{NAME: bytes(other)}), package)


@pytest.mark.parametrize("place", [3, 6, 7, 8, 9])
def test_patches_and_converters_may_be_of_another_version(package: Path, place: int) -> None:
    other = bytearray(config())
    struct.pack_into("<I", other, 4 * place, 99)
    model = with_metadata(**{NAME: bytes(other)})
    assert configured(model, package) == model


def test_operators_of_xmos_without_a_version_are_refused_by_name(package: Path) -> None:
    """Converters before the metadata wrote options that the library would read as others."""
    message = r"operator 0 \(XC_conv2d_shallowin\) was made for another version of XMOS's library"
    with pytest.raises(ModelError, match=message):
        configured(networks.custom_operator_network("XC_conv2d_shallowin"), package)
