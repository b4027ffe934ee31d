"""The data task of a device that speaks the "ioserver" protocol; each model number is an AI engine.

It stands where `UsbData` stands in a device that speaks the AI server's own protocol. Sources:
lib_tflite_micro, `src/ioserver.c`, function `ioserver_usb_ep`; docs/reference/ioserver.md, which says
where this task differs because the firmware would stop there.
"""

import logging
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Final

from aisrv.protocol.commands import PACKET_SIZE, Command, ProtocolError, Status
from aisrv.protocol.engine_channel import (
    RESET_VARIABLES,
    begin_get,
    get_command,
    receive_piece,
    set_command,
    set_large,
)
from aisrv.protocol.ioserver import IoserverCommand, IoserverPacket, padded_length
from aisrv.xcore.channels.array import LARGE_BYTES, own_pages
from aisrv.xcore.channels.chanend import ChanEnd
from phy.usb.data_task import BURST, DataTask
from phy.usb.xud import UsbReset

logger = logging.getLogger(__name__)


class _Refused(Exception):
    """A failed command: both endpoints halt."""


class UsbIoserver(DataTask):
    """The task of a device that speaks ioserver; an engine's number is its model number."""

    async def _serve_command(self) -> None:
        packets = await self._out.get_buffer()
        if not packets.data:
            logger.debug("%s: empty packet ignored", self._name)  # hosts send one after RESET
            return
        try:
            packet = IoserverPacket.from_bytes(packets.data)
        except ProtocolError as error:
            self.ignored.add(error)
            return
        handler = _HANDLERS.get(packet.command)
        if handler is None:
            self.ignored.add(f"unknown ioserver command {packet.command}")
            return
        try:
            await handler(self, packet)
        except _Refused as refusal:
            logger.warning(
                "%s: %s, model %d, tensor %d: %s; both endpoints halt",
                self._name,
                IoserverCommand(packet.command).name,
                packet.model,
                packet.tensor,
                refusal,
            )
            await self._halt_until_cleared()

    def _engine(self, packet: IoserverPacket) -> ChanEnd:
        """Return the channel to a model; to model 0 for an unknown number, as in the firmware."""
        if packet.model < len(self._engines):
            return self._engines[packet.model]
        logger.warning("%s: unknown model %d, using model 0", self._name, packet.model)
        return self._engines[0]

    async def _invoke(self, packet: IoserverPacket) -> None:
        await self._out.get_buffer()
        _check(await set_command(self._engine(packet), Command.START_INFER))

    async def _send_output(self, packet: IoserverPacket) -> None:
        c = self._engine(packet)
        status, data, last = await begin_get(c, Command.GET_OUTPUT_TENSOR, packet.tensor, BURST)
        _check(status)
        try:
            await self._in.set_buffer(_padded(data), last=last)
            while not last:
                data, last = await receive_piece(c, BURST)
                await self._in.set_buffer(_padded(data), last=last)
        except UsbReset:
            while not last:
                _, last = await receive_piece(c, BURST)
            raise

    async def _receive_input(self, packet: IoserverPacket) -> None:
        # The number is judged before the data come, so that it is the write of the data that fails.
        c = self._engine(packet)
        status, word = await get_command(c, Command.GET_INPUT_TENSOR_LENGTH, packet.tensor)
        _check(status)
        data = await self._receive(int.from_bytes(word, "little"))
        _check(await set_large(c, Command.SET_INPUT_TENSOR, packet.tensor, data))

    async def _receive(self, length: int) -> memoryview:
        """Receive the data of a tensor of `length` bytes, which may be padded to whole words."""
        room = padded_length(length)
        data = own_pages(room + PACKET_SIZE) if room > LARGE_BYTES else BytesIO()
        size = 0
        ended = False
        while not ended:
            # No packet past the first that is too many: a write that has more of them must fail.
            wanted = (room - size) // PACKET_SIZE * PACKET_SIZE + PACKET_SIZE
            packets = await self._out.get_buffer(min(BURST, wanted))
            size += data.write(packets.data)
            ended = packets.short
            if size > room:
                raise _Refused(f"the tensor has {length} bytes, the host sends more")
        if size < length:
            raise _Refused(f"the tensor has {length} bytes, the host sent {size}")
        return memoryview(data.getvalue() if isinstance(data, BytesIO) else data).toreadonly()[:length]

    async def _reset(self, packet: IoserverPacket) -> None:
        _check(await set_command(self._engine(packet), RESET_VARIABLES))

    async def _exit(self, _packet: IoserverPacket) -> None:
        logger.info("%s: the host is done, all models are reset", self._name)
        for c in self._engines:
            _check(await set_command(c, RESET_VARIABLES))


def _padded(data: bytes) -> bytes:
    return data.ljust(padded_length(len(data)), b"\0")


def _check(status: Status) -> None:
    if status:
        raise _Refused(f"the engine answered {status!r}")


_HANDLERS: Final[dict[int, Callable[[UsbIoserver, IoserverPacket], Awaitable[None]]]] = {
    IoserverCommand.INVOKE: UsbIoserver._invoke,
    IoserverCommand.TENSOR_SEND_OUTPUT: UsbIoserver._send_output,
    IoserverCommand.TENSOR_RECV_INPUT: UsbIoserver._receive_input,
    IoserverCommand.RESET: UsbIoserver._reset,
    IoserverCommand.EXIT: UsbIoserver._exit,
}
