"""Base of the tasks at the bulk endpoints, whatever protocol they speak.

Source: "XCORE AI server: numbers and wire behavior", section USB framing.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import trio

from aisrv.protocol.commands import PACKET_SIZE
from aisrv.xcore.channels.chanend import ChanEnd
from phy.usb.xud import InEndpoint, OutEndpoint, UsbReset

BURST: Final = 128 * PACKET_SIZE
"""Bytes that are passed on in one go if they are there already."""


logger = logging.getLogger(__name__)

_LOG_SECONDS: Final = 1.0
"""Time between two lines about ignored packets: a host that sends nothing else would fill the log."""


class IgnoredPackets:
    """Counts the packets that are not commands, and logs at most one a second."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._logged = 0
        self._next_line = -float("inf")
        self.count = 0

    def add(self, reason: object) -> None:
        """Count a packet and log the reason, with the number of packets since the last line."""
        self.count += 1
        now = trio.current_time()
        if now < self._next_line:
            return
        silent = self.count - self._logged - 1
        more = f"; {silent} more since the last line" if silent else ""
        logger.warning("%s: packet ignored: %s%s", self._name, reason, more)
        self._logged, self._next_line = self.count, now + _LOG_SECONDS


class DataTask(ABC):
    """The two bulk endpoints, and the channel ends to the engines by number."""

    def __init__(
        self,
        out_endpoint: OutEndpoint,
        in_endpoint: InEndpoint,
        engines: Sequence[ChanEnd],
        name: str,
        ignored: IgnoredPackets | None = None,
    ) -> None:
        self._out = out_endpoint
        self._in = in_endpoint
        self._engines = engines
        self._name = name
        self.ignored: Final = IgnoredPackets(name) if ignored is None else ignored
        """Counts the packets that are not commands."""

    async def run(self) -> None:
        """Serve commands until cancelled; a reset of the bus abandons the one in progress."""
        while True:
            try:
                await self._serve_command()
            except UsbReset:
                self._out.acknowledge_reset()
                self._in.acknowledge_reset()

    @abstractmethod
    async def _serve_command(self) -> None: ...

    async def _halt_until_cleared(self) -> None:
        """Halt both endpoints until the host has cleared both. Raises UsbReset."""
        self._out.check_reset()  # a halt must not hit the configuration that came after the command
        self._in.halt()
        self._out.halt()
        await self._out.wait_halt_cleared()
        await self._in.wait_halt_cleared()
