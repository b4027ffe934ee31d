"""A bus whose device is the user's firmware, here in Python: what hosts see of it, and that it leaves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.addons.firmware.usb_bus import FirmwareBus
from aisrv.addons.firmware.usb_control_pipe import NewSetup
from aisrv.addons.firmware.usb_endpoint import BusState, BusUpdate, ControlDirection, XudEndpoint
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.protocol.usb_descriptors import (
    ConfigurationDescriptor,
    Descriptors,
    DeviceDescriptor,
    EndpointDescriptor,
    InterfaceDescriptor,
    SetupPacket,
)
from aisrv.xcore.node import open_node
from phy.usb.urb import InUrb, OutUrb, TransferStatus
from tests.support.peers.usb_host import pattern

DESCRIPTORS = Descriptors(
    DeviceDescriptor(vendor=0x1209, product=7, manufacturer_string=1, product_string=0, serial_string=3),
    ConfigurationDescriptor(
        interfaces=(
            InterfaceDescriptor(
                string=0,
                endpoints=tuple(EndpointDescriptor(address=each) for each in (0x01, 0x81, 0x02, 0x82)),
            ),
        )
    ),
    ("maker", "not asked for", "serial"),
)
OUTS, INS = (True, True, False), (True, True, False)
"""Endpoint 1 is told of resets, endpoint 2 is not."""


class Firmware:
    """The firmware: its core at endpoint 0 answers requests by descriptors."""

    def __init__(self, bus: FirmwareBus) -> None:
        self.bus = bus
        self.descriptors: Descriptors | None = DESCRIPTORS
        self.seen: list[SetupPacket] = []
        self.updates: list[BusState] = []

    async def serve(self) -> None:
        await self.bus.wait_bound()
        out, into = self.bus.bound[0x00], self.bus.bound[0x80]
        assert isinstance(out, ControlDirection)
        while True:
            try:
                await self.answer(SetupPacket.from_bytes(await out.get_setup()), out, into)
            except BusUpdate:
                self.updates.append(out.acknowledge())
                into.acknowledge()
            except NewSetup:
                pass

    async def answer(self, setup: SetupPacket, out: XudEndpoint, into: XudEndpoint) -> None:
        self.seen.append(setup)
        if not setup.to_host:
            await into.transfer(b"")
            return
        found = self.descriptors and self.descriptors.find(setup.value >> 8, setup.value & 0xFF)
        if not found:
            out.set_stall(stalled=True)
            into.set_stall(stalled=True)
            return
        data = found[: setup.length]
        for at in range(0, len(data), 64):
            await into.transfer(data[at : at + 64])
        if len(data) % 64 == 0 and len(data) < setup.length:
            await into.transfer(b"")
        await out.transfer(b"")


@asynccontextmanager
async def running(descriptors: Descriptors | None = DESCRIPTORS) -> AsyncIterator[Firmware]:
    async with open_node() as node:
        bus = FirmwareBus()
        firmware = Firmware(bus)
        firmware.descriptors = descriptors
        node.tiles[0].start(firmware.serve)

        async def xud() -> None:
            while True:
                await bus.run_xud(node.runtime, OUTS, INS)

        node.tiles[0].start(xud)
        with trio.fail_after(10):
            await bus.wait_connected()
        yield firmware
        node.stop()


def configured(value: int) -> SetupPacket:
    return SetupPacket(0x00, 9, value, 0, 0)


# Coming onto the bus.


async def test_before_the_firmware_runs_there_is_no_device() -> None:
    bus = FirmwareBus()
    assert bus.is_unplugged
    bus.plug()
    assert bus.is_unplugged
    with pytest.raises(TransferFailed) as failed:
        await InProcessHost(bus).get_descriptor(1)
    assert failed.value.status is TransferStatus.SHUTDOWN


async def test_its_descriptors_are_those_that_the_firmware_answers_with() -> None:
    async with running() as firmware:
        bus = firmware.bus
        assert not bus.is_unplugged
        assert bytes(bus.descriptors.device) == bytes(DESCRIPTORS.device)
        assert bytes(bus.descriptors.configuration) == bytes(DESCRIPTORS.configuration)
        assert bus.descriptors.strings == ("maker", "", "serial")
        assert firmware.updates == [BusState.RESET]
        asked = [(setup.value, setup.index, setup.length) for setup in firmware.seen]
        assert asked == [
            (0x0100, 0, 18),
            (0x0200, 0, 9),
            (0x0200, 0, 46),
            (0x0301, 0x0409, 255),
            (0x0303, 0x0409, 255),
        ]


async def test_a_device_that_refuses_its_descriptors_stays_off_the_bus(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(None) as firmware:
        assert firmware.bus.is_unplugged
        firmware.bus.plug()
        assert firmware.bus.is_unplugged
    assert (
        "the USB device of the firmware is not on the bus: GET_DESCRIPTOR(DEVICE): the transfer ended with a"
        in (caplog.text)
    )


async def test_a_reset_while_it_is_asked_begins_again() -> None:
    async with open_node() as node:
        bus = FirmwareBus()
        firmware = Firmware(bus)
        node.tiles[0].start(bus.run_xud, node.runtime, OUTS, INS)
        await bus.wait_bound()
        await wait_all_tasks_blocked()
        bus.reset()
        node.tiles[0].start(firmware.serve)
        with trio.fail_after(10):
            await bus.wait_connected()
        assert bus.descriptors.device.product == 7
        node.stop()


@pytest.mark.parametrize("size", [0, 513, 1024])
async def test_packets_that_the_bus_has_not_keep_a_device_away(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    endpoints = (EndpointDescriptor(address=0x01, max_packet_size=size),)
    configuration = ConfigurationDescriptor(interfaces=(InterfaceDescriptor(string=0, endpoints=endpoints),))
    async with running(replace(DESCRIPTORS, configuration=configuration)) as firmware:
        assert firmware.bus.is_unplugged
    assert f"endpoint 0x01 has packets of {size} bytes; 1 to 512 can be" in caplog.text


# Endpoints.


@pytest.mark.parametrize("number", [1, 2])
async def test_each_endpoint_has_its_own_packets(number: int) -> None:
    async with running() as firmware:
        host = InProcessHost(firmware.bus)
        await host.plug_in()
        out, into = firmware.bus.bound[number], firmware.bus.bound[0x80 | number]
        if number == 1:
            out.acknowledge()
            into.acknowledge()
        got: list[bytes] = []

        async def device() -> None:
            got.extend([await out.transfer(b"") for _ in range(3)])
            await into.transfer(pattern(512))
            await into.transfer(b"")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(device)
            await host.write(pattern(513), endpoint=number)
            await host.write(b"", endpoint=number)
            assert await host.read(1024, endpoint=0x80 | number) == pattern(512)
        assert got == [pattern(512), pattern(513)[512:], b""]


async def test_data_that_come_later_reach_their_endpoint() -> None:
    async with running() as firmware:
        bus = firmware.bus
        await InProcessHost(bus).plug_in()
        urb = OutUrb(600, lambda *_: None)
        bus.submit_out(0x02, urb)
        got: list[bytes] = []

        async def device() -> None:
            got.append(await bus.bound[0x02].transfer(b""))
            got.append(await bus.bound[0x02].transfer(b""))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(device)
            for piece in (pattern(600)[:300], pattern(600)[300:]):
                await wait_all_tasks_blocked()
                urb.feed(piece)
                bus.data_arrived(urb)
        assert got == [pattern(600)[:512], pattern(600)[512:]]


async def test_a_urb_of_any_endpoint_can_be_taken_back() -> None:
    async with running() as firmware:
        bus = firmware.bus
        await InProcessHost(bus).plug_in()
        for number in (1, 2):
            out, into = OutUrb(0, lambda *_: None), InUrb(8, lambda *_: None)
            bus.submit_out(number, out)
            bus.submit_in(0x80 | number, into)
            assert [bus.unlink(out), bus.unlink(into), bus.unlink(out), bus.unlink(into)] == [
                True,
                True,
                False,
                False,
            ]


@pytest.mark.parametrize("address", [0x00, 0x03, 0x0F, 0x80, 0x83, 0x101])
async def test_endpoints_that_are_not_there(address: int) -> None:
    async with running() as firmware:
        await InProcessHost(firmware.bus).plug_in()
        assert not firmware.bus.submit_out(address, OutUrb(0, lambda *_: None))
        assert not firmware.bus.submit_in(address, InUrb(0, lambda *_: None))


# Configurations, as a host's system knows them.


async def test_endpoints_are_used_in_a_configuration_only() -> None:
    async with running() as firmware:
        bus, host = firmware.bus, InProcessHost(firmware.bus)
        ended: list[TransferStatus] = []
        urb = InUrb(8, lambda status, _: ended.append(status))
        assert not bus.submit_in(0x81, urb)
        await host.control(configured(1))
        assert bus.submit_in(0x81, urb)
        await host.control(configured(1))
        assert ended == [TransferStatus.SHUTDOWN]
        await host.control(configured(0))
        assert not bus.submit_in(0x81, urb)
        assert BusState.RESET not in firmware.updates[1:]


async def test_a_new_setting_of_an_interface_drops_what_is_on_its_way() -> None:
    async with running() as firmware:
        bus, host = firmware.bus, InProcessHost(firmware.bus)
        await host.plug_in()
        ended: list[TransferStatus] = []
        bus.submit_in(0x81, InUrb(8, lambda status, _: ended.append(status)))
        await host.control(SetupPacket(0x01, 11, 0, 0, 0))
        assert (ended, bus.configuration) == ([TransferStatus.SHUTDOWN], 1)


# Leaving.


async def test_a_kill_is_told_to_all_and_another_core_brings_the_device_back() -> None:
    async with running() as firmware:
        bus = firmware.bus
        host = InProcessHost(bus)
        await host.plug_in()
        before = dict(bus.bound)
        told: list[int] = []

        async def wait(endpoint: XudEndpoint) -> None:
            while True:
                try:
                    await endpoint.transfer(b"")
                except BusUpdate:
                    if endpoint.acknowledge() is BusState.KILL:
                        told.append(endpoint.address)
                        return

        async with trio.open_nursery() as nursery:
            for address in (0x01, 0x02, 0x82):
                nursery.start_soon(wait, before[address])
            await wait_all_tasks_blocked()
            read = InUrb(8, lambda status, _: told.append(-1 if status is TransferStatus.SHUTDOWN else -2))
            bus.submit_in(0x81, read)
            bus.kill()
            assert bus.is_unplugged
        assert sorted(told) == [-1, 0x01, 0x02, 0x82]
        await bus.wait_bound()
        assert bus.bound[0x01] is not before[0x01]


async def test_a_device_that_failed_stays_away() -> None:
    async with running() as firmware:
        firmware.bus.fail()
        firmware.bus.plug()
        assert firmware.bus.is_unplugged
        ended: list[TransferStatus] = []
        firmware.bus.submit_in(0x81, InUrb(0, lambda status, _: ended.append(status)))
        assert ended == [TransferStatus.SHUTDOWN]
