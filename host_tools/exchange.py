"""How a command travels to an engine and back, in both USB framings.

Source: "XCORE AI server: numbers and wire behaviour", section USB framing.

- A command packet goes out. A SET's data follows and ends with a packet shorter than 512 bytes, which is
  empty where the data is a multiple of 512 bytes. A GET's data comes in and ends the same way.
- Classic: a failure halts both endpoints. A GET's failure shows when its data is read. A SET's failure shows
  only at the next transfer, so a SET is followed by GET_ID, which waits for the engine and changes nothing.
- Design: a status word comes after a SET's data and before a GET's.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from aisrv.protocol import PACKET_SIZE, STATUS_ERRORS, Command, CommandPacket, Dialect, Status
from host_tools.errors import CommandError, NoEngineError, Stalled, TransferError, command_error
from host_tools.transports import Buffer, Transport

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes done and the bytes in all."""

CHUNK: Final = 1 << 20
"""Bytes of one large write: whole packets, and small enough to show progress."""

_FIRST_READ: Final = 16 * 1024
_LARGEST_READ: Final = 1 << 20


class Exchange:
    """The commands of one engine over a transport, one at a time.

    A transfer that is cut short, by a time-out or an exception, leaves the device in the middle of a command;
    the next command then starts with a reset of the transport.
    """

    def __init__(self, transport: Transport, engine: int, dialect: Dialect, timeout: float | None) -> None:
        """Address `engine` in the framing `dialect`; `timeout` is in seconds for each transfer."""
        self.transport = transport
        self.engine = engine
        self.dialect = dialect
        self.timeout = timeout
        self._unconfirmed: tuple[Command, int] | None = None
        self._in_step = True

    def get(self, command: Command, tensor: int = 0) -> bytes:
        """Send a GET; return its data."""
        self._begin(command, tensor)
        try:
            self._check_status_word(command, tensor)
            data = self._receive()
        except Stalled:
            raise self._explain(command, tensor) from None
        self._in_step = True
        return data

    def set(
        self,
        command: Command,
        data: Buffer = b"",
        tensor: int = 0,
        progress: Progress | None = None,
        confirm: bool = True,
    ) -> None:
        """Send a SET, and wait until the engine has done it.

        Without `confirm` a failure in the classic framing is raised by the next command, as this one's.
        """
        content = memoryview(data).cast("B")
        self._begin(command, tensor)
        try:
            self._send(content, progress)
            self._check_status_word(command, tensor)
        except Stalled:
            raise self._explain(command, tensor) from None
        self._in_step = True
        if self.dialect is Dialect.CLASSIC:
            self._unconfirmed = command, tensor
            if confirm:
                self.get(Command.GET_ID)

    def _begin(self, command: Command, tensor: int) -> None:
        """Send the command packet. The device takes it when it is done with the command before."""
        if not self._in_step:  # a transfer was cut short: what the device expects next is not known
            self.transport.reset()
            self._unconfirmed = None
        packet = self._packet(command, tensor)
        self._in_step = False
        try:
            self.transport.write(packet, self.timeout)
        except Stalled:
            raise self._explain(*(self._unconfirmed or (command, tensor))) from None
        finally:
            self._unconfirmed = None

    def _packet(self, command: Command, tensor: int) -> bytes:
        return bytes(CommandPacket(command, self.engine, tensor, self.dialect))

    def _send(self, data: memoryview, progress: Progress | None) -> None:
        for start in range(0, len(data), CHUNK):
            self.transport.write(data[start : start + CHUNK], self.timeout)
            if progress:
                progress(min(start + CHUNK, len(data)), len(data))
        if len(data) % PACKET_SIZE == 0:
            self.transport.write(b"", self.timeout)

    def _receive(self) -> bytes:
        """One answer of any length: reads of growing size, the last of which comes back short."""
        pieces = []
        for size in _read_sizes():
            pieces.append(self.transport.read(size, self.timeout))
            if len(pieces[-1]) < size:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _check_status_word(self, command: Command, tensor: int) -> None:
        if self.dialect is Dialect.CLASSIC:
            return
        word = self.transport.read(PACKET_SIZE, self.timeout)
        if len(word) != 4:
            raise TransferError(f"{command.name}: expected a status word of 4 bytes, got {len(word)} bytes")
        status = int.from_bytes(word, "little")
        if status:
            raise self._explain(command, tensor, status)

    # Failures

    def _explain(self, command: Command, tensor: int, status: int | None = None) -> CommandError:
        """The error for a command that failed with a status word, or where that is None with halts.

        Reading the status clears its error bits: a failure that is raised is not told again by status().
        """
        if status is None:
            self.transport.clear_halts()
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

    def _ask(self, command: Command) -> bytes | None:
        """A GET in the course of a failure; None where that fails, too."""
        try:
            self.transport.write(self._packet(command, 0), self.timeout)
            if self.dialect is Dialect.DESIGN and any(self.transport.read(PACKET_SIZE, self.timeout)):
                return None
            return self._receive()
        except Stalled:
            self.transport.clear_halts()
            return None


def _read_sizes() -> Iterator[int]:
    size = _FIRST_READ
    while True:
        yield size
        size = min(2 * size, _LARGEST_READ)


def log_text(data: bytes) -> str:
    """Text of a debug log: lines, each of which some firmware pads with NUL by itself."""
    lines = (line.strip(b"\r\n") for line in data.split(b"\0"))
    return b"\n".join(line for line in lines if line).decode(errors="backslashreplace")
