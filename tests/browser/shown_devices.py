"""Devices with their page, in a thread of this process: a test sees and changes them without a host."""

import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

import trio

from aisrv import digits
from aisrv.addons.web.device.bench import Bench, open_benches
from aisrv.addons.web.device.controls import Controls, Target
from aisrv.addons.web.device.device_view import DeviceView
from aisrv.addons.web.hub import Hub
from aisrv.addons.web.server import PageServer
from aisrv.attach.inprocess import InProcessHost
from aisrv.attach.usbip.server import BusPlace
from aisrv.board import Board
from aisrv.device.device import Device, open_devices
from aisrv.inference.process.inline import inline

T = TypeVar("T")
TOKEN = "t" * 32


class ShownDevices:
    """Devices of some boards, whose cores halt where they trap, and the server of their page.

    Use as a context manager. `call` runs a function of a device on the devices' thread.
    """

    def __init__(self, *boards: Board, model: bytes | None = None) -> None:
        """`model` is loaded by all engines; None is the digits network."""
        self._boards = boards or (Board(),)
        self._model = digits.model_bytes() if model is None else model
        self._thread = threading.Thread(target=self._main, name="shown devices", daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop = trio.Event()
        self.devices: tuple[Device, ...] = ()
        """Only to be touched on their own thread, see `call`."""
        self.benches: tuple[Bench, ...] = ()
        """The same."""
        self.url = ""

    def call(self, function: Callable[[Device], Awaitable[T]], number: int = 0) -> T:
        """Run an async function of a device on its thread and return its result."""
        return trio.from_thread.run(function, self.devices[number], trio_token=self._token)

    def see(self, function: Callable[[Device], T], number: int = 0) -> T:
        """Return what a function finds at a device."""
        return trio.from_thread.run_sync(function, self.devices[number], trio_token=self._token)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
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
        async with (
            open_devices(self._boards, runner=inline, on_trap="halt") as self.devices,
            open_benches({str(BusPlace.of(n)): each for n, each in enumerate(self.devices)}) as benches,
            trio.open_nursery() as nursery,
        ):
            self.benches = tuple(benches.values())
            by_name = dict(zip(benches, self.devices, strict=True))
            for device in self.devices if self._model else ():
                for number in range(len(device.engines)):
                    await device.load_model(self._model, engine=number)
            hub = Hub([DeviceView(name, device, benches[name]) for name, device in by_name.items()])
            targets = ((name, device, benches[name]) for name, device in by_name.items())
            controls = Controls({name: Target(device, each.port, each) for name, device, each in targets})
            _, port = await nursery.start(PageServer(hub, controls, TOKEN).serve)
            await nursery.start(controls.run)
            nursery.start_soon(hub.run)
            self.url = f"http://127.0.0.1:{port}/#{TOKEN}"
            self._token = trio.lowlevel.current_trio_token()
            self._ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()


async def host_of(device: Device) -> InProcessHost:
    """Return a host that has configured the device."""
    host = InProcessHost(device.usb)
    await host.plug_in()
    return host
