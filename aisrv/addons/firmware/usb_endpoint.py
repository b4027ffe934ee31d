"""An endpoint under XUD's rules, for firmware that has its USB side to itself: a packet a call.

An endpoint with XUD_STATUS_ENABLE is told of changes of the bus, and serves nothing until it has taken note;
any other waits on. Source: XMOS lib_xud, xud.h.
"""

import enum
from abc import ABC, abstractmethod
from contextvars import Context
from typing import Final

import trio

from aisrv.addons.firmware.usb_control_pipe import ControlPipe, NewSetup
from aisrv.protocol.usb_descriptors import CONTROL_PACKET_SIZE, DIRECTION_IN
from aisrv.xcore.channels.listener import Listener
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.traps import Trap, TrapKind
from phy.usb.xud import CALLS_AT_ONCE, InEndpoint, OutEndpoint, UsbReset


class BusState(enum.IntEnum):
    """A change of the bus that an endpoint takes note of, as XUD numbers them."""

    RESET = 10
    KILL = 11
    """The firmware has shut its USB side down."""


class BusUpdate(Exception):
    """The bus has changed: the firmware must take note before the endpoint serves it again."""


class XudEndpoint(ABC):
    """One direction of an endpoint. Its calls raise BusUpdate; at endpoint 0 also NewSetup."""

    def __init__(self, runtime: Runtime, address: int, *, notifies: bool) -> None:
        """`notifies` is whether it is told of resets."""
        self.runtime: Final = runtime
        """What it shares with the resources of its program's node."""
        self.address: Final = address
        """Bit 7 is set for IN."""
        self.name: Final = f"endpoint 0x{address:02x}"
        """Name for traps and reports."""
        self.notifies: Final = notifies
        self.update: BusState | None = None
        """What the firmware has not taken note of yet."""
        self._is_called = False
        self._calls = 0
        self._is_ready = False
        self._scope = trio.CancelScope()
        self._outcome: bytes | NewSetup | None = None
        self._listener: Listener | None = None
        self._parking = runtime.parking(runtime)

    async def transfer(self, data: bytes) -> bytes:
        """Move one packet: send `data`, or take the one that is returned."""
        self._check_free(self._is_called or self._is_ready)
        self._is_called = True
        try:
            await self._yield_at_times()
            return await self._transfer(data)
        finally:
            self._is_called = False

    async def _yield_at_times(self) -> None:
        """Let other tasks run after `CALLS_AT_ONCE` calls: one that fits what the host does has no wait."""
        self._calls += 1
        if self._calls % CALLS_AT_ONCE == 0:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _check_free(self, is_used: bool) -> None:
        if is_used:
            reason = f"a transfer on {self.name} while another one is in progress"
            raise Trap(TrapKind.RESOURCE_DEP, reason, f"transfer on {self.name}")

    async def _transfer(self, data: bytes) -> bytes:
        while True:
            if self.update is not None:
                raise BusUpdate
            try:
                return await self._move(data)
            except UsbReset:
                await trio.lowlevel.checkpoint_if_cancelled()  # whoever is not told of it waits on

    @abstractmethod
    async def _move(self, data: bytes) -> bytes:
        """Move one packet. Raises UsbReset."""

    @abstractmethod
    def set_stall(self, *, stalled: bool) -> None:
        """Answer STALL to the host, or no longer."""

    @property
    @abstractmethod
    def is_stalled(self) -> bool:
        """Return whether it answers STALL."""

    @property
    @abstractmethod
    def packet_size(self) -> int:
        """Bytes of a full packet."""

    def note(self, state: BusState) -> None:
        """Have the firmware take note of a change of the bus, where it wants to know."""
        if self.notifies or state is BusState.KILL:
            self.update = state
            self._is_ready = False
            self._scope.cancel()
            self._became_ready()

    def acknowledge(self) -> BusState:
        """Take note; without a change of the bus it is a reset that was heard of elsewhere."""
        update, self.update = self.update, None
        return update or BusState.RESET

    # A transfer that is begun in one call and ended in another, which a select may come before.

    def set_ready(self, nursery: trio.Nursery, data: bytes) -> None:
        """Begin to move a packet: to the host in place of another one. Raises BusUpdate."""
        self._check_free(self._is_called)
        if self.update is not None:
            raise BusUpdate
        if self._is_ready and not self.address & DIRECTION_IN:
            return
        self._scope.cancel()
        self._scope = trio.CancelScope()
        self._outcome = None
        self._is_ready = True
        # As a task outside of any core: it is the bus that moves the packet.
        Context().run(nursery.start_soon, self._carry, self._scope, data)

    async def _carry(self, scope: trio.CancelScope, data: bytes) -> None:
        outcome: bytes | NewSetup
        with scope:
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                outcome = await self._transfer(data)
            except NewSetup as change:
                outcome = change
            except BusUpdate:
                return  # `note` has told of it
            if scope is self._scope:
                self._outcome, self._is_ready = outcome, False
                self._became_ready()

    def _became_ready(self) -> None:
        self._parking.wake(None)
        if self._listener is not None:
            self._listener.fire(self)

    async def finish(self) -> bytes:
        """Wait for the end of what `set_ready` began, and return what it moved."""
        if not self.ready:
            await self._parking.park("finish", self, timed=True)
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, bytes):
            return outcome
        raise outcome or BusUpdate

    @property
    def ready(self) -> bool:
        """Return whether what `set_ready` began has ended, or the bus has changed."""
        return self._outcome is not None or self.update is not None

    def listen(self, listener: Listener) -> None:
        """Let a select know when it becomes ready."""
        self._listener = listener

    def stop_listening(self, listener: Listener) -> None:
        """Forget a select's listener."""
        if self._listener is listener:
            self._listener = None


