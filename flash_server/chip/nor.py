"""The state of a QSPI NOR flash, changed by its commands; no I/O and no time.

A program or an erase changes the storage when its command ends; then the chip is busy until `finish`, and
knows the seconds that the part would take. The user of the machine lets those pass or not.

Source: Macronix MX25R6435F data sheet, sections "Command description" and "Data protection"; the figures in
the table of commands are those of the part's SFDP table (JESD216B, section 6.4, DWORDs 1 and 3 to 7). Not
modeled, and ignored as unknown commands are: suspend and resume, the secured OTP area, burst lengths.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from flash_server.chip.part import BLOCK_ERASE, HALF_BLOCK_ERASE, SECTOR_ERASE, Erase, FlashPart
from flash_server.chip.sfdp import sfdp_of
from flash_server.chip.storage import Storage
from flash_server.errors import PartError

FLOATING: Final = b"\xff"
"""Bits that a master reads while the chip drives nothing: its pull-up."""


class StatusBit(IntFlag):
    """The status register."""

    WIP = 0x01
    """Write in progress."""
    WEL = 0x02
    """Write enable latch."""
    BP0 = 0x04
    BP1 = 0x08
    BP2 = 0x10
    BP3 = 0x20
    QE = 0x40
    """Quad enable: the pins WP# and HOLD# carry data."""
    SRWD = 0x80
    """Status register write disable, while WP# is low."""


BLOCK_PROTECTION: Final = StatusBit.BP0 | StatusBit.BP1 | StatusBit.BP2 | StatusBit.BP3
_NON_VOLATILE: Final = int(BLOCK_PROTECTION | StatusBit.QE | StatusBit.SRWD)
_WIP, _WEL, _QE = int(StatusBit.WIP), int(StatusBit.WEL), int(StatusBit.QE)

BOTTOM: Final = 0x08
"""Bit TB of configuration register 1: protection counts from the bottom. It can be set, never cleared."""
_CONFIGURATION_1: Final = 0x48  # TB, and DC for dummy cycles
_CONFIGURATION_2: Final = 0x02  # L/H switch: high performance mode


_DELIVERED: Final = bytes((_QE, 0))
"""Status and configuration register 1 of a new chip."""


@dataclass(frozen=True, slots=True)
class NorRequest:
    """The data of a command within one chip select, after opcode, address and dummy bytes."""

    address: int
    sent: bytes
    """Bytes on MOSI."""
    length: int
    """Bytes clocked, sent ones and read ones."""


Watcher = Callable[[int, bytes], None]


