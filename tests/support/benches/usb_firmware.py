"""Firmware behind a USB bus: what a device does with its endpoints, in a few lines each."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from phy.usb.xud import UsbReset

Firmware = Callable[[UsbBus], Awaitable[None]]


async def idle(_bus: UsbBus) -> None:
    """Take nothing, send nothing."""


async def sink(bus: UsbBus) -> None:
    """Take everything."""
    while True:
        await bus.out_endpoint.get_buffer(65536)


async def loopback(bus: UsbBus) -> None:
    """Send each transfer back."""
    while True:
        data = bytearray()
        short = False
        while not short:
            packets = await bus.out_endpoint.get_buffer(65536)
            data += packets.data
            short = packets.short
        await bus.in_endpoint.set_buffer(bytes(data))


async def source(bus: UsbBus) -> None:
    """Send packets without end."""
    while True:
        await bus.in_endpoint.set_buffer(bytes(65536), last=False)


async def after_each_reset(firmware: Firmware, bus: UsbBus) -> None:
    """Run firmware, from its start after each reset of the bus."""
    while True:
        try:
            await firmware(bus)
            await trio.sleep_forever()
        except UsbReset:
            bus.out_endpoint.acknowledge_reset()
            bus.in_endpoint.acknowledge_reset()


@asynccontextmanager
async def configured(firmware: Firmware, serial: str | None = None) -> AsyncIterator[UsbBus]:
    """Yield the bus of a device that its host has configured."""
    async with trio.open_nursery() as nursery:
        bus = UsbBus(aisrv_descriptors() if serial is None else aisrv_descriptors(serial))
        nursery.start_soon(usb_ep0, bus)
        bus.configure(1)
        bus.out_endpoint.acknowledge_reset()
        bus.in_endpoint.acknowledge_reset()
        nursery.start_soon(firmware, bus)
        yield bus
        nursery.cancel_scope.cancel()
