"""A virtual device for the time of one connection: `aisrv run` as a child process, reached over USB/IP.

The child serves at a Unix socket that is this user's alone, and says so in one line on its standard output.
Its standard input is a pipe that this process holds open and never writes to: when the pipe closes, the
child ends. That is how `close` ends it, and it also ends when this process is killed.
"""

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Final, Self

from aisrv.values.private_directory import private_socket
from host_tools.distribution import is_alone
from host_tools.errors import DeviceNotFound
from host_tools.transports.transport import DeviceInfo
from host_tools.transports.usbip.transport import UsbipTransport, open_usbip

READY: Final = "ready at usbip:"
"""What precedes the address in the child's ready line: `aisrv: ready at usbip:unix:PATH`."""

START_TIMEOUT: Final = 20.0
"""Seconds until the ready line must be there."""

STOP_TIMEOUT: Final = 5.0
"""Seconds that the child has to end by itself, and again once it was asked to by SIGTERM."""

_READY_LINE_LIMIT: Final = 4096


def device_command(board: str, path: str) -> list[str]:
    """Return the command that starts a device at a Unix socket; an empty `board` is the default board."""
    # -P: the directory that a user happens to be in must not provide the modules.
    command = [sys.executable, "-P", "-m", "aisrv", "run", "--socket", path, "--until-eof"]
    return [*command, "--board", board] if board else command


class VirtualDevice:
    """A device process that has said it is ready; `address` is its server's."""

    def __init__(self, command: Sequence[str], timeout: float = START_TIMEOUT) -> None:
        """Start the command and wait for its ready line; `DeviceNotFound` where none comes."""
        if is_alone():
            raise DeviceNotFound(
                "aisrv-host alone has no virtual device: uninstall it, and install aisrv, which has both"
            )
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                process_group=0,  # Ctrl-C is for the host program, which then ends the device in order
            )
        except OSError as error:
            self._log.close()
            raise DeviceNotFound(f"the virtual device does not start: {error}") from error
        try:
            self.address = self._await_ready(timeout)
        except BaseException:
            self._process.kill()
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The number of the device's process."""
        return self._process.pid

    def stop(self) -> None:
        """End the device: close its input, then SIGTERM, then SIGKILL. Stopping again does nothing."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        for insist in (self._process.terminate, self._process.kill, None):
            try:
                self._process.wait(STOP_TIMEOUT)
                break
            except subprocess.TimeoutExpired:
                if insist:
                    insist()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _await_ready(self, timeout: float) -> str:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for above
        line = _read_line(self._process.stdout, timeout)
        _, found, address = line.strip().rpartition(READY)
        if found:
            return address
        if line:
            raise DeviceNotFound(f"the virtual device said {line.strip()!r} where its ready line belongs")
        try:
            ended = f"ended with code {self._process.wait(STOP_TIMEOUT)}"
        except subprocess.TimeoutExpired:
            ended = "closed its output"
        raise DeviceNotFound(f"the virtual device {ended} before it was ready{self._last_words()}")

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="backslashreplace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""


def _read_line(pipe: IO[bytes], timeout: float) -> str:
    """Read one line within the time, or what came before the end of the stream."""
    deadline = time.monotonic() + timeout
    line = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not line.endswith(b"\n") and len(line) < _READY_LINE_LIMIT:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise DeviceNotFound(f"the virtual device was not ready within {timeout:g} s")
            piece = os.read(pipe.fileno(), 1)
            if not piece:
                break
            line += piece
    return line.decode(errors="backslashreplace")


def open_virtual(spec: str) -> UsbipTransport:
    """Start a device, with the board that `spec` names, and connect; closing the transport ends it."""
    with ExitStack() as running:
        path = running.enter_context(private_socket())
        device = running.enter_context(VirtualDevice(device_command(spec, path)))
        transport = open_usbip(device.address)
        transport.call_on_close(running.pop_all().close)
    return transport


def list_virtual(spec: str) -> list[DeviceInfo]:
    """List the virtual device that `open_virtual` would start; nothing is started."""
    return [DeviceInfo(f"virtual:{spec}" if spec else "virtual", note="started when it is used")]
