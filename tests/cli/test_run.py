"""`aisrv run`: what ends it, what it says first, and ports that others have."""

import socket
import subprocess
from pathlib import Path

import pytest
import trio

from aisrv.cli.run import read_to_end
from tests.support.programs import AISRV, run_process

RUN = (*AISRV, "run", "--port", "0", "--until-eof")
EMPTY = pytest.mark.long("an empty file is read as /dev/null is")


@pytest.mark.parametrize("content", [None, pytest.param(b"", marks=EMPTY), b"some text" * 1000])
def test_a_file_as_standard_input_ends_it(tmp_path: Path, content: bytes | None) -> None:
    if content is None:
        done = run_process(RUN)  # its standard input is /dev/null
    else:
        path = tmp_path / "input"
        path.write_bytes(content)
        with path.open("rb") as file:
            done = subprocess.run(RUN, stdin=file, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    address = done.stdout.partition("usbip:")[2].partition("\n")[0]
    assert done.stdout == f"aisrv: ready at usbip:{address}\n"
    assert done.stderr.endswith(f"aisrv: try aisrv-host --device usbip:{address} info\n")


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(bytes(10_000))
    with path.open("rb", buffering=0) as file:
        trio.run(read_to_end, file.fileno())
        assert file.tell() == 10_000


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ("--port", ()),
        ("--spi-port", ("--port", "0")),
        ("--jacdac-port", ("--port", "0", "--jacdac", "--jacdac-websocket-port", "0")),
    ],
)
def test_a_port_in_use_is_named_with_the_option_for_another(option: str, more: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run_process([*AISRV, "run", option, str(port), *more])
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: port {port} of 127.0.0.1 is in use; {option} takes another, {option} 0 any that is free\n"
    )


def test_an_spi_port_of_a_board_without_one_is_refused() -> None:
    done = run_process([*AISRV, "run", "--no-spi", "--spi-port", "0"])
    assert done.returncode == 2
    assert done.stderr.endswith("Error: --spi-port: the board has no SPI port; --spi gives it one\n")


def test_the_help_lists_options_in_groups() -> None:
    lines = run_process([*AISRV, "run", "--help"], check=True).stdout.splitlines()
    titles = [line for line in lines if line.endswith("options:")]
    assert titles == [
        f"{name} options:"
        for name in ("Server", "Board", "Device", "USB", "SPI", "Status", "Graph", "Jacdac", "Pins", "Web")
    ]
