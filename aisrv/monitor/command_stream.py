"""Counts commands on an OUT endpoint: follows a host's transfers as the data task does.

Sources: "XCORE AI server: numbers and wire behavior", section USB framing; docs/reference/ioserver.md. No
I/O.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Final

from aisrv.board import UsbProtocol
from aisrv.protocol.commands import PACKET_SIZE, CommandPacket, ProtocolError, is_set
from aisrv.protocol.ioserver import IoserverCommand, IoserverPacket


class Data(enum.Enum):
    """Data after a command packet on the same endpoint."""

    NONE = "the next command"
    """No data: the next packet is a command."""
    PACKET = "one packet of data"
    TRANSFER = "packets of data, up to a short one"


Framing = Callable[[bytes], Data | None]
"""Returns the data after a packet that opens a command; None for a packet that opens none."""

LONGEST_COMMAND: Final = 12
"""Bytes of the longest packet that opens a command."""


def aisrv_framing(packet: bytes) -> Data | None:
    """Read a command packet of the AI server's own protocol, in either dialect."""
    try:
        command = CommandPacket.from_bytes(packet).command
    except ProtocolError:
        return None
    return Data.TRANSFER if is_set(command) else Data.NONE


_IOSERVER_DATA: Final[Mapping[int, Data]] = {
    IoserverCommand.INVOKE: Data.PACKET,
    IoserverCommand.TENSOR_RECV_INPUT: Data.TRANSFER,
}


def ioserver_framing(packet: bytes) -> Data | None:
    """Read a command packet of the ioserver protocol."""
    try:
        command = IoserverPacket.from_bytes(packet).command
    except ProtocolError:
        return None
    return _IOSERVER_DATA.get(command, Data.NONE)


FRAMINGS: Final[Mapping[UsbProtocol, Framing]] = {
    UsbProtocol.AISRV: aisrv_framing,
    UsbProtocol.IOSERVER: ioserver_framing,
}


class CommandStream:
    """Counts the commands of one device."""

    def __init__(self, framing: Framing) -> None:
        self._framing: Final = framing
        self._expected = Data.NONE
        self.commands = 0
        """Command packets that the device has taken, whether it knows the code or not."""

    def restart(self) -> None:
        """Expect a command, as the device does after a reset of the bus."""
        self._expected = Data.NONE

    def transfer(self, taken: int, short_packet: bytes | None) -> None:
        """Follow the bytes that the device has taken of one request.

        `short_packet` is the packet that ended the transfer, or None; empty will do for one longer than
        `LONGEST_COMMAND`.
        """
        if taken >= PACKET_SIZE and self._expected is Data.PACKET:
            self._expected = Data.NONE
        if short_packet is None:
            return
        if self._expected is not Data.NONE:
            self._expected = Data.NONE
            return
        data = self._framing(short_packet)
        if data is not None:
            self.commands += 1
            self._expected = data
