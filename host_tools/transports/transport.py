"""What a transport is: the two bulk endpoints of one device, however they are reached."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from host_tools.errors import TransferStall

Buffer: TypeAlias = bytes | bytearray | memoryview


class Transport(Protocol):
    """The two bulk endpoints of one device. Times are in seconds; None waits without limit.

    Every method may raise `DeviceGone`, `TransferTimeout` or `TransferError`, which at a halted endpoint is a
    `TransferStall`. `timeout` is the seconds for one call; None waits as long as it takes.
    """

    def write(self, data: Buffer, timeout: float | None) -> None:
        """Send `data` as they are: packets of 512 bytes, the last of which may be shorter.

        Nothing is added: only a write whose length is not a multiple of 512 ends a transfer, and an empty
        write is one packet of no bytes.
        """

    def read(self, length: int, timeout: float | None) -> bytes:
        """Receive until a packet is shorter than 512 bytes, or until `length` bytes are there.

        `length` is a multiple of 512. Where the answer has exactly `length` bytes its short packet is still
        to come; where it has fewer, the transfer is over.
        """

    def exchange(self, writes: Sequence[Buffer], length: int, timeout: float | None) -> bytes:
        """Do several writes, then a read unless `length` is 0, and return what was read.

        `length` is in bytes, `timeout` in seconds for each transfer. The same as `one_after_another`, but a
        transport that can have all of them in flight at once saves a round trip for each.
        `TransferStall.writes_done` counts those that were done.
        """

    def halted(self) -> frozenset[int]:
        """Return the addresses of the endpoints that are halted; none where the device does not say."""

    def clear_halts(self) -> None:
        """Clear the halt of both endpoints, which is what the device waits for after a failure."""

    def reset(self) -> None:
        """Set the configuration anew: the device abandons the command in flight; its model stays."""

    def close(self) -> None:
        """Release the device. Closing again does nothing."""


def one_after_another(
    transport: Transport, writes: Sequence[Buffer], length: int, timeout: float | None
) -> bytes:
    """Do a `Transport.exchange` of `length` bytes by `write` and `read`."""
    done = 0
    try:
        for data in writes:
            transport.write(data, timeout)
            done += 1
        return transport.read(length, timeout) if length else b""
    except TransferStall as stall:
        stall.writes_done = done
        raise


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device that was found; `address` opens it."""

    address: str
    product: str = ""
    """What the device calls itself."""
    manufacturer: str = ""
    """Who made it."""
    serial: str = ""
    """Its serial number; empty where it has none."""
    note: str = ""
    """Why the device could not be asked for its names, if so."""
