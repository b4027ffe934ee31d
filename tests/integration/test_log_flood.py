"""A peer that floods the log of a device whose standard error nobody reads: other devices go on."""

import socket
import struct

from host_tools.client import AiServer
from tests.support.peers.usbip_host import request_import, submit_out
from tests.support.programs import running

MESSAGES = 20_000
"""Far more than a pipe of 64 KiB takes lines."""


def test_other_device_is_served_while_nobody_reads_standard_error() -> None:
    with running("--devices", "2", "-v") as (process, ready):
        host, _, port = ready.removeprefix("usbip:").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as flood:
            flood.sendall(request_import(b"1-1"))
            flood.recv(320, socket.MSG_WAITALL)
            for first in range(1, MESSAGES, 500):  # none of them is for this device
                flood.sendall(b"".join(submit_out(first + n, b"abc", devid=0x7) for n in range(500)))
                answers = b""
                while len(answers) < 48 * 500:
                    piece = flood.recv(48 * 500 - len(answers))
                    assert piece
                    answers += piece
                (status,) = struct.unpack_from(">i", answers, 20)
                assert status < 0
            with AiServer.open(f"usbip:{host}:{port}/1-2") as server:
                assert server.status() is not None
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr is not None
        errors = process.stderr.read()
    assert 0 < len(errors.splitlines()) < 500
    assert "more of these were left out" in errors
