"""Cores that look at a port again and again: time passes for them, until the pins change."""

import trio

from aisrv.xcore.clock import POLL_TICKS
from aisrv.xcore.core import Core, current_core
from aisrv.xcore.ports.pin import Pin
from aisrv.xcore.ports.port import Port
from aisrv.xcore.runtime import Runtime


class PinPolls:
    """Which ports each core has looked at in the present tick."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._looks: dict[Core, tuple[int, set[Port]]] = {}

    async def look(self, port: Port) -> None:
        """Note a look of the running core; where it is not its first one in this tick, let time pass before.

        That takes a microsecond, and more in long loops, or less where a pin of the port changes.
        """
        clock, core = self._runtime.clock, current_core()
        if core is None or not clock.is_virtual:
            return
        now = clock.ticks()
        tick, ports = self._looks.get(core, (-1, set()))
        if tick == now and port in ports:
            await _until_change(port.pins, now, now + max(core.poll.step(now), POLL_TICKS))
            now = clock.ticks()
        if tick == now:
            ports.add(port)
        else:
            self._looks[core] = now, {port}


class _Watch:
    """Hears of changes that are laid down on pins."""

    def __init__(self) -> None:
        self.heard = trio.Event()

    def pin_changed(self, pin: Pin, tick: int) -> None:  # noqa: ARG002 - as in PinListener
        """Wake who watches."""
        self.heard.set()


async def _until_change(pins: tuple[Pin, ...], since: int, until: int) -> None:
    """Wait until one of the pins has another value than at a tick, or until a tick has come."""
    clock = pins[0].runtime.clock
    before = [pin.value(since) for pin in pins]
    watch = _Watch()
    for pin in pins:
        pin.listen(watch)
    try:
        while (now := clock.ticks()) < until and [pin.value(now) for pin in pins] == before:
            changes = [tick for pin in pins if (tick := pin.next_change(now)) is not None]
            watch.heard = trio.Event()
            with trio.move_on_at(clock.deadline(min([until, *changes]))):
                await watch.heard.wait()
    finally:
        for pin in pins:
            pin.stop_listening(watch)
