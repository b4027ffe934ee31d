"""WebSocket frames of a server (RFC 6455, section 5.2), made once for all pages that get the same."""

TEXT = 0x1
BINARY = 0x2
_FIN = 0x80
_SHORT = 126
"""Lengths from here on have a field of their own."""


def frame(opcode: int, data: bytes) -> bytes:
    """Return a whole message as one frame; a server's has no mask."""
    size = len(data)
    if size < _SHORT:
        length = bytes((size,))
    elif size < 1 << 16:
        length = b"\x7e" + size.to_bytes(2)
    else:
        length = b"\x7f" + size.to_bytes(8)
    return bytes((_FIN | opcode,)) + length + data
