"""Command of each transfer of a capture, in either protocol, and the masked parts of its answer."""

import enum
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from aisrv.protocol.commands import (
    PACKET_SIZE,
    Command,
    CommandPacket,
    Dialect,
    ProtocolError,
    command_name,
    is_set,
)
from aisrv.protocol.ioserver import IoserverCommand, IoserverPacket

NO_COMMAND: Final = "before the first command"


class Mask(enum.Enum):
    """Part of an answer that is not compared."""

    NOTHING = enum.auto()
    DATA = enum.auto()
    LENGTH = enum.auto()
    """The data and their length."""
    REST = enum.auto()
    """Requests skipped because an answer's length differed."""


MASKED: Final[dict[int, Mask]] = {command: Mask[command.varies.name] for command in Command}
"""Part of a command's data that differs from run to run."""


class CommandFollower(Protocol):
    """Follows the commands of a host in what it sends."""

    count: int

    def restart(self) -> None:
        """Expect a command, as after a reset or a halt."""

    def sent(self, data: bytes) -> None: ...

    def answered(self) -> Mask:
        """Follow one IN transfer; return the masked part of it."""

    def __str__(self) -> str: ...


class AisrvFollower:
    """Follows the AI server's own protocol, in either dialect."""

    def __init__(self) -> None:
        self.count = 0
        self._current: CommandPacket | None = None
        self._data_follows = False
        self._status_follows = False
        self._mask = Mask.NOTHING

    def restart(self) -> None:
        self._data_follows = self._status_follows = False
        self._mask = Mask.NOTHING

    def sent(self, data: bytes) -> None:
        if self._data_follows:
            self._data_follows = len(data) % PACKET_SIZE == 0 and len(data) > 0
            return
        try:
            self._current = CommandPacket.from_bytes(data)
        except ProtocolError:
            return
        self.count += 1
        self._data_follows = is_set(self._current.command)
        self._status_follows = self._current.dialect is Dialect.DESIGN
        self._mask = MASKED.get(self._current.command, Mask.NOTHING)

    def answered(self) -> Mask:
        if self._status_follows:
            self._status_follows = False
            return Mask.NOTHING
        mask = self._mask
        if mask is Mask.LENGTH:
            self._mask = Mask.REST
        return mask

    def __str__(self) -> str:
        if self._current is None:
            return NO_COMMAND
        packet = self._current
        return f"{command_name(packet.command)} of engine {packet.engine}, tensor {packet.tensor}"


class IoserverFollower:
    """Follows the ioserver protocol."""

    def __init__(self) -> None:
        self.count = 0
        self._current: IoserverPacket | None = None
        self._packet_follows = False
        self._data_follows = False

    def restart(self) -> None:
        self._packet_follows = self._data_follows = False

    def sent(self, data: bytes) -> None:
        if self._packet_follows:
            self._packet_follows = False
            return
        if self._data_follows:
            self._data_follows = len(data) % PACKET_SIZE == 0 and len(data) > 0
            return
        try:
            self._current = IoserverPacket.from_bytes(data)
        except ProtocolError:
            return
        self.count += 1
        self._packet_follows = self._current.command == IoserverCommand.INVOKE
        self._data_follows = self._current.command == IoserverCommand.TENSOR_RECV_INPUT

    def answered(self) -> Mask:
        """Follow one IN transfer; nothing of this protocol differs from run to run."""
        return Mask.NOTHING

    def __str__(self) -> str:
        if self._current is None:
            return NO_COMMAND
        packet = self._current
        return f"{_name(packet.command)} of model {packet.model}, tensor {packet.tensor}"


def _name(command: int) -> str:
    known: Iterable[int] = IoserverCommand._value2member_map_
    return IoserverCommand(command).name if command in known else f"command {command:#04x}"


FOLLOWERS: Final[dict[str, Callable[[], CommandFollower]]] = {
    "aisrv": AisrvFollower,
    "ioserver": IoserverFollower,
}
