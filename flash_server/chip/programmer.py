"""A programmer of flash chips behind a serprog server: a virtual chip, or hardware that speaks the protocol.

    with Programmer.connect("localhost:5040") as programmer:
        programmer.write(0x100000, image)

Blocking. Commands of the chip: Macronix MX25R6435F data sheet, section "Command description".
"""

import socket
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Final, Self

from flash_server.chip.part import Erase, FlashPart, part_identified
from flash_server.chip.sector_change import SectorChange, sector_steps, touched
from flash_server.chip.serprog import (
    COMMAND_MAP_SIZE,
    LARGEST_LENGTH,
    VERSION,
    SerprogCommand,
    SerprogReply,
    pack_spi_operation,
    unpack_command_map,
)
from flash_server.chip.sfdp import part_described
from flash_server.errors import ProgrammerError, ProtectedError
from flash_server.files import Progress, ignore

SECONDS: Final = 10.0
"""Time for connecting, and for each answer."""

_READ, _READ_IDENTIFICATION, _READ_SFDP, _READ_STATUS = 0x03, 0x9F, 0x5A, 0x05
_WRITE_ENABLE, _PROGRAM = 0x06, 0x02
_WIP, _BLOCK_PROTECTION = 0x01, 0x3C

_SLOWEST: Final = 10
"""Factor of its typical time that an operation may take; parts state 6 to 8."""

_SFDP_SIZE: Final = 256
_READ_PIECE: Final = 65536
_HEADER_SIZE: Final = 4  # opcode and address


