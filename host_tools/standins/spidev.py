"""A stand-in for the package `spidev`: the same class, for slaves behind an SPI link server.

The server is named by the environment variable AISRV_SPI, as HOST:PORT or unix:PATH; `/dev/spidevB.D` is its
slave `B.D`.
Arguments, results and errors are those of the package's release 3.8, and of the Linux driver behind it with a
controller that has SPI modes 0 to 3, words of 8 bits and clocks up to the slave's. As with the package, each
call clocks whole transactions: no method leaves chip select low. Described in docs/guides/programs.md.

Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import errno
import os
import re
from _thread import allocate_lock
from operator import index
from typing import TYPE_CHECKING, Any

from aisrv.protocol.spi_link import LinkTransfer
from host_tools.errors import HostError, TransferError, UnknownSlave
from host_tools.standins.spidev_arguments import (
    LONG_MAX,
    MAX_LIST,
    as_sequence,
    bus_number,
    bytes_of,
    c_int,
    limited,
)
from host_tools.transports.spi.link import SpiLink

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Iterable
    from typing import Final, Literal

__version__: Final = "3.8"
"""Release of the package whose interface this is."""

SERVER_VARIABLE: Final = "AISRV_SPI"
"""Environment variable that names the server, as HOST:PORT."""

LARGEST_BLOCK: Final = 65535
"""Bytes that `xfer3` and `writebytes2` clock in one transaction, however large the driver's buffer is."""

BUFSIZ_FILE: Final = "/sys/module/spidev/parameters/bufsiz"
DEFAULT_BUFSIZ: Final = 4096

WORD_BITS: Final = 8

_NODE = re.compile(r"/dev/spidev(\d+\.\d+)\Z")


def _error(number: int, text: str = "") -> OSError:
    return OSError(number, text or os.strerror(number))


def _bufsiz() -> int:
    """Return how many bytes the Linux driver takes at once: its parameter, or the default without one."""
    try:
        with open(BUFSIZ_FILE) as file:  # noqa: PTH123 - pathlib would slow the import
            size = int(file.read())
    except (OSError, ValueError):
        return DEFAULT_BUFSIZ
    return size if size > 0 else DEFAULT_BUFSIZ


