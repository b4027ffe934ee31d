"""Requests that a port standing before a device gives to it in place of the host's.

The host's request stays with the port that got it; the device gets a successor. Data move on as they come,
and the end of the successor becomes the end of the host's request.
"""

from collections.abc import Callable
from typing import Any

from phy.usb.bus import ControlUrb, HostPort
from phy.usb.urb import InUrb, OutUrb, TransferStatus

Request = OutUrb | InUrb | ControlUrb

Result = int | bytes
"""What a request ends with: the bytes taken of an OUT request, the data of the others."""

Complete = Callable[[TransferStatus, Any], None]


def successor(request: Request, complete: Complete) -> Request:
    """Return a request like this one, whose end calls `complete`; an OUT request's data are not moved yet."""
    if isinstance(request, OutUrb):
        return OutUrb(request.length, complete, zero_packet=request.zero_packet)
    if isinstance(request, InUrb):
        return InUrb(request.length, complete)
    return ControlUrb(request.setup, request.data, complete)


def arrived(request: OutUrb) -> list[bytes]:
    """Take what has come of an OUT request's data: whole packets, and the last one when it is there."""
    parts: list[bytes] = []
    request.take(request.length, parts)
    return parts


def submit(port: HostPort, address: int, request: Request) -> bool:
    """Give a request of any kind to a port; False where there is no such endpoint."""
    if isinstance(request, OutUrb):
        return port.submit_out(address, request)
    if isinstance(request, InUrb):
        return port.submit_in(address, request)
    port.submit_control(request)
    return True


def nothing_of(request: Request) -> Result:
    """Return the result of a request in which nothing went across."""
    return 0 if isinstance(request, OutUrb) else b""


def end(request: Request, status: TransferStatus, result: Result) -> None:
    """End the host's request."""
    if isinstance(request, OutUrb):
        assert isinstance(result, int)  # noqa: S101 - for the type checker
        request.taken = result
        request.finish(status)
        return
    assert isinstance(result, bytes)  # noqa: S101 - for the type checker
    if isinstance(request, InUrb):
        request.put(result)
        request.finish(status)
    elif status is TransferStatus.OKAY:
        request.answer(result)
    elif status is TransferStatus.STALL:
        request.stall()
    else:
        request.abort()
