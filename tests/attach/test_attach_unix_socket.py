"""Servers at Unix sockets: who may connect, whose file is replaced, and that nothing stays behind."""

import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from aisrv.attach.usbip.server import UsbipServer
from aisrv.values.private_directory import private_socket
from host_tools.client import AiServer
from host_tools.errors import BadAddressError, DeviceNotFound
from host_tools.transports.usbip.discovery import list_devices
from host_tools.transports.virtual import VirtualDevice
from tests.support.programs import AISRV, refusal

ID = 0x12345678


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[None]:
    """A server without devices."""
    async with trio.open_nursery() as nursery:
        await nursery.start(UsbipServer([]).serve_unix, path)
        yield
        nursery.cancel_scope.cancel()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usbip"


async def test_server_answers_at_its_path(path: Path) -> None:
    async with listening(path):
        assert await trio.to_thread.run_sync(list_devices, f"unix:{path}") == []


async def test_only_this_user_may_connect(path: Path) -> None:
    async with listening(path):
        assert stat.S_IMODE((await trio.Path(path).stat()).st_mode) == 0o600


async def test_file_is_removed_at_the_end(path: Path) -> None:
    async with listening(path):
        assert await trio.Path(path).is_socket()
    assert not await trio.Path(path).exists()


async def test_file_that_somebody_removed_already(path: Path) -> None:
    async with listening(path):
        await trio.Path(path).unlink()


async def test_file_of_a_dead_server_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
        dead.listen()
    async with listening(path):
        assert await trio.to_thread.run_sync(list_devices, f"unix:{path}") == []


async def test_living_server_keeps_its_file(path: Path) -> None:
    async with listening(path):
        with pytest.raises(OSError, match="Address already in use"):
            await UsbipServer([]).serve_unix(path)
        assert await trio.to_thread.run_sync(list_devices, f"unix:{path}") == []


async def test_busy_server_keeps_its_file(path: Path) -> None:
    """Its queue of connections is full."""
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(os.fspath(path))
        busy.listen(0)
        waiting.connect(os.fspath(path))
        with pytest.raises(OSError, match="Address already in use"):
            await UsbipServer([]).serve_unix(path)
        assert await trio.Path(path).is_socket()


async def test_other_file_stays(path: Path) -> None:
    await trio.Path(path).write_text("mine")
    with pytest.raises(OSError, match="Address already in use"):
        await UsbipServer([]).serve_unix(path)
    assert await trio.Path(path).read_text() == "mine"


async def test_directory_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await UsbipServer([]).serve_unix(tmp_path / "none" / "usbip")


async def test_path_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        await UsbipServer([]).serve_unix(tmp_path / ("x" * 108))


async def test_log_names_the_peers_process(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(path):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(os.fspath(path))
            peer.sendall(b"nonsense")
            assert await trio.to_thread.run_sync(peer.recv, 1) == b""
    assert f"USB/IP peer process {os.getpid()}: speaks version" in caplog.text


# The client's address


def test_no_server_at_a_path(path: Path) -> None:
    with pytest.raises(DeviceNotFound, match=f"^unix:{path}: no USB/IP server answers"):
        AiServer.open(f"usbip:unix:{path}")


@pytest.mark.parametrize("address", ["usbip:unix:", "usbip:unix:/1-1"])
def test_address_without_a_path(address: str) -> None:
    with pytest.raises(BadAddressError, match="lacks a path"):
        AiServer.open(address)


# The commands


def test_run_serves_devices_at_a_socket(path: Path) -> None:
    command = [*AISRV, "run", "--socket", str(path), "--until-eof", "--devices", "2"]
    with VirtualDevice(command) as device:
        assert device.address == f"unix:{path}"
        for busid in ("1-1", "1-2"):
            with AiServer.open(f"usbip:unix:{path}/{busid}") as server:
                assert server.id == ID
        with pytest.raises(DeviceNotFound, match="exports 2 AI servers"):
            AiServer.open(f"usbip:unix:{path}")
    assert not path.exists()


def test_run_takes_a_socket_in_place_of_a_port(path: Path) -> None:
    code, output, errors = refusal("run", "--socket", path, "--port", "0")
    assert (code, output) == (2, "")
    assert "--socket takes the place of --port" in errors


def test_run_says_why_a_socket_cannot_be_had(path: Path) -> None:
    path.write_text("mine")
    code, output, errors = refusal("run", "--socket", path)
    assert (code, output) == (1, "")
    assert "Address already in use" in errors


# Sockets of this user's own


def test_private_socket_leaves_nothing() -> None:
    with private_socket() as path:
        directory = Path(path).parent
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not directory.exists()


def test_private_socket_fits_where_the_temporary_directory_has_a_long_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("x" * 100)))
    with private_socket() as path, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
