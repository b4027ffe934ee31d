"""The parent's side of the processes that make rows of files."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from aisrv.addons.evaluate.data.urls import Url
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.running.reader_process import LENGTH, ReadJob, RowRead, Setup
from aisrv.inference.process.batches import RowMemory

# -P: the directory that a user happens to be in must not provide the modules.
_COMMAND: Final = (sys.executable, "-P", "-m", "aisrv.addons.evaluate.running.reader_process")


class ReaderDied(Exception):
    """A reader that ended, or took too long; the text says how."""


class Reader:
    """A process that makes rows, started when it is first needed and anew after it died."""

    def __init__(self, preparation: Preparation, memory: RowMemory, seconds: float) -> None:
        """Keep how rows are made, and their memory; `seconds` are what a job may take."""
        self._setup = Setup(
            preparation.specs, preparation.settings, memory.input_area.rows, memory.input_area.row_bytes
        )
        self._memory = memory
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: trio.SocketStream | None = None

    async def read(self, into: int, files: Sequence[Path | Url | bytes]) -> list[RowRead]:
        """Make rows of files, from row `into` on, and return what became of each; ReaderDied."""
        contents = tuple(each if isinstance(each, bytes) else os.fsencode(each) for each in files)
        job = ReadJob(into, contents, are_named=not isinstance(files[0], bytes))
        try:
            with trio.fail_after(self._seconds):
                stream = self._stream or await self._start()
                await _send(stream, job)
                (size,) = LENGTH.unpack(await _received(stream, LENGTH.size))
                return msgspec.msgpack.decode(await _received(stream, size), type=list[RowRead])
        except trio.TooSlowError:
            await self.stop()
            raise ReaderDied(f"reading took more than {self._seconds:g} s and was stopped") from None
        except (trio.BrokenResourceError, EOFError):
            code = await self.stop()
            raise ReaderDied(f"the reader {_ending(code)}") from None
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> int:
        """End the process, and return its exit code."""
        process, self._process = self._process, None
        stream, self._stream = self._stream, None
        if process is None or stream is None:
            return 0
        with trio.CancelScope(shield=True):
            await stream.aclose()
            with trio.move_on_after(1):  # which it has to end by itself, and so to leave its exit code
                await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        process.kill()
        return process.wait()

    async def _start(self) -> trio.SocketStream:
        own, other = socket.socketpair()
        with other:
            descriptors = (other.fileno(), self._memory.descriptor)
            self._process = subprocess.Popen(  # noqa: ASYNC220 - it returns when the process has begun
                [*_COMMAND, *map(str, descriptors), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                process_group=0,  # Ctrl-C is the parent's
            )
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(own))
        await _send(self._stream, self._setup)
        return self._stream


async def _received(stream: trio.SocketStream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = await stream.receive_some(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


async def _send(stream: trio.SocketStream, value: Setup | ReadJob) -> None:
    data = msgspec.msgpack.encode(value)
    await stream.send_all(LENGTH.pack(len(data)) + data)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
