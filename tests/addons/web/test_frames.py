"""Frames as a WebSocket client of another project reads them."""

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, TextMessage

from aisrv.addons.web.frames import BINARY, TEXT, frame


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536])
def test_a_frame_is_a_message(size: int) -> None:
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(frame(BINARY, b"x" * size) + frame(TEXT, "é".encode()))
    got = bytearray()
    texts = []
    for event in client.events():
        if isinstance(event, BytesMessage):
            got += event.data
        elif isinstance(event, TextMessage):
            texts.append(event.data)
    assert bytes(got) == b"x" * size
    assert texts == ["é"]
