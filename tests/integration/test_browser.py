"""What a page in a browser can send to the listeners of a device: HTTP whose body the page chooses."""

import socket
from pathlib import Path

import pytest

from flash_server.chip.serprog import pack_spi_operation
from tests.support.programs import default_engine_line, next_command_line, running
from tests.support.usbip_host import request_import

ERASE = pack_spi_operation(b"\x06", 0) + pack_spi_operation(b"\xc7", 0)
HEAD = b"%s / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nContent-Length: %d\r\n\r\n%s"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"


def places(ready: str) -> dict[str, tuple[str, int]]:
    """Addresses of a ready line by scheme."""
    found = {}
    for place in ready.split(", "):
        scheme, _, address = place.partition(":")
        host, _, port = address.rpartition("@")[2].rpartition(":")
        found[scheme] = (host, int(port))
    return found


def answer(address: tuple[str, int], data: bytes) -> bytes:
    """All that a listener says before it ends the connection."""
    with socket.create_connection(address, timeout=20) as peer:
        peer.sendall(data)
        got = b""
        try:
            while piece := peer.recv(4096):
                got += piece
        except ConnectionResetError:  # it left without reading all
            pass
    return got


@pytest.mark.parametrize("method", [b"POST", b"GET", b"PUT", b"OPTIONS"])
def test_no_listener_obeys_a_page(tmp_path: Path, method: bytes) -> None:
    chip = tmp_path / "chip"
    options = "--flash", str(chip), "--flash-port", "0", "--spi-port", "0"
    with running(*options) as (process, ready):
        found = places(ready)
        with chip.open("r+b") as file:
            file.write(b"precious")
        for scheme, body in ("serprog", ERASE), ("usbip", request_import()), ("spi", b"\x01\0\0\0"):
            request = HEAD % (method, len(body), body)
            assert answer(found[scheme], request) == b""
            assert answer(found[scheme], b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + UPGRADE) == b""
        assert chip.read_bytes()[:8] == b"precious"
        process.terminate()
        process.wait(20)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert errors.count("speaks HTTP, as pages in a browser do: refused") == 6


def test_each_listener_has_an_address_and_strangers_are_named(tmp_path: Path) -> None:
    options = "--flash", str(tmp_path / "chip"), "--flash-port", "0", "--spi-port", "0"
    with running("--host", "0.0.0.0", "--spi-host", "127.0.0.2", *options) as (process, ready):
        found = places(ready)
        assert {scheme: host for scheme, (host, _) in found.items()} == {
            "usbip": "0.0.0.0",
            "spi": "127.0.0.2",
            "serprog": "127.0.0.1",
        }
        process.terminate()
        process.wait(20)
        assert process.stderr is not None
        errors = process.stderr.read().splitlines()
    assert len(errors) == 3
    assert "a USB/IP peer may come from other machines: listening on 0.0.0.0" in errors[0]
    assert errors[1] + "\n" == default_engine_line()
    assert errors[2] + "\n" == next_command_line(ready)
