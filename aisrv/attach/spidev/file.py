"""A spidev node and its open files: calls of programs become messages on an SPI bus.

The node stands for `/dev/spidevB.D` whichever way the calls come here, and behaves as Linux's driver does
with a controller that has 8-bit words, most significant bit first, active-low chip select, and one data line
each way. Mode and word size stay with the node when it is closed, the speed does not. Source: the Linux
kernel's document "SPI userspace API"; the errors of its drivers spidev and spi.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, Protocol

from aisrv.attach.spidev.ioctls import (
    BITS_PER_WORD,
    BUFFER_SIZE,
    BYTE,
    DROPPED_MODES,
    MAX_SPEED_HZ,
    SUPPORTED_MODES,
    WORD,
    Ioctl,
    Mode,
    Region,
    SpidevError,
    SpiIocTransfer,
    message_size,
    transfers_of,
)
from phy.spi.bus import LARGEST_MESSAGE, UNSTATED, SpiPort, SpiTransfer, Timing

logger = logging.getLogger(__name__)


class UserMemory(Protocol):
    """Memory of the program that makes an ioctl."""

    async def fetch(self, reads: Sequence[Region], writes: Sequence[Region]) -> list[bytes]:
        """Read the regions `reads`, and check `writes`, for which `store` may be called afterwards.

        SpidevError with EFAULT if the program has no such memory. An implementation may raise an error of its
        own to have the ioctl made again: nothing has happened before the last fetch.
        """

    def store(self, region: Region, data: bytes) -> None:
        """Write to a checked region; at the latest when the ioctl is done."""


class SpidevNode:
    """A node: one slave at one chip select of one bus."""

    def __init__(self, port: SpiPort, name: str = "spidev0.0") -> None:
        self.port: Final = port
        self.name: Final = name
        self.mode = Mode(0)
        self.bits_per_word = BITS_PER_WORD
        self.max_speed_hz = MAX_SPEED_HZ
        self.users = 0
        self._selected = False
        self._reported_mode = Mode(0)

    def open(self) -> "SpidevFile":
        """Open the node. The caller closes the file."""
        self.users += 1
        return SpidevFile(self)

    async def closed(self) -> None:
        """Count a closed file; the last one releases the bus."""
        self.users -= 1
        if not self.users:
            self.max_speed_hz = MAX_SPEED_HZ
            if self._selected:
                self._selected = False
                await self.port.release()

    async def clock(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        """Clock a message of one transfer or more; EMSGSIZE past the limit of a bus."""
        size = sum(len(each.mosi) for each in transfers)
        if size > LARGEST_MESSAGE:
            raise SpidevError(errno.EMSGSIZE)
        if self.mode:
            self._report_mode()
            return [bytes(len(each.mosi)) for each in transfers]
        miso = await self.port.message(transfers)
        self._selected = not transfers[-1].deselect
        return miso

    def set_mode(self, number: int) -> None:
        """Set the mode; EINVAL for bits that the controller lacks."""
        if number & ~int(SUPPORTED_MODES | DROPPED_MODES):
            raise SpidevError(errno.EINVAL)
        self.mode = Mode(number) & SUPPORTED_MODES
        if not self.mode:
            self._reported_mode = self.mode

    def set_lsb_first(self, flag: int) -> None:
        """Set the order of bits; EINVAL for the least significant one first."""
        if flag:
            raise SpidevError(errno.EINVAL)

    def set_bits_per_word(self, bits: int) -> None:
        """Set the word size, 0 for the usual one; EINVAL for all but 8."""
        if bits not in (0, BITS_PER_WORD):
            raise SpidevError(errno.EINVAL)

    def set_max_speed_hz(self, speed: int) -> None:
        """Set the largest clock rate of transfers in hertz; EINVAL for 0."""
        if not speed:
            raise SpidevError(errno.EINVAL)
        self.max_speed_hz = speed

    def _report_mode(self) -> None:
        """Log once that a mode does not work, not with every message."""
        if self.mode != self._reported_mode:
            self._reported_mode = self.mode
            logger.warning(
                "%s: a message in SPI mode %d; the slave works in mode 0, all bytes read are 0",
                self.name,
                self.mode,
            )


_READERS: Final[dict[int, tuple[Struct, Callable[[SpidevNode], int]]]] = {
    Ioctl.RD_MODE: (BYTE, lambda node: node.mode),
    Ioctl.RD_MODE32: (WORD, lambda node: node.mode),
    Ioctl.RD_LSB_FIRST: (BYTE, lambda _: 0),
    Ioctl.RD_BITS_PER_WORD: (BYTE, lambda node: node.bits_per_word),
    Ioctl.RD_MAX_SPEED_HZ: (WORD, lambda node: node.max_speed_hz),
}

_WRITERS: Final[dict[int, tuple[Struct, Callable[[SpidevNode, int], None]]]] = {
    Ioctl.WR_MODE: (BYTE, SpidevNode.set_mode),
    Ioctl.WR_MODE32: (WORD, SpidevNode.set_mode),
    Ioctl.WR_LSB_FIRST: (BYTE, SpidevNode.set_lsb_first),
    Ioctl.WR_BITS_PER_WORD: (BYTE, SpidevNode.set_bits_per_word),
    Ioctl.WR_MAX_SPEED_HZ: (WORD, SpidevNode.set_max_speed_hz),
}


class SpidevFile:
    """An open file of a node. Every call raises SpidevError for what the kernel refuses."""

    def __init__(self, node: SpidevNode) -> None:
        self.node: Final = node

    async def read(self, size: int) -> bytes:
        """Read bytes while zeros go out, in one transaction; EMSGSIZE past BUFFER_SIZE."""
        check_size(size)
        return await self._transact(bytes(size))

    async def write(self, data: bytes) -> int:
        """Write bytes and drop what comes, in one transaction; EMSGSIZE past BUFFER_SIZE."""
        check_size(len(data))
        await self._transact(data)
        return len(data)

    async def ioctl(self, code: int, argument: int, memory: UserMemory) -> int:
        """Do an ioctl and return its result: of a message how many bytes were clocked.

        SpidevError: ENOTTY for an unknown code, EINVAL for values that the controller refuses, EMSGSIZE for
        too many bytes, EFAULT for an address outside of the program's memory.
        """
        code &= 0xFFFFFFFF
        if code in _READERS:
            layout, get = _READERS[code]
            region = Region(argument, layout.size)
            await memory.fetch((), (region,))
            memory.store(region, layout.pack(get(self.node)))
            return 0
        if code in _WRITERS:
            layout, put = _WRITERS[code]
            (data,) = await memory.fetch((Region(argument, layout.size),), ())
            put(self.node, *layout.unpack(data))
            return 0
        return await self._message(Region(argument, message_size(code)), memory)

    async def close(self) -> None:
        """Close the file; the last one to be closed lets chip select go high."""
        await self.node.closed()

    async def _transact(self, mosi: bytes) -> bytes:
        (miso,) = await self.node.clock((SpiTransfer(mosi, clock_hz=self._clock_hz(0)),))
        return miso

    async def _message(self, array: Region, memory: UserMemory) -> int:
        if not array.size:
            return 0
        (data,) = await memory.fetch((array,), ())
        asked = transfers_of(data)
        _check(asked)
        sent = await memory.fetch([each.tx for each in asked], [each.rx for each in asked])
        miso = await self.node.clock(self._transfers(asked, sent))
        for each, received in zip(asked, miso, strict=True):
            if each.rx_buf:
                memory.store(each.rx, received)
        return sum(each.length for each in asked)

    def _transfers(self, asked: Sequence[SpiIocTransfer], sent: Sequence[bytes]) -> list[SpiTransfer]:
        last = len(asked) - 1
        transfers = []
        for number, (each, data) in enumerate(zip(asked, sent, strict=True)):
            deselect = bool(each.cs_change) != (number == last)
            held = deselect and each.delay_usecs
            timing = Timing(cs_hold=each.delay_usecs * 1000) if held else UNSTATED
            mosi = data if each.tx_buf else bytes(each.length)
            transfers.append(SpiTransfer(mosi, deselect, self._clock_hz(each.speed_hz), timing))
        return transfers

    def _clock_hz(self, speed_hz: int) -> int:
        return min(speed_hz or MAX_SPEED_HZ, self.node.max_speed_hz, MAX_SPEED_HZ)


def check_size(size: int) -> None:
    """Raise EMSGSIZE for a read or a write of more than BUFFER_SIZE bytes."""
    if size > BUFFER_SIZE:
        raise SpidevError(errno.EMSGSIZE)


def _check(asked: Sequence[SpiIocTransfer]) -> None:
    """Refuse a message that the kernel would refuse, before any memory is taken for it."""
    check_size(sum(each.tx.size for each in asked))
    check_size(sum(each.rx.size for each in asked))
    if sum(each.length for each in asked) > LARGEST_MESSAGE:
        raise SpidevError(errno.EMSGSIZE)
    for each in asked:
        lines = (each.tx_nbits if each.tx_buf else 0, each.rx_nbits if each.rx_buf else 0)
        if each.bits_per_word not in (0, BITS_PER_WORD) or max(lines) > 1:
            raise SpidevError(errno.EINVAL)
