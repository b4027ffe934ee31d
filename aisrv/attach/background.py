"""A device in a thread of its own, for programs that are not written with Trio.

The device serves USB/IP on a loopback port, and gives its owner a transport that needs no socket.
"""

import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

import trio

from aisrv.attach.inprocess import InProcessHost
from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.board import Board
from aisrv.device.device import Device, isolated, open_device
from aisrv.inference.engine import Runners
from aisrv.listeners.stream_server import LOOPBACK, StreamServer

T = TypeVar("T")


class BackgroundDevice:
    """A running device. Use as a context manager; `call` runs a function of the device's on its thread."""

    def __init__(self, board: Board | None = None, *, runner: Runners = isolated) -> None:
        """`runner` says where models execute, as with `open_device`."""
        self._board = board
        self._runner = runner
        self._thread = threading.Thread(target=self._main, name="aisrv device", daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop: trio.Event | None = None
        self._device: Device | None = None
        self._port = 0
        self._nursery: trio.Nursery | None = None

    @property
    def device(self) -> Device:
        """The device; only to be touched on its own thread, see `call`."""
        assert self._device is not None, "the device is not running"  # noqa: S101
        return self._device

    @property
    def usbip_address(self) -> str:
        """`HOST:PORT` of its USB/IP server."""
        return f"{LOOPBACK}:{self._port}"

    def serve(self, server: Callable[[Device], StreamServer]) -> str:
        """Start another server of the device until its end; return its address, `HOST:PORT`."""

        async def start(device: Device) -> int:
            assert self._nursery is not None  # noqa: S101 - the device runs
            _, port = await self._nursery.start(server(device).serve, LOOPBACK, 0)
            return int(port)

        return f"{LOOPBACK}:{self.call(start)}"

    def call(self, function: Callable[[Device], Awaitable[T]]) -> T:
        """Run an async function of the device on its thread and return its result."""
        return trio.from_thread.run(function, self.device, trio_token=self._token)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None and self._stop is not None:
            self._token.run_sync_soon(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _main(self) -> None:
        try:
            trio.run(self._run)
        except BaseException as failure:  # handed to the owner
            self._failure = failure
        finally:
            self._ready.set()

    async def _run(self) -> None:
        async with open_device(self._board, runner=self._runner) as device, trio.open_nursery() as nursery:
            usbip = UsbipServer(export_all([device.usb]))
            _, self._port = await nursery.start(usbip.serve, LOOPBACK, 0)
            self._nursery = nursery
            self._device, self._token, self._stop = device, trio.lowlevel.current_trio_token(), trio.Event()
            self._ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()


class BackgroundBus:
    """The bulk endpoints of a background device as blocking calls, without a socket."""

    def __init__(self, background: BackgroundDevice) -> None:
        self._background = background
        self._host = InProcessHost(background.device.usb)
        background.call(lambda _: self._host.plug_in())

    def write(self, data: bytes, timeout: float | None) -> int:
        """Send `data` in one request; raises TransferFailed, or trio.TooSlowError after `timeout` seconds."""
        return self._within(timeout, lambda: self._host.write(data))

    def read(self, length: int, timeout: float | None) -> bytes:
        """Receive up to `length` bytes; `timeout` in seconds or None. Raises as `write` does."""
        return self._within(timeout, lambda: self._host.read(length))

    def clear_halt(self, endpoint: int) -> None:
        """Clear the halt of one endpoint."""
        self._within(None, lambda: self._host.clear_halt(endpoint))

    def is_halted(self, endpoint: int) -> bool:
        """Return whether an endpoint is halted."""
        return self._within(None, lambda: self._host.is_halted(endpoint))

    def reset(self) -> None:
        """Reset the bus and configure the device."""
        self._within(None, self._host.plug_in)

    def _within(self, timeout: float | None, transfer: Callable[[], Awaitable[T]]) -> T:
        async def bounded(_: Device) -> T:
            with trio.fail_after(float("inf") if timeout is None else timeout):
                return await transfer()

        return self._background.call(bounded)