class _Flag:
    """A property of the class that is True or False: a bit of the mode that this controller does not have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, spi: SpiDev | None, owner: type | None = None) -> Any:  # noqa: ANN401
        return self if spi is None else False

    def __set__(self, spi: SpiDev, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"The {self._name} attribute must be boolean")
        spi._opened()
        if value:
            raise _error(errno.EINVAL)

    def __delete__(self, spi: SpiDev) -> None:
        raise TypeError("Cannot delete attribute")


class SpiDev:
    """SpiDev([bus], [client]): a slave on an SPI bus, opened if a bus is given."""

    __slots__ = (
        "_bits_per_word",
        "_bufsiz",
        "_link",
        "_lock",
        "_max_speed_hz",
        "_mode",
        "_name",
        "_process",
        "_read0",
    )

    _bits_per_word: int
    _bufsiz: int
    _link: SpiLink | None
    _lock: LockType
    _max_speed_hz: int
    _mode: int
    _name: str
    _process: int
    _read0: bool

    def __new__(cls, *_: Any, **__: Any) -> SpiDev:  # noqa: ANN401
        """Without `__init__`, too, the object is there, and closed."""
        self = super().__new__(cls)
        self._lock = allocate_lock()
        self._link = None
        self._read0 = False
        self._forget()
        return self

    def __init__(self, *numbers: int, **named: int) -> None:
        if bus_number(*numbers, **named) >= 0:
            SpiDev.open(self, *numbers, **named)  # `client` cannot be given by name, as in the package

    def __enter__(self) -> SpiDev:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object, /) -> Literal[False]:
        self.close()
        return False

    def __del__(self) -> None:
        if self._link is not None:
            self._link.close()

    # Opening

    def open(self, bus: int, device: int) -> None:
        """Open slave `bus`.`device`, which is /dev/spidev<bus>.<device>."""
        self._open(f"{c_int(bus)}.{c_int(device)}")

    def open_path(self, path: str | bytes | os.PathLike[str]) -> None:
        """Open the slave of a path such as /dev/spidev0.0, also through symbolic links."""
        name = os.fsdecode(path)
        if "\0" in name:
            raise ValueError("embedded null byte")
        node = _NODE.match(os.path.realpath(name))
        if node is None:
            try:
                os.close(os.open(name, os.O_RDWR))
            except OSError as error:
                raise _error(error.errno or errno.EIO) from None
            raise _error(errno.ENOTTY)
        self._open(node.group(1))

    def close(self) -> None:
        """Close the slave. Closing again does nothing."""
        with self._lock:
            if self._link is not None:
                self._link.close()
            self._forget()

    def fileno(self) -> int:
        """File descriptor of the connection to the server, -1 where closed; reading it is of no use."""
        return -1 if self._link is None else self._link.fileno()

    # Transfers

    def readbytes(self, len: int, /) -> list[int]:  # noqa: A002 - the package's name
        """Clock `len` zeros, 1 to 4096; the bytes that came."""
        size = min(max(c_int(len), 1), MAX_LIST)
        return list(self._clock(bytes(size)))

    def writebytes(self, values: Iterable[int], /) -> None:
        """Clock 1 to 4096 bytes; what comes is dropped."""
        self._clock(limited(values)[1])

    def writebytes2(self, values: Any, /) -> None:  # noqa: ANN401 - any buffer or sequence
        """Clock a buffer or a sequence of any length, a block a transaction; what comes is dropped."""
        try:
            data = memoryview(values)
        except TypeError:
            data = None
        if data is not None and data.c_contiguous:
            sequence: Any = data.tobytes()
        else:
            sequence = as_sequence(values)
            if not sequence:
                raise TypeError("Empty argument list.")
        block = min(self._bufsiz, LARGEST_BLOCK)
        for start in range(0, len(sequence), block):
            self._clock(bytes_of(sequence[start : start + block]))

    def xfer(
        self, values: Iterable[int], speed_hz: int = 0, delay_usecs: int = 0, bits_per_word: int = 0, /
    ) -> Any:  # noqa: ANN401 - the list that was given, or a tuple
        """Clock 1 to 4096 bytes in one transaction; what came, in the list that was given, or as a tuple."""
        return self._exchange(values, speed_hz, delay_usecs, bits_per_word)

    def xfer2(
        self, values: Iterable[int], speed_hz: int = 0, delay_usecs: int = 0, bits_per_word: int = 0, /
    ) -> Any:  # noqa: ANN401 - as for xfer
        """Do the same as `xfer`, as with the package, which clocks one transfer in both."""
        return self._exchange(values, speed_hz, delay_usecs, bits_per_word)

    def xfer3(
        self, values: Iterable[int], speed_hz: int = 0, delay_usecs: int = 0, bits_per_word: int = 0, /
    ) -> tuple[int, ...]:
        """Clock any number of bytes, a block a transaction; what came, as a tuple."""
        settings = index(speed_hz), index(delay_usecs), index(bits_per_word)
        sequence = as_sequence(values)
        if not sequence:
            raise TypeError("Empty argument list.")
        block = min(self._bufsiz, LARGEST_BLOCK)
        miso = bytearray()
        for start in range(0, len(sequence), block):
            miso += self._clock(bytes_of(sequence[start : start + block]), *settings)
        return tuple(miso)

    # Settings

    @property
    def mode(self) -> int:
        """SPI mode, clock polarity and phase, 0 to 3. The slave works in 0; in others it answers zeros."""
        return self._mode

    @mode.setter
    def mode(self, value: int) -> None:
        if not isinstance(value, int):
            raise TypeError("The mode attribute must be an integer")
        if abs(value) > LONG_MAX or value & 0xFF > 3:
            raise TypeError("The mode attribute must be an integerbetween 0 and 3.")
        self._opened()
        self._mode = value & 0xFF
        if self._mode:
            import logging

            text = "SPI mode %d: the slave works in mode 0, all bytes read will be 0"
            logging.getLogger("aisrv.spidev").warning(text, self._mode)

    @mode.deleter
    def mode(self) -> None:
        raise TypeError("Cannot delete attribute")

    @property
    def bits_per_word(self) -> int:
        """Bits of a word; this controller has 8."""
        return self._bits_per_word

    @bits_per_word.setter
    def bits_per_word(self, value: int) -> None:
        if not isinstance(value, int):
            raise TypeError("The bits_per_word attribute must be an integer")
        bits = value & 0xFF if abs(value) <= LONG_MAX else 0xFF
        if not 8 <= bits <= 32:
            raise TypeError("invalid bits_per_word (8 to 32)")
        if bits != self._bits_per_word:
            self._opened()
            raise _error(errno.EINVAL)

    @bits_per_word.deleter
    def bits_per_word(self) -> None:
        raise TypeError("Cannot delete attribute")

    @property
    def max_speed_hz(self) -> int:
        """Clock rate in Hz where a transfer states none; the slave's fastest after opening."""
        return self._max_speed_hz

    @max_speed_hz.setter
    def max_speed_hz(self, value: int) -> None:
        if not isinstance(value, int):
            raise TypeError("The max_speed_hz attribute must be an integer")
        if abs(value) > LONG_MAX:
            raise OverflowError("Python int too large to convert to C long")
        speed = value & 0xFFFFFFFF
        if speed != self._max_speed_hz:
            self._opened()
            if speed == 0:
                raise _error(errno.EINVAL)
            self._max_speed_hz = speed

    @max_speed_hz.deleter
    def max_speed_hz(self) -> None:
        raise TypeError("Cannot delete attribute")

    @property
    def read0(self) -> bool:
        """Whether a read of no bytes follows each transfer in cshigh mode, which this controller lacks."""
        return self._read0

    @read0.setter
    def read0(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError("The read0 attribute must be boolean")
        self._read0 = value

    @read0.deleter
    def read0(self) -> None:
        raise TypeError("Cannot delete attribute")

    cshigh = _Flag("cshigh")
    lsbfirst = _Flag("lsbfirst")
    loop = _Flag("loop")
    no_cs = _Flag("no_cs")
    threewire = _Flag("3wire")

    # The connection

    def _forget(self) -> None:
        self._link = None
        self._name = ""
        self._process = 0
        self._mode = self._bits_per_word = self._max_speed_hz = 0
        self._bufsiz = DEFAULT_BUFSIZ

    def _open(self, name: str) -> None:
        link = _connect(name)
        with self._lock:
            if self._link is not None:
                self._link.close()
            self._link, self._name, self._process = link, name, os.getpid()
            self._mode, self._bits_per_word, self._max_speed_hz = 0, WORD_BITS, link.max_speed_hz
            self._bufsiz = _bufsiz()

    def _opened(self) -> SpiLink:
        if self._link is None:
            raise _error(errno.EBADF)
        return self._link

    def _exchange(self, values: Iterable[int], speed: int, delay: int, bits: int) -> Any:  # noqa: ANN401
        """Clock a list in place, or a tuple into a new one."""
        settings = index(speed), index(delay), index(bits)
        sequence, mosi = limited(values)
        miso = self._clock(mosi, *settings)
        if isinstance(sequence, tuple):
            return (*miso, *sequence[len(miso) :])
        sequence[: len(miso)] = miso
        return sequence

    def _clock(self, mosi: bytes, speed: int = 0, delay: int = 0, bits: int = 0) -> bytes:
        """Clock one transaction; `delay` is in microseconds before chip select goes high.

        Of the settings the driver sees the low 32, 16 and 8 bits; 0 stands for those of the object.
        """
        with self._lock:
            link = self._opened()
            if bits & 0xFF not in (0, WORD_BITS):
                raise _error(errno.EINVAL)
            if len(mosi) > self._bufsiz:
                raise _error(errno.EMSGSIZE)
            if link.closed or self._process != os.getpid():
                # After a server went away, an interrupted transfer or a fork: a connection of our own.
                link = self._link = _connect(self._name)
                self._process = os.getpid()
            if self._mode:
                return bytes(len(mosi))
            clock_hz = min(speed & 0xFFFFFFFF or self._max_speed_hz, link.max_speed_hz)
            hold = (delay & 0xFFFF) * 1000 or None
            try:
                return link.message((LinkTransfer(mosi, True, clock_hz, None, hold),))
            except HostError as error:
                number = -error.status if isinstance(error, TransferError) else 0
                raise _error(number or errno.ESHUTDOWN, "" if number else str(error)) from error


def _connect(name: str) -> SpiLink:
    """Open a slave; a slave that is not there is a node that is not there."""
    address = os.environ.get(SERVER_VARIABLE, "")
    try:
        return SpiLink.open(address, name)
    except UnknownSlave:
        raise _error(errno.ENOENT) from None
    except HostError as error:
        raise _error(errno.ENODEV, f"{SERVER_VARIABLE}: {error}") from error
