"""A host inside the process: drives a device's bus with plain awaits, on live or virtual time.

For tests and embedding programs. It is a host like any other: it may wait for an answer while it sends,
give up a request, and reset the bus.
"""

from typing import Any

import trio

from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT
from aisrv.protocol.usb_descriptors import (
    DIRECTION_IN,
    ENDPOINT_HALT,
    Recipient,
    SetupPacket,
    StandardRequest,
    halt_bit,
)
from aisrv.xcore.waiter import Waiter
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.urb import InUrb, OutUrb, TransferStatus


class TransferFailed(Exception):
    """A transfer that ended with another status than OKAY.

    `transferred` is the bytes that were received, or the number of those that were sent, until then.
    """

    def __init__(self, status: TransferStatus, transferred: int | bytes | memoryview) -> None:
        super().__init__(f"{status.value} after {transferred!r}")
        self.status = status
        self.transferred = transferred


class _Completion:
    """Waits for a request's `complete(status, result)`, which may come before or after `wait`."""

    def __init__(self) -> None:
        self._waiter: Waiter[None] = Waiter()
        self._result: tuple[TransferStatus, Any] | None = None

    def __call__(self, status: TransferStatus, result: int | bytes | memoryview) -> None:
        self._result = status, result
        self._waiter.wake(None)

    async def wait(self, bus: HostPort, request: OutUrb | InUrb | ControlUrb) -> Any:  # noqa: ANN401
        """Wait for the end of the request; cancelled, it is unlinked."""
        if self._result is None:
            await self._waiter.wait(lambda: bus.unlink(request))
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()  # it is done: too late to cancel it
        assert self._result is not None  # noqa: S101 - for the type checker
        status, result = self._result
        if status is not TransferStatus.OKAY:
            raise TransferFailed(status, result)
        return result


class InProcessHost:
    """A host that has the device to itself. All methods raise TransferFailed.

    `bus` is the device's, or a port that wraps it. An `endpoint` is an address, 0x01 for OUT or 0x81 for IN.
    """

    def __init__(self, bus: HostPort) -> None:
        self.bus = bus

    async def plug_in(self) -> None:
        """Reset the bus and choose configuration 1, as an operating system does."""
        self.bus.reset()
        await self.control(SetupPacket(0, StandardRequest.SET_CONFIGURATION, 1, 0, 0))

    async def write(self, data: bytes, *, endpoint: int = ENDPOINT_OUT, zero_packet: bool = False) -> int:
        """Send one request; return the number of bytes, all of which the firmware has taken.

        `zero_packet` ends `data` of a multiple of 512 bytes with an empty packet.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        completion = _Completion()
        request = OutUrb(len(data), completion, zero_packet=zero_packet)
        if data:
            request.feed(data)
        if not self.bus.submit_out(endpoint, request):
            raise TransferFailed(TransferStatus.SHUTDOWN, 0)
        taken: int = await completion.wait(self.bus, request)
        return taken

    async def read(self, length: int, *, endpoint: int = ENDPOINT_IN) -> bytes:
        """Receive up to `length` bytes, or fewer if a short packet ends the transfer."""
        await trio.lowlevel.checkpoint_if_cancelled()
        completion = _Completion()
        request = InUrb(length, completion)
        if not self.bus.submit_in(endpoint, request):
            raise TransferFailed(TransferStatus.SHUTDOWN, b"")
        return bytes(await completion.wait(self.bus, request))

    async def control(self, setup: SetupPacket, data: bytes = b"") -> bytes:
        """Do a control transfer; return the data of its IN stage."""
        await trio.lowlevel.checkpoint_if_cancelled()
        completion = _Completion()
        request = ControlUrb(setup, data, completion)
        self.bus.submit_control(request)
        answer: bytes = await completion.wait(self.bus, request)
        return answer

    async def clear_halt(self, endpoint: int) -> None:
        """Clear the halt of one endpoint."""
        await self.control(
            SetupPacket(Recipient.ENDPOINT, StandardRequest.CLEAR_FEATURE, ENDPOINT_HALT, endpoint, 0)
        )

    async def is_halted(self, endpoint: int) -> bool:
        """Return whether an endpoint is halted."""
        setup = SetupPacket(DIRECTION_IN | Recipient.ENDPOINT, StandardRequest.GET_STATUS, 0, endpoint, 2)
        return halt_bit(await self.control(setup))

    async def get_descriptor(self, kind: int, index: int = 0, length: int = 255) -> bytes:
        """Fetch a descriptor, of at most `length` bytes."""
        return await self.control(
            SetupPacket(DIRECTION_IN, StandardRequest.GET_DESCRIPTOR, kind << 8 | index, 0, length)
        )
