"""`aisrv-flash reloc`: what it prints, what it writes, and its exit codes."""

import json
from pathlib import Path

import pytest

from aisrv import digits
from flash_server.cli import main
from tests.support.command_calls import CommandCalls
from tests.support.models.relocatable import DIGITS, DIGITS_M33, SEED, needs_compiler, read

COMMAND = CommandCalls(main)
done, failed = COMMAND.done, COMMAND.failed


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(digits.model_bytes())


def test_info() -> None:
    Path("image").write_bytes(SEED.image())
    lines = done("reloc", "info", "image").splitlines()
    assert lines[0] == 'Runtime Loadable Model - Memory Layout (core="cortex-m7", model="network")'
    assert lines[4] == "XIP size             = 7,280       data(6,708)+got(268)+bss(300) sections"


def test_info_with_weights_of_their_own() -> None:
    out = done("reloc", "info", DIGITS_M33, "--weights", DIGITS_M33.with_suffix(".weights"))
    assert "params size          = 7,752       in a file of its own" in out
    assert "params file size     = 7,752" in out


def test_info_in_json() -> None:
    Path("image").write_bytes(SEED.image())
    values = json.loads(done("--json", "reloc", "info", "image"))
    sizes = {
        name: values[name] for name in ("xip", "copy", "extra", "flash", "weights", "activations", "file")
    }
    assert sizes == {
        "xip": 7280, "copy": 46812, "extra": 2348, "flash": 46512, "weights": 24368, "activations": 18252,
        "file": 72860,
    }  # fmt: skip


def test_info_of_something_else() -> None:
    Path("image").write_bytes(b"TFL3" * 30)
    assert failed(1, "reloc", "info", "image") == (
        "aisrv-flash: image: neither an image, which begins with NBIN, nor a flash image\n"
    )


def test_info_of_no_file() -> None:
    assert "missing" in failed(2, "reloc", "info", "missing")


def test_build() -> None:
    needs_compiler()
    out = done("reloc", "build", "model.tflite", "--name", "digits", "-o", "image")
    assert out.endswith(f"\nimage: {len(read(DIGITS))} bytes\n")
    assert len(Path("image").read_bytes()) == len(read(DIGITS))


def test_build_in_three_files() -> None:
    needs_compiler()
    out = done(
        "reloc", "build", "model.tflite", "--split", "--c-array", "--cpu", "cortex-m33", "-o", "i.nbin"
    )
    assert "params file size     = 7,752" in out
    assert Path("i.weights").read_bytes() == read(DIGITS_M33.with_suffix(".weights"))
    assert "model_image[" in Path("i.c").read_text()


def test_build_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert failed(1, "reloc", "build", "model.tflite", "-o", "image") == (
        "aisrv-flash: arm-none-eabi-gcc is not installed: apt-get install gcc-arm-none-eabi\n"
    )
    assert not Path("image").exists()


def test_build_of_something_else() -> None:
    Path("model.tflite").write_bytes(b"no model")
    assert "not a TensorFlow Lite file" in failed(1, "reloc", "build", "model.tflite", "-o", "image")


def test_kernels() -> None:
    needs_compiler()
    assert 'model="kernels"' in done("reloc", "kernels", "-o", "image")


@pytest.mark.parametrize("part", ["operators", "xip"])
def test_fetches_of_an_image_in_a_flash_image(part: str) -> None:
    own = done("--json", "reloc", "fetches", DIGITS)
    done("pack", "--engine", "model=model.tflite", "--engine", f"{part}={DIGITS}", "--output", "flash.bin")
    assert done("--json", "reloc", "fetches", "flash.bin", "--engine", "1") == own


def test_an_image_and_its_weights_in_a_flash_image() -> None:
    weights = DIGITS_M33.with_suffix(".weights")
    done("pack", "--engine", f"xip={DIGITS_M33},operators={weights}", "--output", "flash.bin")
    assert done("reloc", "info", "flash.bin") == done("reloc", "info", DIGITS_M33, "--weights", weights)
    assert json.loads(done("--json", "reloc", "fetches", "flash.bin"))["bytes_read"] > 7752


def test_info_of_an_image_in_a_flash_image() -> None:
    done("pack", "--engine", f"operators={DIGITS}", "--output", "flash.bin")
    assert done("reloc", "info", "flash.bin") == done("reloc", "info", DIGITS)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (0, "there is no relocatable image for engine 0"),
        (2, "unknown engine 2: the flash image ends with engine 0"),
    ],
)
def test_flash_image_without_the_engines_image(engine: int, reason: str) -> None:
    done("pack", "--engine", "model=model.tflite", "--output", "flash.bin")
    assert reason in failed(1, "reloc", "info", "flash.bin", "--engine", engine)


def test_fetches() -> None:
    pytest.importorskip("unicorn")
    values = json.loads(done("--json", "reloc", "fetches", DIGITS, "--cache", "64K"))
    assert values["bytes_filled"] == 32 * values["misses"]
    assert " misses (" in done("reloc", "fetches", DIGITS)


def test_the_nodes_in_json() -> None:
    nodes = json.loads(done("--json", "reloc", "info", DIGITS))["nodes"]
    assert [node["multiplications"] for node in nodes] == [9216, 0, 73728, 0, 1280, 0]
    assert all(node["instructions"] > node["multiplications"] for node in nodes)
    assert all(node["bytes_moved"] >= 2 * node["multiplications"] for node in nodes)
