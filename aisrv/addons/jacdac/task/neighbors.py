"""Other devices on a bus, known by their announces. No I/O."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aisrv.addons.jacdac.wire.announce import Announce
from aisrv.addons.jacdac.wire.timers import SECOND, Timer, Timers

GONE_AFTER: Final = 2 * SECOND
"""Time without an announce, of which there is one every 500 ms."""
MOST_NEIGHBORS: Final = 256
"""Limit of remembered devices; a hostile peer can invent any number."""
RESTART_MASK: Final = 0x0F


@dataclass(slots=True)
class Neighbor:
    """One device."""

    device: int
    restart: int
    """Restart counter, 1 to 15; a smaller one than before means that it has restarted."""
    classes: tuple[int, ...]
    """Service classes, from index 1."""
    timer: Timer


class Neighbors:
    """The devices that have announced themselves and are not gone."""

    def __init__(self, timers: Timers, lost: Callable[[int], None]) -> None:
        """Call `lost` with the id of a device that is gone, or has restarted."""
        self._timers = timers
        self._lost = lost
        self._devices: dict[int, Neighbor] = {}

    def __contains__(self, device: object) -> bool:
        return device in self._devices

    def ids(self) -> Iterable[int]:
        return tuple(self._devices)

    def get(self, device: int) -> Neighbor | None:
        return self._devices.get(device)

    def hear(self, device: int, announce: Announce) -> Neighbor | None:
        """Handle an announce; None if too many devices are known to remember this one."""
        restart = announce.flags & RESTART_MASK
        known = self._devices.get(device)
        if known is None and len(self._devices) >= MOST_NEIGHBORS:
            return None
        if known is not None:
            known.timer.cancel()
            if restart < known.restart:
                self._lost(device)
        timer = self._timers.after(GONE_AFTER, lambda: self._forget(device))
        self._devices[device] = found = Neighbor(device, restart, announce.classes, timer)
        return found

    def _forget(self, device: int) -> None:
        if self._devices.pop(device, None) is not None:
            self._lost(device)