class Programmer:
    """A connection to a serprog server.

    `name` is the server's in messages. `address` and `size` are in bytes; `progress` is called with the bytes
    done and all bytes.
    """

    def __init__(self, connection: socket.socket, name: str) -> None:
        self._socket = connection
        self._name = name
        self._instant = False
        try:
            self._largest_send, self._largest_read = self._greet()
        except BaseException:
            connection.close()
            raise

    @classmethod
    def connect(cls, address: str, timeout: float = SECONDS) -> Self:
        """Connect to the `address` HOST:PORT within `timeout` seconds. Raises ProgrammerError."""
        host, separator, port = address.rpartition(":")
        if not separator or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ProgrammerError(f"{address!r} is not the address of a serprog server; give HOST:PORT")
        try:
            connection = socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, UnicodeError) as error:  # a name that no codec takes is a UnicodeError
            raise ProgrammerError(f"no serprog server at {address}: {error}") from error
        return cls(connection, address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, so that others can use the chip."""
        self._socket.close()

    # What is done with a chip. All raise ProgrammerError where the server fails, PartError for addresses
    # that the chip does not have.

    def identify(self) -> FlashPart:
        """Identify the part, by its JEDEC id or the table in which it describes itself. Raises PartError."""
        return self._part

    @cached_property
    def _part(self) -> FlashPart:
        identification = self._spi(bytes((_READ_IDENTIFICATION,)), 3)
        if identification in (b"\xff\xff\xff", b"\0\0\0"):
            raise ProgrammerError(f"no flash chip answers behind {self._name}")
        known = part_identified(identification)
        if known is not None:
            return known
        return part_described(identification, self._spi(_addressed(_READ_SFDP, 0) + b"\0", _SFDP_SIZE))

    def read(self, address: int, size: int, progress: Progress = ignore) -> bytes:
        """Read bytes."""
        self._part.check_range(address, size)
        piece = min(_READ_PIECE, self._largest_read)
        data = bytearray()
        while len(data) < size:
            data += self._spi(_addressed(_READ, address + len(data)), min(piece, size - len(data)))
            progress(len(data), size)
        return bytes(data)

    def write(self, address: int, data: bytes, progress: Progress = ignore) -> None:
        """Write `data` to the chip, and verify. Other bytes of the same sectors are kept.

        Only sectors that differ are touched, and only those erased whose bits have to be set; the first one
        is erased before others change, and programmed after them. Raises ProtectedError if the chip's status
        register protects blocks.
        """
        part = self._part
        part.check_range(address, len(data))
        self._check_unprotected()
        program = min(part.page_size, self._largest_send - _HEADER_SIZE)
        sectors = touched(address, len(data), part.sector_size)
        old = self.read(sectors.start, len(sectors))
        steps = sector_steps(address, data, old, part.sector_size)
        for done, step in enumerate(steps, 1):
            self._change_sector(step.start, SectorChange.of(step.old, step.new, program))
            progress(len(data) * done // len(steps), len(data))
        self.verify(address, data)

    def erase(self, address: int, size: int, progress: Progress = ignore) -> None:
        """Set all bits of whole sectors. Raises PartError if the bounds are within sectors."""
        part = self._part
        part.check_range(address, size)
        sector = part.erases[0]
        part.check_sectors(address, size)
        self._check_unprotected()
        for done in range(0, size, sector.size):
            self._erase(sector, address + done)
            progress(done + sector.size, size)

    def verify(self, address: int, data: bytes, progress: Progress = ignore) -> None:
        """Compare the chip with `data`. Raises ProgrammerError, which names the first byte that differs."""
        found = self.read(address, len(data), progress)
        if found != data:
            place = next(
                place for place, pair in enumerate(zip(found, data, strict=True)) if pair[0] != pair[1]
            )
            raise ProgrammerError(
                f"{self._part.name} holds 0x{found[place]:02X} at 0x{address + place:06X}, "
                f"not 0x{data[place]:02X}: it is worn or protected, or something else writes to it"
            )

    def _change_sector(self, start: int, change: SectorChange) -> None:
        if change.erases:
            self._erase(self._part.erases[0], start)
        programs = [_addressed(_PROGRAM, start + offset) + page for offset, page in change.programs]
        # A chip that takes no time needs no round trip for each page. A busy one ignores what comes
        # meanwhile; to program a page twice does no harm.
        if self._instant and self._change_all(programs):
            return
        for program in programs:
            self._instant = self._change(program, self._part.page_program_seconds)

    def _erase(self, sector: Erase, address: int) -> None:
        self._change(_addressed(sector.opcode, address), sector.seconds)

    def _check_unprotected(self) -> None:
        (status,) = self._spi(bytes((_READ_STATUS,)), 1)
        if status & _BLOCK_PROTECTION:
            raise ProtectedError(
                f"{self._part.name} protects blocks (status register 0x{status:02X}); clear BP0 to BP3 first"
            )

    def _change_all(self, commands: Sequence[bytes]) -> bool:
        """Send several changes at once; return False if the chip was busy in between and ignored some."""
        operations = [each for command in commands for each in _enabled(command)]
        return not any(state[0] & _WIP for state in self._spi_all(operations)[2::3])

    def _change(self, command: bytes, seconds: float) -> bool:
        """Change the chip and wait until it is idle; return whether it was so at once.

        `seconds` is the typical time.
        """
        state = self._spi_all(_enabled(command))[-1]
        at_once = not state[0] & _WIP
        limit = _SLOWEST * seconds + SECONDS
        deadline = time.monotonic() + limit
        while state[0] & _WIP:
            if time.monotonic() > deadline:
                raise ProgrammerError(f"{self._part.name} is still busy after {limit:.1f} s")
            time.sleep(seconds / 10)  # the chip has no other way to tell
            state = self._spi(bytes((_READ_STATUS,)), 1)
        return at_once

    # The protocol.

    def _greet(self) -> tuple[int, int]:
        """Check that it is a serprog server for SPI; return how much an operation may send and read."""
        self._send(bytes((SerprogCommand.SYNCNOP,)))
        if self._receive(2) != bytes((SerprogReply.NAK, SerprogReply.ACK)):
            raise ProgrammerError(f"{self._name} does not speak the serprog protocol")
        version = int.from_bytes(self._ask(SerprogCommand.Q_IFACE, 2), "little")
        if version != VERSION:
            raise ProgrammerError(f"{self._name} speaks version {version} of serprog, not {VERSION}")
        known = unpack_command_map(self._ask(SerprogCommand.Q_CMDMAP, COMMAND_MAP_SIZE))
        if SerprogCommand.O_SPIOP not in known:
            raise ProgrammerError(f"{self._name} is a programmer without SPI")
        limits = []
        for command in (SerprogCommand.Q_WRNMAXLEN, SerprogCommand.Q_RDNMAXLEN):
            limit = int.from_bytes(self._ask(command, 3), "little") if command in known else 0
            limits.append(limit or LARGEST_LENGTH)
        if limits[0] <= _HEADER_SIZE:
            raise ProgrammerError(f"{self._name} sends {limits[0]} bytes at once: too few for a command")
        return limits[0], limits[1]

    def _ask(self, command: SerprogCommand, size: int) -> bytes:
        self._send(bytes((command,)))
        return self._answer(command.name, size)

    def _spi(self, out: bytes, read: int) -> bytes:
        return self._spi_all(((out, read),))[0]

    def _spi_all(self, operations: Sequence[tuple[bytes, int]]) -> list[bytes]:
        """Send several transactions at once; return the bytes read by each."""
        self._send(b"".join(pack_spi_operation(*operation) for operation in operations))
        return [self._answer("O_SPIOP", read) for _, read in operations]

    def _answer(self, what: str, size: int) -> bytes:
        reply = self._receive(1)[0]
        if reply == SerprogReply.NAK:
            raise ProgrammerError(f"{self._name} refuses {what}: see the log of what runs there")
        if reply != SerprogReply.ACK:
            raise ProgrammerError(
                f"{self._name} answers {what} with 0x{reply:02X}, which is neither ACK nor NAK"
            )
        return self._receive(size)

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ProgrammerError(f"{self._name} went away: {error}") from error

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._socket.recv(size - len(data))
            except TimeoutError:
                raise ProgrammerError(
                    f"{self._name} does not answer within {self._socket.gettimeout():g} s"
                ) from None
            except ConnectionError:
                piece = b""
            except OSError as error:
                raise ProgrammerError(f"{self._name} went away: {error}") from error
            if not piece:
                raise ProgrammerError(
                    f"{self._name} closed the connection; another programmer may have the chip"
                )
            data += piece
        return bytes(data)


def _enabled(command: bytes) -> tuple[tuple[bytes, int], ...]:
    """Return the transactions of a change: write-enable, the command, and the status after it."""
    return (bytes((_WRITE_ENABLE,)), 0), (command, 0), (bytes((_READ_STATUS,)), 1)


def _addressed(opcode: int, address: int) -> bytes:
    return bytes((opcode,)) + address.to_bytes(3, "big")
