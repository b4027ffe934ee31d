"""Interface of transports: the bulk endpoints of one device, and requests to any endpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, runtime_checkable

from host_tools.errors import TransferStall

Buffer: TypeAlias = bytes | bytearray | memoryview

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes done and the bytes in all."""


TIMED_OUT: Final = -110
"""Status of a request that was not done in time: -ETIMEDOUT of Linux, which USB itself does not use."""


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
    """Product name from the device."""
    manufacturer: str = ""
    """Manufacturer's name from the device."""
    serial: str = ""
    """Serial number; empty if it has none."""
    note: str = ""
    """Reason why the device could not be asked for its names, if so."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `endpoint` is an address; for endpoint 0, bit 7 is the direction of the data stage."""

    endpoint: int
    data: bytes = b""
    """Data of an OUT request."""
    room: int = 0
    """Bytes that an IN request has room for."""
    setup: bytes = b""
    """The SETUP packet of a control request."""
    zero_packet: bool = False
    """Whether OUT data of whole packets end with an empty one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a request: 0 or a negative errno of Linux, the bytes moved, and the data received."""

    status: int
    length: int
    data: bytes = b""


class Ticket(Protocol):
    """A request in flight. Both calls raise `DeviceGone` where the device went away."""

    def finish(self) -> Outcome:
        """Wait until the request is done, or take it back when its time is over."""

    def withdraw(self) -> Outcome:
        """Take the request back; it may have been done before that."""


@runtime_checkable
class RequestTransport(Protocol):
    """A transport that can start requests one by one."""

    def start(self, request: Request, timeout: float | None) -> Ticket:
        """Start a request, which has `timeout` seconds. `DeviceGone` where the device went away."""


class Wire(Protocol):
    """Way of commands: `Exchange` over USB, `SpiExchange` over SPI."""

    @property
    def as_float32(self) -> bool:
        """Return whether tensors cross the wire as float32, whatever the model has."""

    def get(self, command: int, tensor: int = 0) -> bytes:
        """Send a GET; return its data."""

    def set(
        self, command: int, data: Buffer = b"", tensor: int = 0, progress: Progress | None = None
    ) -> None:
        """Send a SET, and wait until the engine has done it."""

    def run(self, data: Buffer) -> bytes:
        """Set input tensor 0, start an inference, get output tensor 0."""

    def run_each(self, inputs: list[Buffer]) -> list[bytes] | None:
        """Do as `run` for inputs in flight at once; None where that does not go, or one of them fails."""

    def reset(self) -> None:
        """Make the device abandon the command in progress; UnsupportedCommand where nothing can."""


@runtime_checkable
class OtherTransport(Protocol):
    """A way to a device that is no pair of USB endpoints: it says how commands travel."""

    def wire(self, engine: int, timeout: float | None) -> Wire:
        """Return the way of commands to an engine, with a timeout in seconds for each."""

    def close(self) -> None:
        """Release the device."""
