"""What each fault means to the host and to the device, on virtual time."""

import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.protocol.usb_descriptors import SetupPacket, aisrv_descriptors
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.ep0 import usb_ep0
from phy.usb.taps.fault_plan import Fault, FaultPlan
from phy.usb.taps.faults import FaultyPort
from phy.usb.urb import InUrb, OutUrb, TransferStatus
from phy.usb.xud import UsbReset
from tests.support.benches.simulation import simulated
from tests.support.benches.usb_firmware import loopback
from tests.support.peers.usbip_host import Answer, UsbipHost, served, submit_in, submit_out

OKAY, STALL, SHUTDOWN = TransferStatus.OKAY, TransferStatus.STALL, TransferStatus.SHUTDOWN
GET_CONFIGURATION = SetupPacket(0x80, 8, 0, 0, 1)


class FaultyDevice:
    """A device that keeps what it takes, and sends what is in `answers`."""

    def __init__(self, bus: UsbBus, port: FaultyPort) -> None:
        self.bus = bus
        self.port = port
        self.host = InProcessHost(port)
        self.taken: list[bytes] = []
        self.resets = 0
        self.send, self._answers = trio.open_memory_channel[bytes](100)
        self.ends: list[tuple[str, TransferStatus, int | bytes]] = []

    async def take(self) -> None:
        transfer = b""
        while True:
            try:
                packets = await self.bus.out_endpoint.get_buffer(1 << 20)
            except UsbReset:
                self.resets += 1
                transfer = b""
                continue
            transfer += packets.data
            if packets.short:
                self.taken.append(transfer)
                transfer = b""

    async def give(self) -> None:
        async for data in self._answers:
            while True:
                try:
                    await self.bus.in_endpoint.set_buffer(data)
                except UsbReset:
                    continue
                break

    def start_out(self, name: str, data: bytes, *, length: int | None = None) -> OutUrb:
        request = OutUrb(len(data) if length is None else length, lambda *end: self.ends.append((name, *end)))
        if data:
            request.feed(data)
        assert self.port.submit_out(0x01, request)
        return request

    def start_in(self, name: str, length: int = 512) -> InUrb:
        request = InUrb(length, lambda *end: self.ends.append((name, *end)))
        assert self.port.submit_in(0x81, request)
        return request


@asynccontextmanager
async def faulty(*faults: str, seed: int = 0) -> AsyncIterator[FaultyDevice]:
    """A configured device; its configuration was the first control transfer."""
    async with trio.open_nursery() as nursery:
        bus = UsbBus(aisrv_descriptors())
        plan = FaultPlan([Fault.parse(text) for text in faults], seed)
        device = FaultyDevice(bus, FaultyPort(bus, plan, nursery))
        nursery.start_soon(usb_ep0, bus)
        await device.host.plug_in()
        bus.out_endpoint.acknowledge_reset()
        bus.in_endpoint.acknowledge_reset()
        nursery.start_soon(device.take)
        nursery.start_soon(device.give)
        await wait_all_tasks_blocked()
        yield device
        nursery.cancel_scope.cancel()


async def status_of(transfer: Awaitable[object]) -> TransferStatus:
    with pytest.raises(TransferFailed) as caught:
        await transfer
    return caught.value.status


# Stall.


async def test_stall_halts_the_endpoint_until_it_is_cleared() -> None:
    async with faulty("stall:out:2") as device:
        assert await device.host.write(b"one") == 3
        assert await status_of(device.host.write(b"two")) is STALL
        assert await status_of(device.host.write(b"three")) is STALL
        assert await device.host.control(SetupPacket(0x82, 0, 0, 0x01, 2)) == b"\1\0"
        await device.host.clear_halt(0x01)
        assert await device.host.write(b"four") == 4
        await wait_all_tasks_blocked()
        assert device.taken == [b"one", b"four"]


async def test_stall_loses_no_answer_of_the_device() -> None:
    async with faulty("stall:in:1") as device:
        device.send.send_nowait(b"answer")
        assert await status_of(device.host.read(512)) is STALL
        await device.host.clear_halt(0x81)
        assert await device.host.read(512) == b"answer"


async def test_stall_waits_for_the_transfers_before_it() -> None:
    async with faulty("stall:in:2") as device:
        for name in ("first", "second", "third"):
            device.start_in(name)
        await wait_all_tasks_blocked()
        assert device.ends == []
        device.send.send_nowait(b"answer")
        await wait_all_tasks_blocked()
        assert device.ends == [("first", OKAY, b"answer"), ("second", STALL, b""), ("third", STALL, b"")]


async def test_stall_of_a_control_transfer_ends_with_it() -> None:
    async with faulty("stall:control:2") as device:
        assert await status_of(device.host.control(GET_CONFIGURATION)) is STALL
        assert await device.host.control(GET_CONFIGURATION) == b"\1"


# NAK and delay.


