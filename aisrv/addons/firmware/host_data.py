"""Data from the host, over xscope: packets of up to 256 bytes for the channel end that a program connects.

On the chip they come over the debug adapter. Here each is a word with its length, the bytes and END.
"""

from contextlib import ExitStack
from typing import Final

import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import Trap, TrapKind

PACKET_BYTES: Final = 256
"""The most that `xscope_data_from_host` takes."""


class HostData:
    """What the host sends, once a program connects a channel end for it."""

    def __init__(self, data: bytes = b"", nursery: trio.Nursery | None = None) -> None:
        """Have `data` sent in packets, by a task of the nursery."""
        self._data = data
        self._nursery = nursery
        self._connected: ChanEnd | None = None

    def connect(self, tile: Tile, end: ChanEnd) -> None:
        """Send the data to an end of a tile, which gives a second one for it; another end traps."""
        if self._connected is not None:
            place = f"xscope_connect_data_from_host on {end.name}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}: {self._connected.name} has the data", place)
        self._connected = end
        host = tile.allocate_chanend()
        host.join(end)
        if self._data and self._nursery is not None:
            stack = ExitStack()
            stack.enter_context(
                tile.runtime.outside_world()
            )  # until all was sent, cores that wait are no deadlock
            self._nursery.start_soon(self._send, host, stack)

    async def _send(self, host: ChanEnd, stack: ExitStack) -> None:
        with stack:
            for start in range(0, len(self._data), PACKET_BYTES):
                await _send_packet(host, self._data[start : start + PACKET_BYTES])


@verb
def _send_packet(c: ChanEnd, data: bytes) -> Steps[None]:
    yield from c.outuint(len(data))
    yield from c.packet(data)
