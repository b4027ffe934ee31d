"""How a command travels to an engine and back, in both USB framings.

Source: "XCORE AI server: numbers and wire behavior", section USB framing.

- A command packet goes out. A SET's data follows and ends with a packet shorter than 512 bytes, which is
  empty where the data is a multiple of 512 bytes. A GET's data comes in and ends the same way.
- Classic: a failure halts both endpoints; a stall of one alone is not a failure of a command.
  A GET's failure shows when its data is read. A SET's failure shows
  only at the next transfer, so a SET is followed by GET_ID, which waits for the engine and changes nothing.
- Design: a status word comes after a SET's data and before a GET's.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from aisrv.protocol.commands import (
    PACKET_SIZE,
    STATUS_ERRORS,
    Command,
    CommandPacket,
    Dialect,
    Status,
    command_name,
    is_set,
)
from aisrv.values.printable import printable_lines
from host_tools.errors import (
    CommandError,
    NoEngineError,
    TransferError,
    TransferStall,
    TransferTimeout,
    UnsupportedCommand,
    command_error,
)
from host_tools.transports.transport import Buffer, Progress, Transport

CHUNK: Final = 1 << 20
"""Bytes of one large write: whole packets, and small enough to show progress."""

_SMALL: Final = 64 * 1024
"""Data of a SET that goes out together with its command packet."""

_FIRST_READ: Final = 16 * 1024
_MANY_READ: Final = 4 * 1024
_LARGEST_READ: Final = 1 << 20


class _Step(NamedTuple):
    """A command on its way: its numbers, and the writes it takes."""

    command: int
    tensor: int
    writes: list[Buffer]


class Exchange:
    """The commands of one engine over a transport, one at a time.

    A transfer that is cut short, by a time-out or an exception, leaves the device in the middle of a command;
    the next command then starts with a reset of the transport.
    """

    as_float32: Final[bool] = False
    """See `Wire`."""

    def __init__(self, transport: Transport, engine: int, dialect: Dialect, timeout: float | None) -> None:
        """Address `engine` in the framing `dialect`; `timeout` is in seconds for each transfer."""
        self.transport = transport
        self.engine = engine
        self.dialect = dialect
        self.timeout = timeout
        self._unconfirmed: tuple[int, int] | None = None
        self._in_step = True

    def get(self, command: int, tensor: int = 0) -> bytes:
        """Send a GET; return its data."""
        return self._get_after([], command, tensor)

    def set(
        self, command: int, data: Buffer = b"", tensor: int = 0, progress: Progress | None = None
    ) -> None:
        """Send a SET, and wait until the engine has done it."""
        if not is_set(command):
            raise UnsupportedCommand(f"{command_name(command)} cannot be sent over USB, only over SPI")
        content = memoryview(data).cast("B")
        step = self._set_step(command, content, tensor)
        if len(content) > _SMALL:
            self._send_large(step, content, progress)
        elif self.dialect is Dialect.CLASSIC:
            self._get_after([step], Command.GET_ID)
        else:
            self._check_status_word(step, self._transact([step], PACKET_SIZE))

    def run(self, data: Buffer) -> bytes:
        """Set input tensor 0, start an inference, get output tensor 0."""
        content = memoryview(data).cast("B")
        if self.dialect is Dialect.DESIGN or len(content) > _SMALL:
            self.set(Command.SET_INPUT_TENSOR, content)
            self.set(Command.START_INFER)
            return self.get(Command.GET_OUTPUT_TENSOR)
        steps = [
            self._set_step(Command.SET_INPUT_TENSOR, content),
            self._set_step(Command.START_INFER, memoryview(b"")),
        ]
        return self._get_after(steps, Command.GET_OUTPUT_TENSOR)

    def run_each(self, inputs: list[Buffer]) -> list[bytes] | None:
        """Do as `run` for inputs in flight at once; None where that does not go, or one of them fails.

        What is wrong then is for `run` to say: after a failure the next command starts with a reset.
        """
        together = getattr(self.transport, "exchange_each", None)
        contents = [memoryview(data).cast("B") for data in inputs]
        if together is None or self.dialect is Dialect.DESIGN or sum(map(len, contents)) > _SMALL:
            return None
        if not self._in_step:
            return None
        start = self._set_step(Command.START_INFER, memoryview(b"")).writes
        ask = self._packet(Command.GET_OUTPUT_TENSOR, 0)
        exchanges = [
            [*self._set_step(Command.SET_INPUT_TENSOR, content).writes, *start, ask] for content in contents
        ]
        self._in_step, self._unconfirmed = False, None
        try:
            answers: list[bytes] = together(exchanges, _MANY_READ, self.timeout)
        except (TransferError, TransferTimeout):
            return None
        if any(len(answer) >= _MANY_READ for answer in answers):
            return None
        self._in_step = True
        return answers

    def reset(self) -> None:
        """Make the device abandon the command in progress; its model stays."""
        self.transport.reset()

    def _get_after(self, sets: list[_Step], command: int, tensor: int = 0) -> bytes:
        """Send SETs whose failures show at the transfers that follow, then a GET; return the GET's data."""
        step = _Step(command, tensor, [self._packet(command, tensor)])
        if self.dialect is Dialect.DESIGN:
            self._check_status_word(step, self._transact([step], PACKET_SIZE))
            self._in_step = False
            data = self._receive_all()
        else:
            first = self._transact([*sets, step], _FIRST_READ)
            self._in_step = len(first) < _FIRST_READ
            data = first if self._in_step else first + self._receive_all()
        self._in_step = True
        return data

    def _transact(self, steps: list[_Step], length: int) -> bytes:
        """Do the writes of all steps, then one read of `length` bytes, unless 0.

        A stall is raised as the failure of the step that it belongs to: where the device does not take a
        command packet, that is the command before.
        """
        if not self._in_step:  # a transfer was cut short: what the device expects next is not known
            self.transport.reset()
            self._unconfirmed = None
        writes = [data for step in steps for data in step.writes]
        self._in_step = False
        try:
            answer = self.transport.exchange(writes, length, self.timeout)
        except TransferStall as stall:
            raise self._explain(*self._blame(steps, stall.writes_done)) from None
        finally:
            self._unconfirmed = None
        self._in_step = True
        return answer

    def _blame(self, steps: list[_Step], writes_done: int) -> tuple[int, int]:
        before = self._unconfirmed
        for step in steps:
            if writes_done == 0:
                return before or (step.command, step.tensor)
            if writes_done < len(step.writes):
                return step.command, step.tensor
            writes_done -= len(step.writes)
            before = step.command, step.tensor
        return steps[-1].command, steps[-1].tensor

    def _send_large(self, step: _Step, data: memoryview, progress: Progress | None) -> None:
        """Send a SET's data in chunks, one after another, and wait until the engine has done it."""
        self._transact([step._replace(writes=step.writes[:1])], 0)
        self._in_step = False
        try:
            for start in range(0, len(data), CHUNK):
                self.transport.write(data[start : start + CHUNK], self.timeout)
                if progress:
                    progress(min(start + CHUNK, len(data)), len(data))
            word = self.transport.exchange(step.writes[2:], self._status_length, self.timeout)
        except TransferStall:
            raise self._explain(step.command, step.tensor) from None
        self._in_step = True
        if self.dialect is Dialect.DESIGN:
            self._check_status_word(step, word)
        else:
            self._unconfirmed = step.command, step.tensor
            self.get(Command.GET_ID)

    @property
    def _status_length(self) -> int:
        return PACKET_SIZE if self.dialect is Dialect.DESIGN else 0

    def _set_step(self, command: int, data: memoryview, tensor: int = 0) -> _Step:
        """Create a SET: command packet, data, and an empty packet where no short one ends the data."""
        writes: list[Buffer] = [self._packet(command, tensor)]
        if data:
            writes.append(data)
        if len(data) % PACKET_SIZE == 0:
            writes.append(b"")
        return _Step(command, tensor, writes)

    def _packet(self, command: int, tensor: int) -> bytes:
        return _packet(command, self.engine, tensor, self.dialect is Dialect.DESIGN)

    def _receive_all(self) -> bytes:
        """Receive an answer of any length: reads of growing size, the last of which comes back short."""
        pieces = []
        for size in _read_sizes():
            pieces.append(self.transport.read(size, self.timeout))
            if len(pieces[-1]) < size:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _check_status_word(self, step: _Step, word: bytes) -> None:
        if len(word) != 4:
            self._in_step = False
            raise TransferError(
                f"{command_name(step.command)}: expected a status word of 4 bytes, got {len(word)} bytes"
            )
        status = int.from_bytes(word, "little")
        if status:
            raise self._explain(step.command, step.tensor, status)

    # Failures

    def _explain(self, command: int, tensor: int, status: int | None = None) -> CommandError | TransferStall:
        """Return the error for a command that failed with a status word, or where that is None with halts.

        A failed command halts both endpoints. Where one alone is halted, the device is still in the middle of
        the command, which it is made to abandon: that is a `TransferStall`.
        Reading the status clears its error bits: status() does not return again what was raised.
        """
        if status is None and (stall := self._leave_halts(command)) is not None:
            return stall
        answer = self._ask(Command.GET_STATUS)
        if answer is None:  # an engine that exists always answers
            error: CommandError = NoEngineError(command, self.engine, tensor, Status.ERROR_BAD_CMD)
        else:
            if status is None:
                status = int.from_bytes(answer, "little") & STATUS_ERRORS
            log = log_text(self._ask(Command.GET_DEBUG_LOG) or b"")
            error = command_error(command, self.engine, tensor, status, log)
        self._in_step = True
        return error

    def _leave_halts(self, command: int) -> TransferStall | None:
        """Clear the halts of a command; the stall where only one endpoint was halted."""
        halted = self.transport.halted()
        self.transport.clear_halts()
        if len(halted) != 1:
            return None
        self.transport.reset()
        self._in_step = True
        return TransferStall(f"{command_name(command)} at endpoint {next(iter(halted)):#04x}")

    def _ask(self, command: int) -> bytes | None:
        """Send a GET in the course of a failure; None where that fails, too."""
        try:
            self.transport.write(self._packet(command, 0), self.timeout)
            if self.dialect is Dialect.DESIGN and any(self.transport.read(PACKET_SIZE, self.timeout)):
                return None
            return self._receive_all()
        except TransferStall:
            self.transport.clear_halts()
            return None


@lru_cache(256)
def _packet(command: int, engine: int, tensor: int, is_design: bool) -> bytes:
    return bytes(CommandPacket(command, engine, tensor, Dialect.DESIGN if is_design else Dialect.CLASSIC))


def _read_sizes() -> Iterator[int]:
    size = _FIRST_READ
    while True:
        yield size
        size = min(2 * size, _LARGEST_READ)


def log_text(data: bytes) -> str:
    """Return the text of a debug log: lines, each of which some firmware pads with NUL by itself."""
    lines = (line.strip(b"\r\n") for line in data.split(b"\0"))
    return printable_lines(b"\n".join(line for line in lines if line).decode(errors="backslashreplace"))
