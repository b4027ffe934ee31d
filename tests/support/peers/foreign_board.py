"""An AI server whose USB side is another project's: the bulk endpoints of a device of PyPI's package `usbip`.

Its commands are those of `tests.support.benches.memory_device`, without the ones that virtual devices alone
know. How it refuses these is the test's choice: boards of others have firmware of their own.
"""

import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import usbip

from tests.support.benches.memory_device import Engine
from tests.support.peers.usbip_peers import plugged


@dataclass(frozen=True)
class Refusal:
    """What a board does with a command that it does not carry out."""

    status: int = 0
    """Bits for GET_STATUS in the classic framing, the status word in the design's."""
    halted: tuple[int, ...] = (0x01, 0x81)
    """Endpoints that it halts in the classic framing."""
    answer: bytes | None = None
    """What it answers instead of a refusal."""


@dataclass
class Board:
    """A board, and what its host asked of it."""

    refusal: Refusal
    refused: Collection[int]
    """The commands that it does not carry out."""
    engine: Engine = field(default_factory=Engine)
    asked: list[int] = field(default_factory=list)


class _Firmware(usbip.Interface):  # type: ignore[misc]  # the package has no types
    """GETs alone: nothing here has data from the host."""

    bInterfaceSubClass = 0xFF  # noqa: N815 - the package takes the specification's names
    bInterfaceProtocol = 0xFF  # noqa: N815
    pipe_in = usbip.In(0x81, "bulk", mps=512)
    pipe_out = usbip.Out(0x01, "bulk", mps=512)

    def __init__(self, board: Board) -> None:
        super().__init__()
        self.board = board

    def on_out(self, _endpoint: object, data: bytes) -> None:
        is_classic = len(data) == 3
        command, _, tensor = struct.unpack("<3B" if is_classic else "<3I", data)
        self.board.asked.append(command)
        refusal = self.board.refusal
        if command not in self.board.refused or refusal.answer is not None:
            refused = command in self.board.refused
            status, answer = (0, refusal.answer or b"") if refused else self._perform(command, tensor)
        else:
            self.board.engine.errors |= refusal.status
            status, answer = refusal.status or 0xFF00, b""
        if status and is_classic:
            for endpoint in refusal.halted:
                (self.pipe_in if endpoint & 0x80 else self.pipe_out).stall()
            return
        if not is_classic:
            self.pipe_in.write(status.to_bytes(4, "little"))
        if not status:
            self.pipe_in.write(answer)

    def _perform(self, command: int, tensor: int) -> tuple[int, bytes]:
        return self.board.engine.perform(command, tensor, b"")


@contextmanager
def plugged_board(board: Board) -> Iterator[str]:
    """Export a board with the package's server; yields its address for hosts."""
    device = usbip.USBDevice(
        0x20B1, 0xA15E, product="xAISRV", manufacturer="somebody", device_class=0xFF,
        device_subclass=0xFF, device_protocol=0xFF,
    )  # fmt: skip
    device.set_speed(usbip.SPEED_HIGH)
    device.add(_Firmware(board))
    with plugged(device) as address:
        yield f"usbip:{address}"
