"""JDUSB: the frames of a Jacdac bus in a stream of bytes, such as a serial port. No I/O.

`FE FC` begins a frame, `FE FD` ends it, and a byte FE in it is `FE F8`; bytes outside of frames are text of a
log, or padding. The other side switches the frames on and off by commands to a class of its own.
"""

import enum
from dataclasses import dataclass, field
from typing import Final

from aisrv.addons.jacdac.wire.frame import (
    LARGEST_FRAME,
    MULTICAST_INDEX,
    MULTICAST_MARK,
    Frame,
    FrameError,
    FrameFlags,
    ServicePacket,
)

BRIDGE_CLASS: Final = 0x18F61A4A

ESCAPE: Final = 0xFE
BEGIN: Final = 0xFC
END: Final = 0xFD
ESCAPED: Final = 0xF8
UNKNOWN_COMMAND: Final = 0xFF


class BridgeCommand(enum.IntEnum):
    """Commands of the other side."""

    DISABLE_PACKETS = 0x80
    ENABLE_PACKETS = 0x81
    DISABLE_LOG = 0x82
    ENABLE_LOG = 0x83


def encode(frame: bytes) -> bytes:
    """Return a frame as it goes into the stream."""
    content = frame.replace(b"\xfe", bytes((ESCAPE, ESCAPED)))
    return bytes((ESCAPE, BEGIN)) + content + bytes((ESCAPE, END))


class Decoder:
    """Finds the frames in a stream."""

    def __init__(self) -> None:
        self._frame: bytearray | None = None
        self._escaped = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that end in the next bytes of the stream, unchecked."""
        found = []
        for byte in data:
            if self._escaped:
                self._escaped = False
                frame = self._take_escaped(byte)
                if frame is not None:
                    found.append(frame)
            elif byte == ESCAPE:
                self._escaped = True
            elif self._frame is not None:
                self._add(byte)
        return found

    def _take_escaped(self, byte: int) -> bytes | None:
        frame = None
        if byte == BEGIN:
            self._frame = bytearray()
        elif byte == END:
            frame = None if self._frame is None else bytes(self._frame)
            self._frame = None
        elif byte == ESCAPED:
            self._add(ESCAPE)
        elif byte == ESCAPE:
            self._escaped = True  # padding
        else:
            self._frame = None
        return frame

    def _add(self, byte: int) -> None:
        if self._frame is not None:
            self._frame.append(byte)
            if len(self._frame) > LARGEST_FRAME:
                self._frame = None


@dataclass(slots=True)
class Bridge:
    """The device's side of JDUSB: separates frames for the bus from commands to the bridge."""

    enabled: bool = False
    _decoder: Decoder = field(default_factory=Decoder)

    def feed(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Decode bytes of the stream; return the frames for the bus, and bytes to answer."""
        frames = []
        answers = b""
        for frame in self._decoder.feed(data):
            answer = self._command(frame)
            if answer is None:
                frames.append(frame)
            else:
                answers += answer
        return frames, answers

    def _command(self, data: bytes) -> bytes | None:
        """Run a command to the bridge; None for a frame that is not a command."""
        try:
            frame = Frame.from_bytes(data)
        except FrameError:
            return None
        if not frame.is_command or frame.multicast_class != BRIDGE_CLASS:
            return None
        answers = b""
        for packet in frame.packets:
            command = packet.command
            if command == BridgeCommand.ENABLE_PACKETS:
                self.enabled = True
            elif command == BridgeCommand.DISABLE_PACKETS:
                self.enabled = False
            elif command not in list(BridgeCommand):
                command = UNKNOWN_COMMAND
            report = ServicePacket(MULTICAST_INDEX, command)
            answers += encode(
                bytes(Frame(MULTICAST_MARK << 32 | BRIDGE_CLASS, (report,), FrameFlags.MULTICAST))
            )
        return answers