class Nor:
    """One flash chip.

    The non-volatile bits of its registers are the storage's; one that has none yet begins with quad reads
    enabled, as XMOS's tools leave a board's flash. Raises PartError for storage of another size.
    """

    def __init__(self, part: FlashPart, storage: Storage) -> None:
        if storage.size != part.size:
            raise PartError(f"storage of {storage.size} bytes for {part.name}, which has {part.size}")
        self.part: Final = part
        self.storage: Final = storage
        self.watchers: Final[list[Watcher]] = []
        """Called with address and bytes of each change of the array."""
        status, configuration = storage.read_registers() or _DELIVERED
        self.status: int = status & _NON_VOLATILE
        self.configuration = bytearray((configuration & BOTTOM, 0))
        self.write_protect_low = False
        self.operation: float | None = None
        """Typical seconds of the program or erase under way; None while the chip is idle."""
        self._asleep = False
        self._reset_enabled = self._reset_armed = False
        self._sfdp: Final = sfdp_of(part)
        self._erases: Final[Mapping[int, Erase]] = {erase.opcode: erase for erase in part.erases}

    # What the array does, for whoever has made sure that the chip is idle.

    def read(self, address: int, size: int) -> bytes:
        """Read bytes; past the end of the array it goes on at its start."""
        address %= self.part.size
        data = self.storage.read(address, min(size, self.part.size - address))
        if len(data) < size:
            turns, rest = divmod(size - len(data), self.part.size)
            data += (self.storage.read(0, self.part.size) * turns) + self.storage.read(0, rest)
        return data

    def refusal(self, address: int, size: int) -> str | None:
        """Return why a program or an erase of these bytes is ignored; None if it is not."""
        if not self.status & _WEL:
            return "the chip is not write-enabled"
        start, end = self.protected
        if address < end and start < address + size:
            return f"0x{start:06X} to 0x{end - 1:06X} is protected by the status register"
        return None

    @property
    def protected(self) -> tuple[int, int]:
        """Start and end of the range that BP0 to BP3 protect: 1, 2, 4, … blocks of the top or the bottom."""
        level = (self.status & BLOCK_PROTECTION) >> 2
        if not level:
            return 0, 0
        size = min(self.part.erases[-1].size << level - 1, self.part.size)
        return (0, size) if self.configuration[0] & BOTTOM else (self.part.size - size, self.part.size)

    def program(self, address: int, data: bytes) -> None:
        """Clear bits of a page; past its end it goes on at its start; of too many, the last count."""
        size = self.part.page_size
        page, offset = divmod(address % self.part.size, size)
        page *= size
        surplus = max(0, len(data) - size)
        offset = (offset + surplus) % size
        data = data[surplus:]
        room = size - offset
        mask = data[room:].ljust(offset, b"\xff") + data[:room].ljust(room, b"\xff")
        old = self.storage.read(page, size)
        self._store(page, _and(old, mask))
        self.operation = self.part.page_program_seconds

    def erase(self, erase: Erase, address: int) -> None:
        """Set all bits of the sector or block that holds the address."""
        self._erase_range(address % self.part.size // erase.size * erase.size, erase.size)
        self.operation = erase.seconds

    def erase_chip(self) -> None:
        self._erase_range(0, self.part.size)
        self.operation = self.part.chip_erase_seconds

    def _erase_range(self, address: int, size: int) -> None:
        erased = b"\xff" * self.part.sector_size
        for each in range(address, address + size, self.part.sector_size):
            self._store(each, erased)

    def _store(self, address: int, data: bytes) -> None:
        self.storage.write(address, data)
        for watcher in self.watchers:
            watcher(address, data)

    def finish(self) -> None:
        """End the operation under way: the chip is idle and no longer write-enabled."""
        self.operation = None
        self.status &= ~_WEL

    def wake(self) -> None:
        """Leave deep power-down, as any chip select does."""
        self._asleep = False

    @property
    def status_byte(self) -> int:
        """Answer of RDSR."""
        return self.status | _WIP if self.operation is not None else self.status

    # The wire.

    def execute(self, out: bytes, read: int = 0) -> bytes:
        """Run one transaction: clock `out` on MOSI, then return `read` bytes of MISO."""
        command = COMMANDS.get(out[0]) if out else None
        asleep, self._asleep = self._asleep, False
        self._reset_armed, self._reset_enabled = self._reset_enabled, False
        if command is None or asleep or (self.operation is not None and not command.while_busy):
            return FLOATING * read
        if command.quad and not self.status & _QE:
            return FLOATING * read
        header = command.header_size
        length = len(out) + read - header
        if length < 0:
            return FLOATING * read
        address = int.from_bytes(out[1:4].ljust(3, b"\0"), "big") if command.address_lanes else 0
        answer = command.perform(self, out[0], NorRequest(address, out[header:], length))
        return answer[-read:].rjust(read, FLOATING) if read else b""

    def _write_enable(self, _opcode: int, request: NorRequest) -> bytes:
        if not request.length:
            self.status |= _WEL
        return b""

    def _write_disable(self, _opcode: int, request: NorRequest) -> bytes:
        if not request.length:
            self.status &= ~_WEL
        return b""

    def _read_array(self, _opcode: int, request: NorRequest) -> bytes:
        skipped = len(request.sent)
        return self.read(request.address + skipped, request.length - skipped)

    def _program(self, _opcode: int, request: NorRequest) -> bytes:
        if request.length:
            data = request.sent + bytes(request.length - len(request.sent))
            self._change(request.address % self.part.size, 1, lambda: self.program(request.address, data))
        return b""

    def _erase(self, opcode: int, request: NorRequest) -> bytes:
        erase = self._erases.get(opcode)
        if erase is not None and not request.length:
            address = request.address % self.part.size // erase.size * erase.size
            self._change(address, erase.size, lambda: self.erase(erase, address))
        return b""

    def _erase_chip(self, _opcode: int, request: NorRequest) -> bytes:
        if not request.length:
            self._change(0, self.part.size, self.erase_chip)
        return b""

    def _change(self, address: int, size: int, change: Callable[[], None]) -> None:
        if self.refusal(address, size) is None:
            change()
        else:
            self.status &= ~_WEL

    def _read_status(self, _opcode: int, request: NorRequest) -> bytes:
        return bytes((self.status_byte,)) * request.length

    def _read_configuration(self, _opcode: int, request: NorRequest) -> bytes:
        return _repeat(bytes(self.configuration), request.length)

    def _write_status(self, _opcode: int, request: NorRequest) -> bytes:
        locked = self.write_protect_low and self.status & StatusBit.SRWD and not self.status & _QE
        if not self.status & _WEL or locked or not 1 <= request.length <= 3:
            return b""
        status, *configuration = request.sent + bytes(request.length - len(request.sent))
        self.status = status & _NON_VOLATILE | _WEL
        if configuration:
            self.configuration[0] = configuration[0] & _CONFIGURATION_1 | self.configuration[0] & BOTTOM
        if len(configuration) > 1:
            self.configuration[1] = configuration[1] & _CONFIGURATION_2
        self._keep_registers()
        self.operation = self.part.write_status_seconds
        return b""

    def _keep_registers(self) -> None:
        """Store the bits that last: power cycles do not undo protection."""
        kept = bytes((self.status & _NON_VOLATILE, self.configuration[0] & BOTTOM))
        if kept != (self.storage.read_registers() or _DELIVERED):
            self.storage.write_registers(kept)

    def _read_identification(self, _opcode: int, request: NorRequest) -> bytes:
        return _repeat(self.part.identification, request.length)

    def _read_manufacturer(self, _opcode: int, request: NorRequest) -> bytes:
        pair = self.part.identification[0::2]
        return _repeat(pair[::-1] if request.address & 1 else pair, request.length)

    def _read_signature(self, _opcode: int, request: NorRequest) -> bytes:
        return self.part.identification[2:] * request.length

    def _read_sfdp(self, _opcode: int, request: NorRequest) -> bytes:
        start = min(request.address, len(self._sfdp))
        return self._sfdp[start : start + request.length].ljust(request.length, FLOATING)

    def _power_down(self, _opcode: int, request: NorRequest) -> bytes:
        self._asleep = not request.length
        return b""

    def _enable_reset(self, _opcode: int, request: NorRequest) -> bytes:
        self._reset_enabled = not request.length
        return b""

    def _reset(self, _opcode: int, request: NorRequest) -> bytes:
        if self._reset_armed and not request.length:
            self.status &= ~_WEL
            self.configuration[:] = (self.configuration[0] & BOTTOM, 0)
        return b""


@dataclass(frozen=True, slots=True)
class NorCommand:
    """A command: its clocking, and its handler. The opcode takes one line, 8 clocks."""

    perform: Callable[[Nor, int, NorRequest], bytes]
    address_lanes: int = 0
    """Lines that carry the 3 bytes of address and the dummy bytes; 0: there are none."""
    dummy: int = 0
    data_lanes: int = 1
    while_busy: bool = False

    @property
    def quad(self) -> bool:
        """Return whether it takes bit QE."""
        return self.data_lanes == 4

    @property
    def header_size(self) -> int:
        """Bytes before the data."""
        return 4 + self.dummy if self.address_lanes else 1

    def clocks(self, size: int) -> int:
        """Return the clocks of a transaction with `size` bytes after the opcode, address and dummy bytes."""
        header = (self.header_size - 1) * 8 // self.address_lanes if self.address_lanes else 0
        return 8 + header + size * 8 // self.data_lanes


QUAD_READ: Final = 0xEB
QUAD_PROGRAM: Final = 0x38

READS: Final[Mapping[int, int]] = {1: 0x0B, 2: 0xBB, 4: QUAD_READ}
PROGRAMS: Final[Mapping[int, int]] = {1: 0x02, 2: 0x02, 4: QUAD_PROGRAM}
"""Opcodes of reads and programs by the lines that carry data; the part programs on one or four."""

COMMANDS: Final[Mapping[int, NorCommand]] = {
    0x01: NorCommand(Nor._write_status),  # WRSR
    0x02: NorCommand(Nor._program, 1),  # PP
    0x03: NorCommand(Nor._read_array, 1),  # READ
    0x04: NorCommand(Nor._write_disable),  # WRDI
    0x05: NorCommand(Nor._read_status, while_busy=True),  # RDSR
    0x06: NorCommand(Nor._write_enable),  # WREN
    0x0B: NorCommand(Nor._read_array, 1, dummy=1),  # FAST_READ
    0x15: NorCommand(Nor._read_configuration, while_busy=True),  # RDCR
    SECTOR_ERASE: NorCommand(Nor._erase, 1),  # SE
    QUAD_PROGRAM: NorCommand(Nor._program, 4, data_lanes=4),  # 4PP
    0x3B: NorCommand(Nor._read_array, 1, dummy=1, data_lanes=2),  # DREAD
    HALF_BLOCK_ERASE: NorCommand(Nor._erase, 1),  # BE32K
    0x5A: NorCommand(Nor._read_sfdp, 1, dummy=1),  # RDSFDP
    0x60: NorCommand(Nor._erase_chip),  # CE
    0x66: NorCommand(Nor._enable_reset),  # RSTEN
    0x6B: NorCommand(Nor._read_array, 1, dummy=1, data_lanes=4),  # QREAD
    0x90: NorCommand(Nor._read_manufacturer, 1),  # REMS
    0x99: NorCommand(Nor._reset),  # RST
    0x9F: NorCommand(Nor._read_identification),  # RDID
    0xAB: NorCommand(Nor._read_signature, 1),  # RES
    0xB9: NorCommand(Nor._power_down),  # DP
    0xBB: NorCommand(Nor._read_array, 2, dummy=1, data_lanes=2),  # 2READ
    0xC7: NorCommand(Nor._erase_chip),  # CE
    BLOCK_ERASE: NorCommand(Nor._erase, 1),  # BE
    QUAD_READ: NorCommand(
        Nor._read_array, 4, dummy=3, data_lanes=4
    ),  # 4READ: 2 clocks of mode, 4 dummy clocks
}


def _and(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "big") & int.from_bytes(right, "big")).to_bytes(len(left), "big")


def _repeat(data: bytes, length: int) -> bytes:
    return (data * -(-length // len(data)))[:length]
