"""What a device says of itself every 500 ms: report 0 of its control service. No I/O."""

from dataclasses import dataclass
from typing import Final

from aisrv.addons.jacdac.wire.packing import Packing

_ANNOUNCE: Final = Packing("u16 u8 u8 r: u32")


@dataclass(frozen=True, slots=True)
class Announce:
    """The payload of an announce."""

    flags: int
    packets: int
    classes: tuple[int, ...]

    @classmethod
    def from_bytes(cls, payload: bytes) -> "Announce | None":
        """Read one; None for a payload of another kind."""
        if len(payload) < 4 or len(payload) % 4:
            return None
        classes = tuple(int.from_bytes(payload[at : at + 4], "little") for at in range(4, len(payload), 4))
        return cls(int.from_bytes(payload[:2], "little"), payload[2], classes)

    def __bytes__(self) -> bytes:
        return _ANNOUNCE.pack((self.flags, self.packets, 0, self.classes))