@simulated
async def test_nak_keeps_data_from_the_device_for_its_time() -> None:
    async with faulty("nak:out:1:1.5s") as device:
        start = trio.current_time()
        device.start_out("one", b"one")
        device.start_out("two", b"two")
        await trio.sleep(1.499)
        assert (device.taken, device.ends) == ([], [])
        await trio.sleep(0.002)
        assert device.taken == [b"one", b"two"]
        assert device.ends == [("one", OKAY, 3), ("two", OKAY, 3)]
        assert trio.current_time() - start == pytest.approx(1.501)


@simulated
async def test_delay_keeps_the_end_from_the_host_for_its_time() -> None:
    async with faulty("delay:out:1:2s") as device:
        device.start_out("one", b"one")
        await trio.sleep(1.999)
        assert (device.taken, device.ends) == ([b"one"], [])
        await trio.sleep(0.002)
        assert device.ends == [("one", OKAY, 3)]


@simulated
async def test_host_that_gives_up_a_nak_loses_nothing() -> None:
    async with faulty("nak:in:1:5s") as device:
        device.send.send_nowait(b"answer")
        with trio.move_on_after(1) as patience:
            await device.host.read(512)
        assert patience.cancelled_caught
        assert await device.host.read(512) == b"answer"
        assert trio.current_time() < 2


@simulated
async def test_host_that_gives_up_a_delay_loses_the_data() -> None:
    async with faulty("delay:in:1:5s") as device:
        device.send.send_nowait(b"lost")
        device.send.send_nowait(b"next")
        with trio.move_on_after(1):
            await device.host.read(512)
        assert await device.host.read(512) == b"next"


@simulated
async def test_other_endpoints_go_on_during_a_nak() -> None:
    async with faulty("nak:in:1:5s") as device:
        device.start_in("read")
        assert await device.host.write(b"meanwhile") == 9
        assert await device.host.control(GET_CONFIGURATION) == b"\1"
        assert (device.ends, trio.current_time()) == ([], 0)


@simulated
async def test_reset_ends_a_nak() -> None:
    async with faulty("nak:out:1:5s") as device:
        device.start_out("one", b"one")
        device.start_out("two", b"two")
        await trio.sleep(1)
        device.port.reset()
        assert device.ends == [("one", SHUTDOWN, 0), ("two", SHUTDOWN, 0)]
        await device.host.control(SetupPacket(0, 9, 1, 0, 0))
        assert await device.host.write(b"after") == 5
        await trio.sleep(10)
        assert device.taken == [b"after"]


# Drop and truncate.


async def test_dropped_out_transfer_ends_well_and_never_reaches_the_device() -> None:
    async with faulty("drop:out:1") as device:
        assert await device.host.write(b"lost") == 4
        assert await device.host.write(b"kept") == 4
        await wait_all_tasks_blocked()
        assert device.taken == [b"kept"]


async def test_dropped_out_transfer_ends_when_all_its_data_have_come() -> None:
    async with faulty("drop:out:1") as device:
        request = device.start_out("pieces", bytes(600), length=1000)
        assert device.ends == []
        request.feed(bytes(400))
        device.port.data_arrived(request)
        assert device.ends == [("pieces", OKAY, 1000)]


async def test_dropped_in_transfer_ends_well_without_the_data() -> None:
    async with faulty("drop:in:1") as device:
        device.send.send_nowait(b"lost")
        device.send.send_nowait(b"kept")
        assert await device.host.read(512) == b""
        assert await device.host.read(512) == b"kept"


async def test_dropped_control_transfer_ends_well() -> None:
    async with faulty("drop:control:2", "drop:control:3") as device:
        assert await device.host.control(GET_CONFIGURATION) == b""
        await device.host.control(SetupPacket(0, 9, 0, 0, 0))
        assert await device.host.control(GET_CONFIGURATION) == b"\1"


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 511, 513, 1024, 5000])
async def test_truncated_out_transfer_is_shorter_for_both(kept: int) -> None:
    data = bytes(range(256)) * 5 + b"!"
    async with faulty(f"truncate:out:1:{kept}") as device:
        assert await device.host.write(data) == min(kept, len(data))
        await device.host.write(b"next")
        await wait_all_tasks_blocked()
        first = data[:kept]
        assert device.taken == ([first + b"next"] if kept == 1024 else [first, b"next"])


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 511, 512, 513])
async def test_truncated_in_transfer_is_shorter_for_the_host(kept: int) -> None:
    data = bytes(range(250)) * 4
    async with faulty(f"truncate:in:1:{kept}") as device:
        device.send.send_nowait(data)
        device.send.send_nowait(b"next")
        assert await device.host.read(4096) == data[:kept]
        assert await device.host.read(4096) == b"next"


async def test_truncated_pieces_past_the_end_are_lost() -> None:
    async with faulty("truncate:out:1:700") as device:
        request = device.start_out("pieces", bytes(512), length=2000)
        for size in (88, 912, 488):
            if not request.done:
                request.feed(b"\1" * size)
                device.port.data_arrived(request)
                await wait_all_tasks_blocked()
        assert device.ends == [("pieces", OKAY, 700)]
        await wait_all_tasks_blocked()
        assert device.taken == [bytes(512) + b"\1" * 188]


