"""A device whose page is served, and clients of it that share no code with the server."""

import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from socket import SO_LINGER, SO_RCVBUF, SOL_SOCKET
from typing import Any

import trio
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, TextMessage

from aisrv.addons.web.device.controls import Controls, Target
from aisrv.addons.web.device.device_view import DeviceView
from aisrv.addons.web.hub import Hub
from aisrv.addons.web.server import PageServer
from aisrv.board import Board
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline

TOKEN = "the-token"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version": "13",
}


@dataclass
class Page:
    """A device whose page is served."""

    device: Device
    view: DeviceView
    server: PageServer
    port: int

    async def ask(
        self, target: str, method: str = "GET", body: bytes = b"", /, **headers: str
    ) -> tuple[int, bytes]:
        """Send a request; return the status and the body of the answer. Names have _ for -."""
        named = {"Host": f"127.0.0.1:{self.port}", "Connection": "close"} | {
            key.replace("_", "-"): value for key, value in headers.items()
        }
        if body or method == "POST":
            named["Content-Length"] = str(len(body))
        head = "".join(f"{key}: {value}\r\n" for key, value in named.items() if value)
        answer = await self.send(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
        status, _, rest = answer.partition(b"\r\n\r\n")
        return int(status.split()[1]), rest

    async def send(self, data: bytes) -> bytes:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        got = b""
        async with stream:
            await stream.send_all(data)
            try:
                while piece := await stream.receive_some(65536):
                    got += piece
            except trio.BrokenResourceError:
                pass
        return got

    async def do(self, name: str, body: bytes = b"", /, **values: str) -> tuple[int, str]:
        query = "&".join(f"{key}={value}" for key, value in {"device": "1-1", **values}.items())
        status, text = await self.ask(f"/do/{name}?{query}", "POST", body, X_Aisrv_Token=TOKEN)
        return status, text.decode().strip()


@asynccontextmanager
async def served(board: Board | None = None) -> AsyncIterator[Page]:
    async with open_device(board, runner=inline) as device, trio.open_nursery() as nursery:
        view = DeviceView("1-1", device)
        hub = Hub([view])
        controls = Controls({"1-1": Target(device, device.usb)})
        server = PageServer(hub, controls, TOKEN)
        _, port = await nursery.start(server.serve)
        await nursery.start(controls.run)
        nursery.start_soon(hub.run)
        yield Page(device, view, server, port)
        nursery.cancel_scope.cancel()


class Socket:
    """A page's WebSocket, as a client of another project."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._client = Connection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        self._text = ""

    async def send(self, text: str) -> None:
        await self._stream.send_all(self._client.send(TextMessage(data=text)))

    async def send_binary(self, data: bytes) -> None:
        await self._stream.send_all(self._client.send(BytesMessage(data=data)))

    def reset(self) -> None:
        """Have the connection end with RST, as that of a browser that is killed does."""
        self._stream.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))

    async def event(self) -> Event:
        while not self._events:
            data = await self._stream.receive_some(65536)
            self._client.receive_data(data or None)
            self._events += self._client.events()
        return self._events.pop(0)

    async def message(self) -> dict[str, Any]:
        """The next message of text, as an object."""
        while True:
            event = await self.event()
            if isinstance(event, CloseConnection):
                raise AssertionError(event)
            if isinstance(event, TextMessage):
                self._text += event.data
                if event.message_finished:
                    text, self._text = self._text, ""
                    found: dict[str, Any] = json.loads(text)
                    return found


@asynccontextmanager
async def opened(page: Page, hello: str | None, *, receive_buffer: int = 0) -> AsyncIterator[Socket]:
    """Open a page's WebSocket; `receive_buffer` is the bytes that the system keeps for it, 0 as it likes."""
    plain = trio.socket.socket()
    if receive_buffer:
        plain.setsockopt(SOL_SOCKET, SO_RCVBUF, receive_buffer)
    await plain.connect(("127.0.0.1", page.port))
    stream = trio.SocketStream(plain)
    async with stream:
        head = "".join(f"{key}: {value}\r\n" for key, value in UPGRADE.items())
        await stream.send_all(f"GET /socket HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n{head}\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += await stream.receive_some(1)
        assert got.startswith(b"HTTP/1.1 101 ")
        socket = Socket(stream)
        if hello is not None:
            await socket.send(hello)
        yield socket


def hello(see: str | None = "1-1") -> str:
    return json.dumps({"token": TOKEN, "see": see})
