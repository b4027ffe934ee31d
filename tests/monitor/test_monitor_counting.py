"""Counting ports: they count exactly, and neither hosts nor devices notice them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board import Board, UsbProtocol
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.monitor.command_stream import aisrv_framing, ioserver_framing
from aisrv.monitor.counting import CountedSpiPort, CountedUsbPort
from aisrv.monitor.values import Traffic
from aisrv.protocol.usb_descriptors import SetupPacket, StandardRequest, aisrv_descriptors
from phy.spi.bus import LARGEST_MESSAGE, SpiBus, SpiError, SpiTransfer
from phy.usb.bus import UsbBus
from phy.usb.taps.fault_plan import Fault, FaultPlan
from phy.usb.taps.faults import FaultyPort
from phy.usb.urb import OutUrb, TransferStatus
from tests.support.benches.spi_echo import inverted, inverting_bus
from tests.support.benches.usb_firmware import Firmware, configured, idle, loopback, sink
from tests.support.peers.usb_host import SIZES, pattern

GET, SET = b"\x05\0\0", b"\x83\0\0"


@asynccontextmanager
async def counted(firmware: Firmware) -> AsyncIterator[CountedUsbPort]:
    """A configured device with this firmware, behind a counting port."""
    async with configured(firmware) as bus:
        yield CountedUsbPort(bus, aisrv_framing)


class Out:
    """An OUT request, submitted, and how it ended; a second end would be a second entry."""

    def __init__(self, port: CountedUsbPort, length: int, *pieces: bytes, address: int = 1) -> None:
        self.ended: list[tuple[TransferStatus, int]] = []
        self._port = port
        self.request = OutUrb(length, lambda status, taken: self.ended.append((status, taken)))
        for piece in pieces:
            self.request.feed(piece)
        self.accepted = port.submit_out(address, self.request)

    def feed(self, piece: bytes) -> None:
        self.request.feed(piece)
        self._port.data_arrived(self.request)


# USB.


@pytest.mark.parametrize("size", SIZES)
async def test_transfers_arrive_unchanged_and_are_counted(size: int) -> None:
    async with counted(loopback) as port:
        host = InProcessHost(port)
        assert await host.write(pattern(size), zero_packet=True) == size
        assert await host.read(2048) == pattern(size)
        assert port.traffic == Traffic(size, size, 1 if size % 512 in (1, 3) else 0)


async def test_data_that_come_in_pieces_arrive_unchanged() -> None:
    async with counted(loopback) as port:
        data = pattern(1030)
        out = Out(port, 1030, data[:100])
        for piece in (data[100:600], data[600:1029], data[1029:]):
            assert out.ended == []
            out.feed(piece)
            await wait_all_tasks_blocked()
        assert out.ended == [(TransferStatus.OKAY, 1030)]
        assert await InProcessHost(port).read(2048) == data
        assert port.traffic == Traffic(1030, 1030, 0)


async def test_command_packet_that_comes_byte_by_byte_counts() -> None:
    async with counted(sink) as port:
        out = Out(port, 515, bytes(512))
        for byte in SET:
            out.feed(bytes((byte,)))
        await wait_all_tasks_blocked()
        assert port.traffic == Traffic(515, 0, 1)
        await InProcessHost(port).write(GET)  # data of the SET before
        assert port.traffic == Traffic(518, 0, 1)


@pytest.mark.parametrize(("firmware", "taken"), [(sink, 512), (idle, 0)])
async def test_request_taken_back_counts_what_the_device_had_of_it(firmware: Firmware, taken: int) -> None:
    async with counted(firmware) as port:
        out = Out(port, 2000, pattern(600))
        await wait_all_tasks_blocked()
        assert port.unlink(out.request)
        assert (out.request.taken, out.ended) == (taken, [])
        assert port.traffic == Traffic(taken, 0, 0)
        assert not port.unlink(out.request)


async def test_request_that_has_ended_cannot_be_taken_back() -> None:
    async with counted(sink) as port:
        out = Out(port, 3, GET)
        await wait_all_tasks_blocked()
        assert out.ended == [(TransferStatus.OKAY, 3)]
        assert not port.unlink(out.request)
        assert port.traffic == Traffic(3, 0, 1)


async def test_requests_to_an_endpoint_that_is_not_there_are_refused() -> None:
    async with counted(sink) as port:
        assert not Out(port, 3, GET, address=2).accepted
        with pytest.raises(TransferFailed):
            await InProcessHost(port).read(3, endpoint=0x82)
        assert port.traffic == Traffic()


async def test_stalled_requests_count_nothing() -> None:
    async with counted(idle) as port:
        host = InProcessHost(port)
        for address in (0x01, 0x81):
            await host.control(SetupPacket(2, StandardRequest.SET_FEATURE, 0, address, 0))
        for transfer in (host.write(GET), host.read(512)):
            with pytest.raises(TransferFailed) as failed:
                await transfer
            assert failed.value.status is TransferStatus.STALL
        assert port.traffic == Traffic()


async def test_babble_counts_the_packets_before_it() -> None:
    async with counted(loopback) as port:
        host = InProcessHost(port)
        await host.write(bytes(1000))
        with pytest.raises(TransferFailed) as failed:
            await host.read(600)
        assert (failed.value.status, failed.value.transferred) == (TransferStatus.OVERFLOW, bytes(512))
        assert port.traffic == Traffic(1000, 512, 0)


async def test_reset_reaches_the_device() -> None:
    async with counted(idle) as port:
        waiting = Out(port, 3, SET)
        port.reset()
        assert waiting.ended == [(TransferStatus.SHUTDOWN, 0)]
        assert not Out(port, 3, GET).accepted


@pytest.mark.parametrize("again", ["reset", "configuration"])
async def test_command_after_a_reset_counts_where_data_were_due(again: str) -> None:
    async with open_device(runner=inline) as device:
        port = CountedUsbPort(device.usb, aisrv_framing)
        host = InProcessHost(port)
        await host.plug_in()
        await host.write(SET)
        if again == "reset":
            await host.plug_in()
        else:
            await host.control(SetupPacket(0, StandardRequest.SET_CONFIGURATION, 1, 0, 0))
        await host.write(b"\x10\0\0")
        assert await host.read(512) == bytes.fromhex("78563412")
        assert port.traffic == Traffic(6, 4, 2)


async def test_control_requests_pass_and_count_nothing() -> None:
    async with counted(idle) as port:
        host = InProcessHost(port)
        assert (await host.get_descriptor(1)).hex() == "12010002ffffff40b1205ea1001001020001"
        with pytest.raises(TransferFailed) as failed:
            await host.get_descriptor(9)
        assert failed.value.status is TransferStatus.STALL
        assert port.traffic == Traffic()
        assert port.descriptors == aisrv_descriptors()


async def test_unplugging_is_seen() -> None:
    async with trio.open_nursery() as nursery:
        bus = UsbBus(aisrv_descriptors())
        bus.configure(1)
        plan = FaultPlan((Fault.parse("disconnect:out:1"),), 0)
        port = CountedUsbPort(FaultyPort(bus, plan, nursery), aisrv_framing)
        assert Out(port, 3, GET).ended == [(TransferStatus.SHUTDOWN, 0)]
        await port.wait_unplugged()
        assert port.traffic == Traffic()


async def test_inference_over_usb_counts_its_commands() -> None:
    image = digits.test_images()[0].image
    async with open_device(runner=inline) as device:
        await device.load_model(digits.model_bytes())
        port = CountedUsbPort(device.usb, aisrv_framing)
        host = InProcessHost(port)
        await host.plug_in()
        for data in (SET, image, b"\x84\0\0", b"", GET):
            await host.write(data)
        await host.read(512)
        assert port.traffic == Traffic(3 * 3 + 64, 10, 3)


async def test_inference_over_ioserver_counts_its_commands() -> None:
    image = digits.test_images()[0].image
    async with open_device(Board(protocol=UsbProtocol.IOSERVER), runner=inline) as device:
        await device.load_model(digits.model_bytes())
        port = CountedUsbPort(device.usb, ioserver_framing)
        host = InProcessHost(port)
        await host.plug_in()
        for data in (b"\x03\0\0", image, b"\x01\0\0", b"", b"\x02\0\0"):
            await host.write(data)
        await host.read(512)
        assert port.traffic == Traffic(3 * 3 + 64, 12, 3)


# SPI.


@asynccontextmanager
async def counted_slave() -> AsyncIterator[CountedSpiPort]:
    """A slave that answers every bit inverted, behind a counting port."""
    async with inverting_bus() as bus:
        yield CountedSpiPort(bus)


@pytest.mark.parametrize("size", SIZES)
async def test_messages_are_clocked_unchanged_and_counted(size: int) -> None:
    data = b"\x83" * size
    async with counted_slave() as port:
        assert await port.message((SpiTransfer(data), SpiTransfer(b"\x01\x02"))) == [
            inverted(data),
            b"\xfe\xfd",
        ]
        assert port.traffic == Traffic(size + 2, size + 2, 2 if size else 1)


@pytest.mark.parametrize("code", [0x00, 0x55, 0xAA, 0xAB])
async def test_bytes_that_have_no_effect_are_no_command(code: int) -> None:
    async with counted_slave() as port:
        await port.message((SpiTransfer(bytes((code, 0x84))),))
        assert port.traffic == Traffic(2, 2, 0)


async def test_transaction_of_several_messages_is_one_command() -> None:
    async with counted_slave() as port:
        await port.message((SpiTransfer(b"", deselect=False),))
        await port.message((SpiTransfer(b"\x83", deselect=False),))
        await port.message((SpiTransfer(b"\x84", deselect=False), SpiTransfer(b"\x84")))
        assert port.traffic == Traffic(3, 3, 1)
        await port.message((SpiTransfer(b"\x84"),))
        assert port.traffic == Traffic(4, 4, 2)


async def test_release_ends_a_transaction() -> None:
    async with counted_slave() as port:
        await port.message((SpiTransfer(b"\x01", deselect=False),))
        await port.release()
        await port.message((SpiTransfer(b"\x01"),))
        assert port.traffic == Traffic(2, 2, 2)


async def test_message_that_is_too_large_is_refused_and_counts_nothing() -> None:
    async with counted_slave() as port:
        with pytest.raises(SpiError):
            await port.message((SpiTransfer(bytes(LARGEST_MESSAGE + 1)),))
        assert port.traffic == Traffic()
        assert await port.message((SpiTransfer(b"\x01"),)) == [b"\xfe"]


async def test_message_that_was_given_up_counts_nothing() -> None:
    port = CountedSpiPort(SpiBus())  # no slave answers
    async with trio.open_nursery() as nursery:
        nursery.start_soon(port.message, (SpiTransfer(b"\x01"),))
        nursery.start_soon(port.message, (SpiTransfer(b"\x01"),))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert port.traffic == Traffic()


async def test_masters_take_turns() -> None:
    async with counted_slave() as port, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(port.message, (SpiTransfer(b"\x01", deselect=False), SpiTransfer(b"\x01\x01")))
    assert port.traffic == Traffic(60, 60, 20)
