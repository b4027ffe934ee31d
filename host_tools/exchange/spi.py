"""How a command travels to the engine of an SPI port and back: what `host_tools.exchange.usb` is for USB.

Source: "XCORE AI server: numbers and wire behavior", section SPI.

- A read is one transaction: the command, two dummy bytes, then the data. Nothing on the wire says how long
  the data are: the spec words do.
- A write goes in blocks of 512 bytes, a transaction each; a shorter one, maybe empty, ends it. The device is
  BUSY after each. START_INFER is a transaction of one byte.
- While the device is BUSY only GET_STATUS means anything, so that every command waits for it first. Reading
  the status clears its error bits: what earlier commands left is dropped, what a write leaves is raised.
- There are no engine and tensor numbers: the port has one engine, and commands concern its first tensors.
"""

import time
from collections.abc import Callable
from typing import Final

from aisrv.protocol.commands import (
    STATUS_ERRORS,
    Command,
    ProtocolError,
    Spec,
    Spi,
    Status,
    command_name,
    commands_of,
)
from host_tools.errors import (
    CommandError,
    NoModelError,
    TransferError,
    TransferTimeout,
    UnsupportedCommand,
    command_error,
)
from host_tools.exchange.usb import log_text
from host_tools.transports.spi.transport import SpiTransport
from host_tools.transports.transport import Buffer, Progress

BLOCK: Final = 512
"""Data bytes of one transaction of a write; one with fewer is the last."""

DUMMY_BYTES: Final = 2
SHORTEST_SLEEP: Final = 0.0001
LONGEST_SLEEP: Final = 0.005
"""Seconds between two readings of the status: an eighth of the time waited so far, within these bounds."""

_PROGRESS: Final = 32 * BLOCK

_FIXED: Final[dict[int, int]] = {
    command: command.size for command in commands_of(Spi.READ) if isinstance(command.size, int)
}
"""Bytes of the answers whose length never changes."""
_READS: Final = commands_of(Spi.READ, Spi.IN_SPEC)
_IN_SPEC: Final = commands_of(Spi.IN_SPEC)
_BLOCKWISE: Final = commands_of(Spi.BLOCKS)
_WRITES: Final = commands_of(Spi.BLOCKS, Spi.BARE)
_KNOWN_BITS: Final = int(Status.BUSY | Status.SENSING | STATUS_ERRORS)


