"""`aisrv-host raw`, `reset` and `load --from-flash`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisrv import AiServer, Board, digits
from aisrv.attach.background import BackgroundDevice
from aisrv.board import DEFAULT_BOOT, FlashSpec
from aisrv.inference.process.inline import inline
from host_tools.cli import main
from tests.support.benches.flash_node import Parts, image, swapped
from tests.support.command_calls import CommandCalls

COMMAND = CommandCalls(main)
done, failed, call = COMMAND.done, COMMAND.failed, COMMAND.call


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with BackgroundDevice(Board(), runner=inline) as device:
        address = f"usbip:{device.usbip_address}"
        monkeypatch.setenv("AISRV_DEVICE", address)
        yield address


@pytest.mark.parametrize("code", ["GET_ID", "get_id", "0x10", "16"])
def test_get(address: str, code: str) -> None:
    assert done("raw", code) == "00000000  78 56 34 12\n"


def test_get_in_json_and_to_a_file(address: str, tmp_path: Path) -> None:
    expected = {"command": 0x10, "tensor": 0, "sent": 0, "bytes": 4, "hex": "78563412"}
    assert json.loads(done("raw", "GET_ID", "--json")) == expected
    assert done("raw", "GET_ID", "--output", tmp_path / "id") == f"{tmp_path / 'id'}: 4 bytes\n"
    assert (tmp_path / "id").read_bytes() == b"\x78\x56\x34\x12"


def test_get_of_nothing(address: str) -> None:
    assert done("raw", "NONE") == "no data\n"


def test_set(address: str, digits_file: Path) -> None:
    assert done("raw", "SET_OUTPUT_GPIO_THRESH", "--data", "02 fb") == (
        "SET_OUTPUT_GPIO_THRESH: 2 bytes sent\n"
    )
    assert json.loads(done("gpio", "--json"))["thresholds"] == [-128, -128, -5, -128]
    answer = json.loads(done("--json", "raw", 0x86, "--file", digits_file))
    assert answer == {"command": 0x86, "tensor": 0, "sent": digits_file.stat().st_size}
    done("raw", "SET_INPUT_TENSOR", "--data", "00" * 64)
    assert "failed on engine 0, tensor 1" in failed(
        1, "raw", "SET_INPUT_TENSOR", "--tensor", 1, "--data", "00"
    )


def test_commands_that_nobody_knows(address: str) -> None:
    assert "command 0x7f failed" in failed(1, "raw", "0x7f")
    assert "command 0xff failed" in failed(1, "raw", "0xff", "--data", "0102")


@pytest.mark.parametrize(
    "words",
    [("nonsense",), ("256",), ("-1",), ("0x10", "--data", "00"), ("0x83", "--data", "0"),
     ("0x83", "--data", "zz"), ("0x83", "--data", "00", "--file", __file__), ("0x10", "--tensor", "256"), ()],
)  # fmt: skip
def test_wrong_usage(words: tuple[str, ...]) -> None:
    assert call("raw", *words).exit_code == 2


def test_reset_ends_a_command_that_was_cut_short(address: str) -> None:
    with AiServer.open(address) as server:
        server.load_model(digits.model_bytes())
        server._transport.write(b"\x83\0\0", 1)  # type: ignore[union-attr]  # a SET without its data
    assert done("reset") == "reset; the model stays\n"
    assert json.loads(done("--json", "reset")) == {"reset": True}
    with AiServer.open(address) as server:
        assert server.spec().input_bytes == 64


# load --from-flash


@pytest.fixture
def with_flash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    path = tmp_path / "flash.bin"
    data = swapped(image([Parts(digits.model_bytes())]))
    path.write_bytes((b"\xff" * DEFAULT_BOOT + data).ljust(FlashSpec().part.size, b"\xff"))
    with BackgroundDevice(Board(flashes=(FlashSpec(path=path),))) as device:
        monkeypatch.setenv("AISRV_DEVICE", f"usbip:{device.usbip_address}")
        yield device.usbip_address


@pytest.mark.parametrize("memory", ["arena", "ext"])
def test_model_from_flash(with_flash: str, memory: str) -> None:
    words = ("load", "--from-flash", *(["--ext"] if memory == "ext" else []))
    assert done(*words) == f"loaded from flash into {memory}: 64 bytes in, 10 bytes out\n"
    assert json.loads(done(*words, "--json")) == {"memory": memory, "input_bytes": 64, "output_bytes": 10}


def test_model_from_flash_without_a_flash(address: str) -> None:
    assert "SET_MODEL_ARENA_FLASH failed" in failed(1, "load", "--from-flash")


def test_file_or_flash(digits_file: Path) -> None:
    assert "give a file MODEL, or --from-flash" in failed(2, "load")
    assert "give a file MODEL, or --from-flash" in failed(2, "load", digits_file, "--from-flash")
