"""The control service: announces, identity, watchdog, reset, and reports in numbers. No I/O."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from aisrv.addons.jacdac.task.service import Host, Service, constants
from aisrv.addons.jacdac.wire.announce import Announce
from aisrv.addons.jacdac.wire.frame import CONTROL_INDEX, LARGEST_PAYLOAD
from aisrv.addons.jacdac.wire.packing import Value
from aisrv.addons.jacdac.wire.service_spec import ServiceSpec
from aisrv.addons.jacdac.wire.service_tables import CONTROL
from aisrv.addons.jacdac.wire.timers import MILLISECOND, Timer

logger = logging.getLogger(__name__)

ANNOUNCE_EVERY: Final = 500 * MILLISECOND
FLAGS: Final = 0x0F00
"""ACKs, multicast, several packets a frame, and being a client; the restart counter is added."""
LAST_RESTART: Final = 15
MOST_PACKETS: Final = 255
LARGEST_PING: Final = LARGEST_PAYLOAD - 4
MOST_PINGS: Final = 1_000_000
PING_EVERY: Final = MILLISECOND
"""Time between two reports, so that a large number does not block the bus."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The name, product and firmware that a device reports."""

    description: str = "XCORE AI server"
    product: int = 0x30000000 | 0x0A15E20
    firmware_version: str = ""


class ControlService(Service):
    """Service 0 of a device."""

    SPEC: ClassVar[ServiceSpec] = CONTROL

    def __init__(
        self, device: Host, identity: Identity, classes: Sequence[int], reset: Callable[[], None]
    ) -> None:
        super().__init__(device, CONTROL_INDEX, "")
        self._classes = tuple(classes)
        self._reset_device = reset
        self._restart = 0
        self.reports = 0
        self._watchdog_us = 0
        self._watchdog: Timer | None = None
        self._ping: Timer | None = None
        self.getters |= constants(
            self,
            {
                "device_description": identity.description,
                "product_identifier": identity.product,
                "bootloader_product_identifier": identity.product,
                "firmware_version": identity.firmware_version,
            },
        )
        self.getters |= {0x080: self._reset_in, 0x186: lambda: device.timers.now}
        self.setters[0x080] = self._set_reset_in
        self.actions |= {
            0x00: lambda _: self.announce(),
            0x80: lambda _: None,
            0x81: lambda _: logger.info("a client looks for this device"),
            0x82: lambda _: self._reset_device(),
            0x83: self._flood_ping,
            0x84: lambda _: None,
        }

    def start(self) -> None:
        """Announce now, and every 500 ms."""
        self._restart = min(self._restart + 1, LAST_RESTART)
        self.announce()
        self.device.timers.after(ANNOUNCE_EVERY, self.start)

    def announce(self) -> None:
        packets = min(self.reports + 1, MOST_PACKETS)
        self.device.report(self.index, 0x00, bytes(Announce(FLAGS | self._restart, packets, self._classes)))
        self.reports = 0

    def reset(self) -> None:
        super().reset()
        self._restart = 0
        for timer in (self._watchdog, self._ping):
            if timer is not None:
                timer.cancel()
        self._watchdog_us = 0

    def _reset_in(self) -> int:
        return self._watchdog_us

    def _set_reset_in(self, value: Value) -> None:
        if not isinstance(value, int):
            return
        self._watchdog_us = value
        if self._watchdog is not None:
            self._watchdog.cancel()
        if value:
            self._watchdog = self.device.timers.after(value, self._reset_device)

    def _flood_ping(self, payload: bytes) -> None:
        padded = payload.ljust(9, b"\0")
        count = min(int.from_bytes(padded[:4], "little"), MOST_PINGS)
        start = int.from_bytes(padded[4:8], "little")
        size = min(padded[8], LARGEST_PING)
        if self._ping is not None:
            self._ping.cancel()
        self._send_ping(start, start + count, bytes(range(size)))

    def _send_ping(self, number: int, end: int, filling: bytes) -> None:
        if number < end:
            self.report(0x83, (number & 0xFFFFFFFF).to_bytes(4, "little") + filling)
            self._ping = self.device.timers.after(
                PING_EVERY, lambda: self._send_ping(number + 1, end, filling)
            )
