"""Hosts of a device in device time, on virtual time, that are always ready."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import TypeVar

import trio
from trio.testing import MockClock

from aisrv.addons.predict.profile.end_to_end import Workload
from aisrv.board import Board
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, PACKET_SIZE, Command, Status
from phy.spi.bus import SpiTransfer
from phy.usb.urb import InUrb, OutUrb, TransferStatus

T = TypeVar("T")


def on_virtual_time(main: Callable[[], Awaitable[T]]) -> T:
    return trio.run(main, clock=MockClock(autojump_threshold=0))


@asynccontextmanager
async def timed_device(model: bytes | None = None, board: Board | None = None) -> AsyncIterator[Device]:
    """A device in device time that is configured, has a model and rests."""
    async with open_device(board, runner=inline, device_time=True) as device:
        device.usb.reset()
        device.usb.configure(1)
        if model is not None:
            await device.load_model(model)
        await trio.sleep(1)
        yield device


def ticks(device: Device) -> int:
    return device.node.clock.ticks()


def workload(device: Device, model: bytes = b"") -> Workload:
    """What an inference of the device moves and takes, as predictions have it."""
    engine = device.engines[0].inference
    assert engine.total is not None
    return Workload(
        tuple(len(engine.input(number)) for number in range(engine.input_count)),
        tuple(len(engine.output(number)) for number in range(engine.output_count)),
        len(engine.operator_times),
        Fraction(engine.total.ticks),
        len(model),
    )


class UsbHost:
    """Submits requests at once, and keeps the tick at which each ended, and the data of the last read."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.ends: list[int] = []
        self.data = b""
        self._last = trio.Event()

    def out(self, data: bytes) -> None:
        request = OutUrb(len(data), self._ended, zero_packet=bool(data) and not len(data) % PACKET_SIZE)
        if data:
            request.feed(data)
        assert self._device.usb.submit_out(ENDPOINT_OUT, request)

    async def set(self, command: int, data: bytes, tensor: int = 0) -> None:
        self.out(bytes((command, 0, tensor)))
        self.out(data)

    async def read(self, command: int) -> bytes:
        """Ask, and wait for the answer."""
        self.out(bytes((command, 0, 0)))
        self._last = trio.Event()

        def ended(status: TransferStatus, data: bytes | memoryview) -> None:
            self._ended(status, 0)
            self.data = bytes(data)
            self._last.set()

        assert self._device.usb.submit_in(ENDPOINT_IN, InUrb(1 << 20, ended))
        await self._last.wait()
        return self.data

    async def cycle(self, inputs: bytes) -> None:
        """Set the input, infer, and get the output."""
        await self.set(Command.SET_INPUT_TENSOR, inputs)
        await self.set(Command.START_INFER, b"")
        await self.read(Command.GET_OUTPUT_TENSOR)

    def _ended(self, status: TransferStatus, _actual: int) -> None:
        assert status is TransferStatus.OKAY
        self.ends.append(ticks(self._device))


class SpiHost:
    """Polls the status back to back, at a clock."""

    def __init__(self, device: Device, clock_hz: int | None) -> None:
        assert device.spi is not None
        self._port = device.spi
        self._clock_hz = clock_hz

    async def transfer(self, mosi: bytes) -> bytes:
        return (await self._port.message((SpiTransfer(mosi, clock_hz=self._clock_hz),)))[0]

    async def read(self, command: int, size: int) -> bytes:
        return (await self.transfer(bytes((command, 0, 0)) + bytes(size + -size % 4)))[3:]

    async def poll(self) -> int:
        """Read the status until it is not BUSY; return how often."""
        count = 1
        while (await self.read(Command.GET_STATUS, 4))[0] & Status.BUSY:
            count += 1
        return count

    async def set(self, command: int, data: bytes) -> None:
        """A poll, then blocks with their polls, the last of which is not full."""
        await self.poll()
        for at in range(0, len(data) + 1, 512):
            await self.transfer(bytes((command,)) + data[at : at + 512])
            await self.poll()

    async def infer(self) -> None:
        await self.transfer(bytes((Command.START_INFER,)))
        await self.poll()
