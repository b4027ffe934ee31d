"""Endpoint 0 for firmware that answers control transfers itself: SETUP packets, and packets of each stage.

A transfer has its SETUP, then data packets where wLength is not 0, then an empty packet the other way. The
host is ready for each of them at once, so a call waits only where it does not fit the stage, and then until
the next SETUP. Source: Universal Serial Bus Specification 2.0, sections 5.5.5, 8.5.3 and 9.3.
"""

import enum
from collections.abc import Awaitable, Callable
from typing import Final

from aisrv.protocol.usb_descriptors import CONTROL_PACKET_SIZE, SetupPacket
from aisrv.xcore.traced import traced_wait
from aisrv.xcore.waiter import Waiter
from phy.usb.bus import ControlUrb
from phy.usb.urb import TransferStatus
from phy.usb.xud import UsbReset


class NewSetup(Exception):
    """The host has begun another control transfer, or waits for none: the packet belongs to no transfer."""


class Stage(enum.Enum):
    """What the host expects next; the value is the endpoint's address."""

    NONE = -1
    """No transfer is in progress."""
    DATA_OUT = 0x00
    DATA_IN = 0x80
    STATUS_OUT = 0x100
    STATUS_IN = 0x180

    @property
    def address(self) -> int:
        """0x00 or 0x80; something else where no transfer is in progress."""
        return self.value & ~0x100


class ControlPipe:
    """The control transfers of one bus, as its firmware's core at endpoint 0 handles them."""

    def __init__(
        self,
        get_setup: Callable[[], Awaitable[ControlUrb]],
        has_setup: Callable[[], bool],
        on_done: Callable[[SetupPacket], None],
    ) -> None:
        """`get_setup` waits for a transfer, `has_setup` says whether one is there.

        `on_done` is told of a transfer that ends well, before its host.
        """
        self.name: Final = "endpoint 0"
        """Name for reports."""
        self._get_setup: Final = get_setup
        self._has_setup: Final = has_setup
        self._on_done: Final = on_done
        self._urb: ControlUrb | None = None
        self._stage = Stage.NONE
        self._data = bytearray()
        """What the firmware has sent, or has yet to take."""
        self._stalls: set[int] = set()
        self.turned: Waiter[None] = Waiter()
        """Where a call sleeps that fits no stage."""
        self.crossed: Callable[[], Awaitable[None]] | None = None
        """Waits until the end of a transfer is off the wires, where that takes time."""

    # The firmware's side. All calls raise UsbReset.

    async def get_setup(self) -> SetupPacket:
        """Wait for the next SETUP packet, which ends the halts of endpoint 0."""
        urb = await self._get_setup()
        setup = urb.setup
        self._urb = urb
        self._stalls.clear()
        self._data = bytearray(urb.data)
        if not setup.length:
            self._stage = Stage.STATUS_IN
        else:
            self._stage = Stage.DATA_IN if setup.to_host else Stage.DATA_OUT
        return setup

    async def get_packet(self) -> bytes:
        """Take a packet of the OUT data, or the empty one that ends an IN transfer. Raises NewSetup."""
        await self._reach(Stage.DATA_OUT, Stage.STATUS_OUT)
        if self._stage is Stage.STATUS_OUT:
            await self._end_in_status(TransferStatus.OKAY)
            return b""
        packet = bytes(self._data[:CONTROL_PACKET_SIZE])
        del self._data[:CONTROL_PACKET_SIZE]
        if not self._data:
            self._enter(Stage.STATUS_IN)
        return packet

    async def put_packet(self, data: bytes) -> None:
        """Send a packet of the IN data, or the empty one that ends an OUT transfer. Raises NewSetup."""
        await self._reach(Stage.DATA_IN, Stage.STATUS_IN)
        if self._stage is Stage.STATUS_IN:
            await self._end_in_status(TransferStatus.OVERFLOW if data else TransferStatus.OKAY)
            return
        assert self._urb is not None  # noqa: S101 - a stage has its transfer
        self._data += data
        if len(data) < CONTROL_PACKET_SIZE or len(self._data) >= self._urb.setup.length:
            self._enter(Stage.STATUS_OUT)

    def stall(self, address: int) -> None:
        """Answer STALL at one direction, 0x00 or 0x80, until the next SETUP."""
        self._stalls.add(address)
        self._check_stall()

    def clear_stall(self, address: int) -> None:
        """Answer packets of one direction again."""
        self._stalls.discard(address)

    def is_stalled(self, address: int) -> bool:
        """Return whether a direction answers STALL."""
        return address in self._stalls

    # The host's side.

    def check_setup(self) -> None:
        """Wake a call that fits no stage where another transfer waits."""
        if self._stage is Stage.NONE and self._has_setup():
            self.turned.fail(NewSetup())

    def abandon(self, setup: SetupPacket) -> bool:
        """Forget the transfer in progress where it has this very SETUP packet: its host has given it up."""
        if self._urb is None or self._urb.setup is not setup:
            return False
        self._urb, self._stage = None, Stage.NONE
        self.check_setup()
        return True

    def reset(self) -> None:
        """End the transfer in progress and the halts; a call that waits raises UsbReset."""
        urb, self._urb, self._stage = self._urb, None, Stage.NONE
        self._stalls.clear()
        self.turned.fail(UsbReset("endpoint 0 was reset"))
        if urb is not None:
            urb.abort()

    async def _reach(self, *stages: Stage) -> None:
        """Wait for a stage; it can only be that of another transfer."""
        if self._stage not in stages:
            if self._stage is Stage.NONE and self._has_setup():
                raise NewSetup
            verb = "get_packet" if stages[0] is Stage.DATA_OUT else "put_packet"
            await traced_wait(self.turned.wait(), verb, self)

    def _enter(self, stage: Stage) -> None:
        self._stage = stage
        self._check_stall()

    def _check_stall(self) -> None:
        if self._stage.address in self._stalls:
            self._end(TransferStatus.STALL)

    async def _end_in_status(self, status: TransferStatus) -> None:
        self._end(status)
        if self.crossed is not None:
            await self.crossed()

    def _end(self, status: TransferStatus) -> None:
        urb, self._urb, self._stage = self._urb, None, Stage.NONE
        assert urb is not None  # noqa: S101 - a stage has its transfer
        is_in = urb.setup.to_host and urb.setup.length
        if status is TransferStatus.OKAY:
            self._on_done(urb.setup)
        urb.finish(status, bytes(self._data) if is_in and status is TransferStatus.OKAY else b"")