class SpiExchange:
    """The commands of the engine behind one SPI port, one at a time.

    A write that is cut short leaves the device in the middle of it; the next command then ends it first.
    """

    as_float32: Final[bool] = False
    """See `Wire`."""

    def __init__(
        self,
        transport: SpiTransport,
        engine: int,
        timeout: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Ask for the id and the spec. `timeout` is in seconds, for each wait until the device is not BUSY.

        Raises UnsupportedCommand for another `engine` than 0, and what the transport raises.
        """
        if engine:
            raise UnsupportedCommand(
                f"engine {engine} cannot be named over SPI: the port belongs to one engine, "
                "which the board sets"
            )
        self.transport = transport
        self.timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._unfinished: int | None = None
        transport.transact(bytes([Command.HELLO]), timeout)

    def reset(self) -> None:
        """Raise UnsupportedCommand: over SPI the next command ends one that was cut short."""
        raise UnsupportedCommand("SPI has no reset: the next command ends one that was cut short")

    def get(self, command: int, tensor: int = 0) -> bytes:
        """Send a GET; return its data."""
        _check(command, tensor, _READS)
        if command == Command.GET_STATUS:
            return self._read(command, _FIXED[command])
        self._begin()
        return self._get(command)

    def set(
        self, command: int, data: Buffer = b"", tensor: int = 0, progress: Progress | None = None
    ) -> None:
        """Send a SET, and wait until the engine has done it."""
        _check(command, tensor, _WRITES)
        content = memoryview(data).cast("B")
        self._begin()
        self._set(command, content, progress)

    def run(self, data: Buffer) -> bytes:
        """Set the input tensor, start an inference, get the output tensor."""
        self._begin()
        self._set(Command.SET_INPUT_TENSOR, memoryview(data).cast("B"))
        self._set(Command.START_INFER, memoryview(b""))
        return self._get(Command.GET_OUTPUT_TENSOR)

    # Commands, once the device is not busy

    def run_each(self, _inputs: list[Buffer]) -> list[bytes] | None:
        """Return None: one run is in flight at a time."""
        return None

    def _get(self, command: int) -> bytes:
        if command in _FIXED:
            return self._read(command, _FIXED[command])
        spec = self._spec()
        if not (spec.input_bytes or spec.output_bytes or spec.timing_count):
            raise NoModelError(command, status=Status.ERROR_NO_MODEL)
        size = Command(command).size_by(spec)
        return size.to_bytes(4, "little") if command in _IN_SPEC else self._read(command, size)

    def _set(self, command: int, data: memoryview, progress: Progress | None = None) -> None:
        if command in _BLOCKWISE:
            errors = self._write_blocks(command, data, progress)
        else:
            self._transact(bytes([command]) + data)
            errors = self._await_idle(command)
        if errors:
            raise self._explain(command, errors)

    def _write_blocks(self, command: int, data: memoryview, progress: Progress | None) -> Status:
        """Write all blocks, the last of them short; returns the errors that came meanwhile."""
        errors = Status.OKAY
        for start in range(0, len(data) + 1, BLOCK):
            block = data[start : start + BLOCK]
            self._unfinished = command
            self._transact(bytes([command]) + block)
            if len(block) < BLOCK:
                self._unfinished = None
            errors |= self._await_idle(command)
            done = start + len(block)
            if progress and (done % _PROGRESS == 0 or done == len(data)):
                progress(done, len(data))
        return errors

    def _explain(self, command: int, errors: Status) -> CommandError:
        log = log_text(self._read(Command.GET_DEBUG_LOG, _FIXED[Command.GET_DEBUG_LOG]))
        return command_error(command, 0, 0, errors, log)

    # The wire

    def _begin(self) -> None:
        """Wait until the device takes a command, and end what an earlier one left in the middle."""
        self._await_idle()
        if self._unfinished is not None:
            self._transact(bytes([self._unfinished]))
            self._unfinished = None
            self._await_idle()

    def _await_idle(self, command: int | None = None) -> Status:
        """Read the status until BUSY is clear; returns the error bits of all readings."""
        errors = Status.OKAY
        started = self._clock()
        while True:
            status = self._status()
            errors |= status & STATUS_ERRORS
            if Status.BUSY not in status:
                return errors
            waited = self._clock() - started
            if self.timeout is not None and waited >= self.timeout:
                what = (
                    f"{command_name(command)} not done"
                    if command
                    else "no end of what the device is BUSY with"
                )
                raise TransferTimeout(f"SPI: {what} within {self.timeout:g} s")
            pause = min(max(waited / 8, SHORTEST_SLEEP), LONGEST_SLEEP)
            self._sleep(pause if self.timeout is None else min(pause, self.timeout - waited))

    def _status(self) -> Status:
        word = int.from_bytes(self._read(Command.GET_STATUS, 4), "little")
        if word & ~_KNOWN_BITS:
            raise TransferError(
                f"SPI: status {word:#010x} is not one of an AI server; is there one at this chip select?"
            )
        return Status(word)

    def _spec(self) -> Spec:
        try:
            return Spec.from_bytes(self._read(Command.GET_SPEC, _FIXED[Command.GET_SPEC]))
        except ProtocolError as error:
            raise TransferError(f"GET_SPEC: {error}") from error

    def _read(self, command: int, length: int) -> bytes:
        head = 1 + DUMMY_BYTES
        return self._transact(bytes([command]) + bytes(DUMMY_BYTES + length))[head:]

    def _transact(self, mosi: bytes) -> bytes:
        miso = self.transport.transact(mosi, self.timeout)
        if len(miso) != len(mosi):
            raise TransferError(f"SPI: {len(mosi)} bytes were clocked, {len(miso)} came")
        return miso


def _check(command: int, tensor: int, known: frozenset[int]) -> None:
    if command not in known:
        raise UnsupportedCommand(f"{command_name(command)} cannot be sent over SPI, only over USB")
    if tensor:
        raise UnsupportedCommand(
            f"{command_name(command)}: tensor {tensor} cannot be named over SPI, only tensor 0"
        )
