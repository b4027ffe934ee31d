"""`aisrv run --jacdac`: its ready line, and a bus that answers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aisrv.addons.jacdac.wire.frame import Frame, ServicePacket, multicast_frame
from tests.support.programs import AISRV, run_process, start_process


@contextmanager
def running(*options: str) -> Iterator[str]:
    """Run a device; yields its ready line."""
    command = [*AISRV, "run", "--port", "0", "--until-eof", *options]
    with start_process(command, writes=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.stdin.close()
            process.wait(20)


def test_bus_answers_where_the_ready_line_says(tmp_path: Path) -> None:
    with running("--jacdac-port", "0", "--jacdac-websocket-port", "0", "--jacdac-serial") as line:
        places = dict(place.split(":", 1) for place in line.removeprefix("aisrv: ready at ").split(", "))
        assert list(places) == ["usbip", "jacdac", "ws", "jacdac-serial"]
        host, port = places["jacdac"].split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            question = multicast_frame(0x140F9A78, ServicePacket(0x3D, 0x1186))
            connection.sendall(bytes((len(question),)) + question)
            stream = connection.makefile("rb")
            while True:
                (length,) = stream.read(1)
                frame = Frame.from_bytes(stream.read(length))
                if frame.packets[0].service == 2:
                    break
        assert frame.packets == (ServicePacket(2, 0x1186, b"TFL3"),)
        assert Path(places["jacdac-serial"].strip()).exists()


def test_board_file_puts_a_device_on_a_bus(tmp_path: Path) -> None:
    board = tmp_path / "board.toml"
    board.write_text("[jacdac]\nport = 0\nwebsocket_port = 0\n")
    with running("--board", str(board)) as line:
        assert ", jacdac:127.0.0.1:" in line
    with running("--board", str(board), "--no-jacdac") as line:
        assert "jacdac" not in line


def test_what_to_type_next_has_a_command_for_the_bus() -> None:
    options = ("--port", "0", "--jacdac-port", "0", "--jacdac-websocket-port", "0", "--until-eof")
    done = run_process([*AISRV, "run", *options], check=True)
    usb, bus = done.stdout.removeprefix("aisrv: ready at ").split(", ")[:2]
    assert done.stderr.splitlines()[-2:] == [
        f"aisrv: try aisrv-host --device {usb} info",
        f"aisrv: try aisrv-host --device {bus} jacdac watch",
    ]


def test_bus_is_off_unless_it_is_asked_for() -> None:
    with running() as line:
        assert "jacdac" not in line


@pytest.mark.parametrize("hub", ["nowhere", "host:", "host:70000"])
def test_hub_that_cannot_be_is_a_usage_error(hub: str) -> None:
    result = run_process([*AISRV, "run", "--port", "0", "--jacdac-hub", hub])
    assert result.returncode == 2
    assert f"{hub!r} is not HOST:PORT" in result.stderr
