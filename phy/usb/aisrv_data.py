"""The data task: takes commands off the bulk endpoints and passes them on to engines.

The length of each command packet says which dialect it is in. Sources: the design document, section USB;
"XCORE AI server: numbers and wire behavior", section USB framing.
"""

import logging

from aisrv.protocol.commands import CommandPacket, Dialect, ProtocolError, Status, is_set
from aisrv.protocol.engine_channel import (
    abandon_set,
    begin_get,
    begin_set,
    end_set,
    receive_piece,
    set_command,
)
from aisrv.xcore.channels.chanend import ChanEnd
from phy.usb.data_task import BURST, DataTask
from phy.usb.xud import Packets, UsbReset

logger = logging.getLogger(__name__)


class UsbData(DataTask):
    """Data task of the AI server's own protocol, in both dialects."""

    async def _serve_command(self) -> None:
        packets = await self._out.get_buffer()
        try:
            packet = CommandPacket.from_bytes(packets.data)
        except ProtocolError as error:
            self.ignored.add(error)
            return
        if packet.engine >= len(self._engines):
            logger.warning(
                "%s: command 0x%02x for engine %d, there are %d",
                self._name,
                packet.command,
                packet.engine,
                len(self._engines),
            )
            await self._refuse(packet)
        elif is_set(packet.command):
            await self._serve_set(packet, self._engines[packet.engine])
        else:
            await self._serve_get(packet, self._engines[packet.engine])

    async def _refuse(self, packet: CommandPacket) -> None:
        """Answer ERROR_BAD_CMD without any engine; the data of a SET are read first, as an engine would."""
        while is_set(packet.command) and not (await self._out.get_buffer(BURST)).short:
            pass
        await self._report(packet, Status.ERROR_BAD_CMD)

    async def _serve_set(self, packet: CommandPacket, c: ChanEnd) -> None:
        packets = await self._out.get_buffer(BURST)
        if packets.short:
            status = await set_command(c, packet.command, packet.tensor, packets.data)
        else:
            status = await self._forward_data(packet, packets, c)
        await self._report(packet, status)

    async def _forward_data(self, packet: CommandPacket, packets: Packets, c: ChanEnd) -> Status:
        """Pass the data of a SET on as they come; a reset makes the engine forget the command."""
        await begin_set(c, packet.command, packet.tensor)
        try:
            while not packets.short:
                await c.outwords(packets.data)
                packets = await self._out.get_buffer(BURST)
        except UsbReset:
            await abandon_set(c)
            raise
        return await end_set(c, packets.data)

    async def _serve_get(self, packet: CommandPacket, c: ChanEnd) -> None:
        status, data, last = await begin_get(c, packet.command, packet.tensor, BURST)
        try:
            if status or packet.dialect is Dialect.DESIGN:
                await self._report(packet, status)
            if not status:
                await self._in.set_buffer(data, last=last)
            while not last:
                data, last = await receive_piece(c, BURST)
                await self._in.set_buffer(data, last=last)
        except UsbReset:
            if not last:
                await self._discard_answer(c)
            raise

    async def _discard_answer(self, c: ChanEnd) -> None:
        while not (await receive_piece(c, BURST))[1]:
            pass

    async def _report(self, packet: CommandPacket, status: Status) -> None:
        """Report a status to the host: by a packet in the design dialect, by halts in the classic one."""
        if packet.dialect is Dialect.DESIGN:
            await self._in.set_buffer(status.to_bytes(4, "little"))
        elif status:
            await self._halt_until_cleared()
