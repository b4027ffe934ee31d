"""SPI: transactions with one slave, through the package `spidev` or directly with an SPI link server.

A transaction is chip select low, bytes both ways, chip select high. Source: "XCORE AI server: numbers and
wire behavior", section SPI.
"""

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from aisrv.protocol.spi_link import MAX_MESSAGE, LinkTransfer
from aisrv.values.extras import import_failure
from host_tools.errors import (
    BadAddressError,
    DeviceAccessDenied,
    DeviceGone,
    DeviceNotFound,
    HostError,
    TransactionTooLong,
    TransferError,
)
from host_tools.transports.spi.link import SpiLink, list_slaves
from host_tools.transports.transport import Buffer, DeviceInfo

CLOCK_HZ: Final = 10_000_000
"""Clock rate: the device takes 50 MHz, wires between boards often less."""

DEFAULT_NAME: Final = "0.0"

SPIDEV_LIST: Final = 4096
"""Bytes that `SpiDev.xfer2` takes."""

SPIDEV_BLOCK: Final = 65535
"""Bytes that `SpiDev.xfer3` clocks in one transaction, where the driver's buffer has room for them."""

BUFSIZ_FILE: Final = Path("/sys/module/spidev/parameters/bufsiz")

_NAME = re.compile(r"(\d{1,5})\.(\d{1,5})\Z")


class SpiTransport(ABC):
    """Transactions with one slave. Times are in seconds; None waits without limit.

    Every method may raise `DeviceGone`, `TransferTimeout` or `TransferError`.
    """

    @abstractmethod
    def transact(self, mosi: Buffer, timeout: float | None) -> bytes:
        """Clock bytes from chip select low to high; returns what came, as many."""

    @abstractmethod
    def close(self) -> None:
        """Release the slave. Closing again does nothing."""


class LinkTransport(SpiTransport):
    """A slave of an SPI link server."""

    def __init__(self, address: str, name: str) -> None:
        """Open slave `name` of the server at `address`; DeviceNotFound or BadAddressError."""
        self._address = address
        self._name = name
        self._given_back = False
        self._link = SpiLink.open(address, name)

    def transact(self, mosi: Buffer, timeout: float | None) -> bytes:
        """See `SpiTransport.transact`. Past the largest message chip select stays low in between."""
        if self._link.closed:
            if self._given_back:
                raise DeviceGone(f"{self._address}: the slave was given back")
            self._link = SpiLink.open(
                self._address, self._name
            )  # after a time-out: the answer to an earlier message must not be read
        data = bytes(mosi)
        parts = []
        for start in range(0, max(len(data), 1), MAX_MESSAGE):
            end = start + MAX_MESSAGE
            transfer = LinkTransfer(data[start:end], end >= len(data), CLOCK_HZ)
            parts.append(self._link.message((transfer,), timeout))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """See `SpiTransport.close`."""
        self._given_back = True
        self._link.close()


class SpidevTransport(SpiTransport):
    """A slave behind the class `spidev.SpiDev`, or anything that behaves like it.

    A transaction is one call: the class lets chip select go high after each. So the driver's buffer is the
    largest transaction. The driver has no time-outs; a call takes as long as the clock.
    """

    def __init__(self, spi: Any, largest: int) -> None:  # noqa: ANN401 - spidev has no types
        """Take over an opened `SpiDev`, whose driver takes `largest` bytes at once."""
        self._spi = spi
        self.largest = min(largest, SPIDEV_BLOCK)
        with _translated("setting up the SPI bus"):
            spi.mode = 0
            spi.bits_per_word = 8
            spi.max_speed_hz = CLOCK_HZ

    def transact(self, mosi: Buffer, timeout: float | None) -> bytes:  # noqa: ARG002 - see the class
        """See `SpiTransport.transact`; TransactionTooLong past what the driver takes at once."""
        size = len(mosi)
        if size > self.largest:
            raise TransactionTooLong(
                f"a transaction of {size} bytes, spidev takes {self.largest} at once; "
                f"on Linux the kernel parameter spidev.bufsiz=65536 makes that more"
            )
        clock = self._spi.xfer2 if size <= SPIDEV_LIST else self._spi.xfer3
        with _translated(f"clocking {size} bytes"):
            return bytes(clock(list(mosi)))

    def close(self) -> None:
        """See `SpiTransport.close`."""
        self._spi.close()


_ERRORS: Final[dict[int, tuple[type[HostError], str]]] = {
    errno.ENOENT: (DeviceNotFound, "no such SPI slave; is SPI enabled, and are bus and chip select right?"),
    errno.ENODEV: (DeviceNotFound, ""),
    errno.EACCES: (DeviceAccessDenied, "no permission; on Linux often the group `spi` has it"),
    errno.EPERM: (DeviceAccessDenied, "no permission; on Linux often the group `spi` has it"),
    errno.ESHUTDOWN: (DeviceGone, "the SPI slave is gone"),
    errno.EBADF: (DeviceGone, "the SPI slave is closed"),
}


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except OSError as error:
        kind, reason = _ERRORS.get(error.errno or 0, (TransferError, ""))
        raise kind(f"{what}: {reason or error.strerror or error}") from error


def open_spi(spec: str) -> SpiTransport:
    """Open `B.D`, bus and chip select, through spidev, or `B.D@HOST:PORT` through an SPI link server."""
    name, at, address = spec.partition("@")
    numbers = _NAME.match(name or DEFAULT_NAME)
    if numbers is None:
        raise BadAddressError(
            f"spi:{spec}: {name!r} does not name a bus and chip select, such as {DEFAULT_NAME}"
        )
    if at:
        return LinkTransport(address, numbers.group())
    try:
        import spidev
    except ImportError as error:
        needed = import_failure("SPI needs Linux and the package spidev", error, "spi")
        raise DeviceNotFound(f"{needed}; spi:B.D@HOST:PORT reaches a virtual device without it") from error
    with _translated(f"opening /dev/spidev{numbers.group()}"):
        spi = spidev.SpiDev(int(numbers.group(1)), int(numbers.group(2)))
    try:
        return SpidevTransport(spi, _bufsiz())
    except BaseException:
        spi.close()
        raise


def list_spi(spec: str) -> list[DeviceInfo]:
    """List the slaves of a link server for `@HOST:PORT`, of the one in AISRV_SPI, or the nodes in /dev.

    What answers behind them is not asked: a slave of another kind could take the question for an order.
    """
    name, at, address = spec.partition("@")
    server = address if at else os.environ.get("AISRV_SPI", "")
    if server:
        names = list_slaves(server)
    else:
        nodes = sorted(str(path) for path in Path("/dev").glob("spidev*.*"))
        names = tuple(node.removeprefix("/dev/spidev") for node in nodes)
    end = f"@{address}" if at else ""
    return [DeviceInfo(f"spi:{one}{end}", note="SPI slave") for one in names if name in ("", one)]


def _bufsiz() -> int:
    """Return the bytes that the driver takes at once; 4096 where it does not say."""
    try:
        return int(BUFSIZ_FILE.read_text())
    except (OSError, ValueError):
        return SPIDEV_LIST
