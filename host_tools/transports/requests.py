"""Single requests to any endpoint of a device, several of them in flight at once."""

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

TIMED_OUT: Final = -110
"""Status of a request that was not done in time: -ETIMEDOUT of Linux, which USB itself does not use."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `endpoint` is an address; for endpoint 0, bit 7 is the direction of the data stage."""

    endpoint: int
    data: bytes = b""
    """What an OUT request sends."""
    room: int = 0
    """Bytes that an IN request has room for."""
    setup: bytes = b""
    """The SETUP packet of a control request."""
    zero_packet: bool = False
    """Whether OUT data of whole packets end with an empty one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended: 0 or a negative errno of Linux, the bytes that moved, and those that came."""

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