class DataOut(XudEndpoint):
    """From the host, but for endpoint 0."""

    def __init__(self, runtime: Runtime, endpoint: OutEndpoint, *, notifies: bool) -> None:
        super().__init__(runtime, endpoint.address, notifies=notifies)
        self._endpoint = endpoint
        self._empty_follows = False

    async def _move(self, data: bytes) -> bytes:  # noqa: ARG002 - it sends none
        if self._empty_follows:
            self._empty_follows = False
            self._endpoint.check_reset()
            return b""
        full = self._endpoint.packet_size
        packets = await self._endpoint.get_buffer(full)
        # The empty packet after a full one comes by itself.
        self._empty_follows = packets.short and len(packets.data) == full
        return packets.data

    def set_stall(self, *, stalled: bool) -> None:
        _set_halt(self._endpoint, halted=stalled)

    @property
    def is_stalled(self) -> bool:
        return self._endpoint.halted

    @property
    def packet_size(self) -> int:
        return self._endpoint.packet_size


class DataIn(XudEndpoint):
    """To the host, but for endpoint 0."""

    def __init__(self, runtime: Runtime, endpoint: InEndpoint, *, notifies: bool) -> None:
        super().__init__(runtime, endpoint.address, notifies=notifies)
        self._endpoint = endpoint

    async def _move(self, data: bytes) -> bytes:
        await self._endpoint.set_buffer(data, last=len(data) < self._endpoint.packet_size)
        return b""

    def set_stall(self, *, stalled: bool) -> None:
        _set_halt(self._endpoint, halted=stalled)

    @property
    def is_stalled(self) -> bool:
        return self._endpoint.halted

    @property
    def packet_size(self) -> int:
        return self._endpoint.packet_size


class ControlDirection(XudEndpoint):
    """One direction of endpoint 0."""

    def __init__(self, runtime: Runtime, address: int, pipe: ControlPipe, *, notifies: bool) -> None:
        super().__init__(runtime, address, notifies=notifies)
        self.pipe: Final = pipe

    async def get_setup(self) -> bytes:
        """Wait for a SETUP packet."""
        await self._yield_at_times()
        while True:
            if self.update is not None:
                raise BusUpdate
            try:
                return bytes(await self.pipe.get_setup())
            except UsbReset:
                pass

    async def _move(self, data: bytes) -> bytes:
        if not self.address:
            return await self.pipe.get_packet()
        await self.pipe.put_packet(data)
        return b""

    def set_stall(self, *, stalled: bool) -> None:
        if stalled:
            self.pipe.stall(self.address)
        else:
            self.pipe.clear_stall(self.address)

    @property
    def is_stalled(self) -> bool:
        return self.pipe.is_stalled(self.address)

    @property
    def packet_size(self) -> int:
        return CONTROL_PACKET_SIZE


def _set_halt(endpoint: OutEndpoint | InEndpoint, *, halted: bool) -> None:
    if halted:
        endpoint.halt()
    elif endpoint.halted:
        endpoint.clear_halt()
