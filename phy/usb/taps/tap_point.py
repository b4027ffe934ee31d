"""A place for a tap between a host and its device, such as one that injects faults."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from aisrv.protocol.usb_descriptors import Descriptors
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.taps.relay_port import RelayPort, Urb
from phy.usb.urb import InUrb, OutUrb


class TapPoint(HostPort):
    """Passes everything straight on, but while a tap is in: it is put in and taken out while hosts go on.

    A transfer ends by the way by which it began.
    """

    def __init__(self, inner: HostPort) -> None:
        self._inner: Final = inner
        self._top: HostPort = inner
        self._ways: tuple[HostPort, ...] = (inner,)
        self._changed = trio.Event()

    def put(self, tap: Callable[[HostPort], HostPort]) -> None:
        """Put a tap in, the only one; it gets the port behind it."""
        self._go_by(tap(self._inner))

    def take_out(self) -> None:
        """Take the tap out; what began by it ends by it."""
        self._go_by(self._inner)

    def _go_by(self, top: HostPort) -> None:
        self._top = top
        busy = [way for way in self._ways if isinstance(way, RelayPort) and way.is_busy]
        self._ways = tuple(dict.fromkeys((top, *busy, self._inner)))
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    @property
    def descriptors(self) -> Descriptors:
        return self._inner.descriptors

    def submit_out(self, address: int, urb: OutUrb) -> bool:
        return self._top.submit_out(address, urb)

    def submit_in(self, address: int, urb: InUrb) -> bool:
        return self._top.submit_in(address, urb)

    def submit_control(self, urb: ControlUrb) -> None:
        self._top.submit_control(urb)

    def data_arrived(self, urb: OutUrb) -> None:
        for way in self._ways:
            way.data_arrived(urb)

    def unlink(self, urb: Urb) -> bool:
        return any(way.unlink(urb) for way in self._ways)

    def reset(self) -> None:
        self._top.reset()

    @property
    def is_unplugged(self) -> bool:
        return self._inner.is_unplugged

    async def wait_unplugged(self) -> None:
        """Wait as the port says by which transfers go: a tap may take the device off the bus."""
        unplugged = False

        async def wait(top: HostPort) -> None:
            nonlocal unplugged
            await top.wait_unplugged()
            unplugged = True
            nursery.cancel_scope.cancel()

        async def until(event: Callable[[], Awaitable[None]]) -> None:
            await event()
            nursery.cancel_scope.cancel()

        while not unplugged:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait, self._top)
                nursery.start_soon(until, self._changed.wait)

    async def wait_plugged(self) -> bool:
        return await self._inner.wait_plugged()
