"""The dissector, in the real tshark, on captures of real programs."""

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from aisrv import digits
from aisrv.addons.captures.wireshark import DISSECTOR
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.ioserver import IoserverCommand
from tests.support.programs import missing, run_process

CLASSIC = """
import sys
from host_tools.client import AiServer
with AiServer.open("usb") as server:
    server.load_model(sys.argv[1])
    server.run(bytes(64))
    assert server.id == 0x12345678
"""

RAW = """
import sys, usb.core
device = usb.core.find(idVendor=0x20b1, idProduct=0xa15e)
for word in sys.argv[1:]:
    if word.startswith("<"):
        device.read(0x81, int(word[1:]))
    else:
        device.write(1, bytes.fromhex(word))
"""


def table(name: str) -> dict[int, str]:
    """Read a table of numbers and names in the dissector."""
    text = DISSECTOR.read_text().partition(f"local {name} = {{")[2].partition("\n}")[0]
    return {int(code, 16): word for code, word in re.findall(r'(0x[0-9a-f]+)\]?(?: =|,) "(\w+)"', text)}


@pytest.fixture
def tshark() -> str:
    program = shutil.which("tshark")
    if program is None:
        missing("tshark is not installed")
    return program


def seen(tshark: str, capture: Path, *fields: str, protocol: str = "aisrv") -> list[str]:
    """Return the lines of all packets that the dissector names."""
    chosen = [part for name in fields or ("_ws.col.Info",) for part in ("-e", name)]
    command: list[object] = [tshark, "-X", f"lua_script:{DISSECTOR}", "-o", f"aisrv.protocol:{protocol}"]
    command += ["-r", capture, "-Y", "aisrv", "-T", "fields", *chosen]
    done = run_process(command, check=True)
    assert "Lua" not in done.stderr
    return done.stdout.splitlines()


def capture(folder: Path, program: str, *words: object, options: Sequence[object] = ()) -> Path:
    path = folder / "usb.pcapng"
    aisrv = [sys.executable, "-P", "-m", "aisrv", "exec", "--pcap", path, *options]
    run_process([*aisrv, "--", sys.executable, "-c", program, *words], check=True)
    return path


def test_the_dissector_has_all_commands() -> None:
    assert table("commands") == {int(command): command.name for command in Command}


def test_the_dissector_has_all_commands_of_ioserver() -> None:
    assert table("ioserver_commands") == {int(command): command.name for command in IoserverCommand}


def test_the_dissector_has_all_bits_of_a_status() -> None:
    assert table("status_bits") == {int(bit): bit.name for bit in Status}


def test_commands_of_a_host_are_named(tshark: str, tmp_path: Path) -> None:
    model = tmp_path / "digits.tflite"
    model.write_bytes(digits.model_bytes())
    size = len(digits.model_bytes())
    lines = seen(tshark, capture(tmp_path, CLASSIC, model))
    assert [line for line in lines if "GET_ID" not in line] == [
        "SET_MODEL_ARENA engine 0 tensor 0",
        f"data of SET_MODEL_ARENA, {size} bytes",
        "SET_INPUT_TENSOR engine 0 tensor 0",
        "data of SET_INPUT_TENSOR, 64 bytes",
        "START_INFER engine 0 tensor 0",
        "GET_OUTPUT_TENSOR engine 0 tensor 0",
        "answer to GET_OUTPUT_TENSOR, 10 bytes",
    ]
    assert lines[-2:] == ["GET_ID engine 0 tensor 0", "answer to GET_ID, 4 bytes"]


def test_commands_of_the_design_framing_are_named(tshark: str, tmp_path: Path) -> None:
    get_id = "100000000000000000000000"
    path = capture(tmp_path, RAW, get_id, "<512")
    assert seen(tshark, path)[0] == "GET_ID engine 0 tensor 0"
    assert seen(tshark, path, "aisrv.command", "aisrv.engine", "aisrv.tensor")[0] == "0x10\t0\t0"


def test_the_status_is_told_in_words(tshark: str, tmp_path: Path) -> None:
    path = capture(tmp_path, RAW, "010000", "<512")
    assert seen(tshark, path) == [
        "GET_STATUS engine 0 tensor 0",
        "answer to GET_STATUS, 4 bytes: OKAY",
    ]


def test_a_command_of_one_byte_is_named(tshark: str, tmp_path: Path) -> None:
    assert seen(tshark, capture(tmp_path, RAW, "10", "<512")) == ["GET_ID", "answer to GET_ID, 4 bytes"]


def test_a_command_that_is_none_of_ours_is_numbered(tshark: str, tmp_path: Path) -> None:
    assert seen(tshark, capture(tmp_path, RAW, "fe0203")) == ["command 0xfe engine 2 tensor 3"]


def test_commands_of_ioserver_are_named_where_the_preference_says_so(tshark: str, tmp_path: Path) -> None:
    model = tmp_path / "digits.tflite"
    model.write_bytes(digits.model_bytes())
    words = ["030000", bytes(64).hex(), "010000", "", "020000", "<512", "070000", "", "080000"]
    path = capture(tmp_path, RAW, *words, options=["--protocol", "ioserver", "--model", model])
    assert seen(tshark, path, protocol="ioserver") == [
        "TENSOR_RECV_INPUT model 0 tensor 0",
        "data of TENSOR_RECV_INPUT, 64 bytes",
        "INVOKE model 0 tensor 0",
        "TENSOR_SEND_OUTPUT model 0 tensor 0",
        "answer to TENSOR_SEND_OUTPUT, 12 bytes",
        "RESET model 0 tensor 0",
        "EXIT model 0 tensor 0",
    ]
    fields = ("aisrv.ioserver_command", "aisrv.model", "aisrv.ioserver_answer_to")
    assert seen(tshark, path, *fields, protocol="ioserver")[3:5] == ["0x02\t0\t", "\t\t0x02"]
    assert seen(tshark, path)[1] == "GET_STATUS engine 0 tensor 0"  # what the preference is for