async def test_truncated_control_answer() -> None:
    async with faulty("truncate:control:2:5") as device:
        assert await device.host.get_descriptor(1) == bytes.fromhex("1201000 2ff".replace(" ", ""))


# Disconnect.


async def test_disconnect_ends_all_transfers_and_those_that_follow() -> None:
    async with faulty("disconnect:out:2") as device:
        device.start_in("read")
        device.start_out("one", b"one")
        device.start_out("two", b"two")
        assert device.ends[0] == ("one", OKAY, 3)
        assert sorted(device.ends[1:]) == [("read", SHUTDOWN, b""), ("two", SHUTDOWN, 0)]
        assert await status_of(device.host.write(b"three")) is SHUTDOWN
        assert await status_of(device.host.control(GET_CONFIGURATION)) is SHUTDOWN
        assert device.bus.configuration == 0
        await wait_all_tasks_blocked()
        assert device.taken == [b"one"]


async def test_disconnected_device_comes_back_with_a_reset() -> None:
    async with faulty("disconnect:out:1") as device:
        assert await status_of(device.host.write(b"one")) is SHUTDOWN
        await device.port.wait_unplugged()
        await device.host.plug_in()
        assert await device.host.write(b"two") == 3
        with trio.move_on_after(0.01) as patience:
            await device.port.wait_unplugged()
        assert patience.cancelled_caught


async def test_disconnect_ends_the_usbip_connection_and_the_device_is_imported_again() -> None:
    async with trio.open_nursery() as nursery, served(loopback) as device:
        (exported,) = device.exports
        bus = exported.bus
        exported.bus = FaultyPort(bus, FaultPlan([Fault.parse("disconnect:in:2")]), nursery)
        host = await device.attach()
        await host.works()
        await host.send(submit_in(1, 512))
        left = await host.ended()
        assert left[:4] == bytes.fromhex("00000003")
        assert left[20:24] == (-108).to_bytes(4, "big", signed=True)
        assert exported.imported_by is None
        again = await device.attach()
        await again.works()
        exported.bus = bus


async def test_disconnect_leaves_other_devices_alone() -> None:
    async with trio.open_nursery() as nursery, served(loopback, loopback) as device:
        first = device.exports[0]
        bus = first.bus
        first.bus = FaultyPort(bus, FaultPlan([Fault.parse("disconnect:out:1")]), nursery)
        one, two = await device.attach("1-1"), await device.attach("1-2")
        await one.send(submit_out(1, b"bye"))
        await one.ended()
        assert await two.ask(submit_out(1, b"still here", devid=0x10002)) == Answer(3, 1, 0, 10)
        first.bus = bus
        UsbipHost.close_all()


# All of them.


async def test_every_fault_that_fires_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "phy.usb.taps.faults"):
        async with faulty("drop:out:2") as device:
            for _ in range(3):
                await device.host.write(b"data")
    assert caplog.messages == ["device: transfer 2 of endpoint 0x01: drop:out:2"]


async def test_transfer_that_waits_behind_a_fault_can_be_taken_back() -> None:
    async with faulty("nak:out:1:60s") as device:
        first, second = device.start_out("one", b"one"), device.start_out("two", b"two")
        assert device.port.unlink(second)
        assert not device.port.unlink(second)
        assert device.port.unlink(first)
        assert await device.host.write(b"three") == 5
        await wait_all_tasks_blocked()
        assert (device.taken, device.ends) == ([b"three"], [])


async def test_transfer_taken_back_counts_what_the_device_took() -> None:
    async with faulty("drop:out:p=0") as device:
        request = device.start_out("pieces", bytes(700), length=2000)
        assert device.port.unlink(request)
        assert request.taken == 512


async def test_very_many_that_wait_behind_a_fault_end_one_after_the_other() -> None:
    async with faulty("nak:out:1:60s", "drop:out:p=1") as device:
        first = device.start_out("first", b"x")
        for number in range(5000):
            device.start_out(str(number), b"x")
        assert device.port.unlink(first)
        assert [name for name, _, _ in device.ends] == [str(number) for number in range(5000)]


async def test_missing_endpoint_is_refused() -> None:
    async with faulty("drop:out:5") as device:
        assert not device.port.submit_out(0x02, OutUrb(0, lambda *_: None))
        assert not device.port.submit_in(0x82, InUrb(0, lambda *_: None))


async def test_random_faults_repeat_with_their_seed() -> None:
    async def run() -> list[bytes]:
        async with faulty("drop:out:p=0.5", "truncate:out:p=0.3:1", seed=3) as device:
            for number in range(50):
                await device.host.write(b"%03d" % number)
            await wait_all_tasks_blocked()
            return device.taken

    taken = await run()
    assert taken == await run()
    assert b"0" in taken
    assert 10 < len(taken) < 40


async def test_control_request_is_answered_once() -> None:
    ends: list[TransferStatus] = []
    async with faulty("disconnect:in:1") as device:
        device.port.submit_control(ControlUrb(GET_CONFIGURATION, b"", lambda status, _: ends.append(status)))
        device.start_in("read")
        await wait_all_tasks_blocked()
    assert ends == [SHUTDOWN]
