"""A tap is put in and taken out while hosts go on; each transfer ends by the way by which it began."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT
from aisrv.protocol.usb_descriptors import SetupPacket, aisrv_descriptors
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.taps.fault_plan import Fault, FaultPlan
from phy.usb.taps.faults import FaultyPort
from phy.usb.taps.relay_port import Relay, RelayPort, Urb
from phy.usb.taps.tap_point import TapPoint
from phy.usb.urb import InUrb, OutUrb, TransferStatus

OKAY, SHUTDOWN = TransferStatus.OKAY, TransferStatus.SHUTDOWN


class Seen(RelayPort[Relay]):
    """Counts what goes by it."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.count = 0

    def _relay(self, address: int, urb: Urb) -> Relay:
        self.count += 1
        return Relay(address, urb)


@pytest.fixture
def bus() -> UsbBus:
    bus = UsbBus(aisrv_descriptors("1"))
    bus.configure(1)
    for endpoint in bus.endpoints.values():
        endpoint.acknowledge_reset()
    return bus


@pytest.fixture
def point(bus: UsbBus) -> TapPoint:
    return TapPoint(bus)


def out(ends: list[object], length: int = 3) -> OutUrb:
    return OutUrb(length, lambda status, _: ends.append(status))


def put(point: TapPoint) -> Seen:
    made: list[Seen] = []

    def make(inner: Any) -> Seen:
        made.append(Seen(inner))
        return made[0]

    point.put(make)
    return made[0]


async def test_without_a_tap_the_device_gets_the_urb_of_the_host(bus: UsbBus, point: TapPoint) -> None:
    urb = InUrb(64, lambda *_: None)
    assert point.submit_in(ENDPOINT_IN, urb)
    assert bus.in_endpoint.pending == 1
    assert point.unlink(urb)
    assert bus.in_endpoint.pending == 0
    assert point.descriptors is bus.descriptors


async def test_a_tap_sees_what_begins_while_it_is_in(bus: UsbBus, point: TapPoint) -> None:
    ends: list[object] = []
    for _ in range(2):
        point.submit_in(ENDPOINT_IN, InUrb(64, lambda status, _: ends.append(status)))
    tap = put(point)
    point.submit_in(ENDPOINT_IN, InUrb(64, lambda status, _: ends.append(status)))
    point.take_out()
    point.submit_in(ENDPOINT_IN, InUrb(64, lambda status, _: ends.append(status)))
    assert (tap.count, bus.in_endpoint.pending) == (1, 4)
    for _ in range(4):
        await bus.in_endpoint.set_buffer(b"abc")
    assert ends == [OKAY] * 4


@pytest.mark.parametrize("taps", ["before", "within", "after"])
async def test_data_of_a_transfer_arrives_whenever_the_tap_changes(
    bus: UsbBus, point: TapPoint, taps: str
) -> None:
    ends: list[object] = []
    urb = out(ends)
    if taps != "before":
        put(point)
    point.submit_out(ENDPOINT_OUT, urb)
    if taps == "before":
        put(point)
    if taps == "after":
        point.take_out()
        put(point)
        point.take_out()
    urb.feed(b"abc")
    point.data_arrived(urb)
    assert (await bus.out_endpoint.get_buffer()).data == b"abc"
    assert ends == [OKAY]


@pytest.mark.parametrize("taps", ["before", "within", "after"])
async def test_a_transfer_is_taken_back_whenever_the_tap_changes(
    bus: UsbBus, point: TapPoint, taps: str
) -> None:
    urb = InUrb(64, lambda *_: None)
    if taps != "before":
        put(point)
    point.submit_in(ENDPOINT_IN, urb)
    if taps == "before":
        put(point)
    if taps == "after":
        point.take_out()
        put(point)
    assert point.unlink(urb)
    assert bus.in_endpoint.pending == 0
    assert not point.unlink(urb)


async def test_a_reset_ends_what_went_by_taps_of_before(bus: UsbBus, point: TapPoint) -> None:
    ends: list[TransferStatus] = []

    def submit() -> None:
        point.submit_in(ENDPOINT_IN, InUrb(64, lambda status, _: ends.append(status)))

    submit()
    put(point)
    submit()
    point.take_out()
    point.submit_control(
        ControlUrb(SetupPacket(0x80, 8, 0, 0, 1), b"", lambda status, _: ends.append(status))
    )
    point.reset()
    assert ends == [SHUTDOWN] * 3


async def unplugged(wait: Callable[[], Any], ends: list[str]) -> None:
    await wait()
    ends.append("unplugged")


async def test_who_waits_learns_of_a_tap_that_unplugs_the_device(bus: UsbBus, point: TapPoint) -> None:
    ends: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(unplugged, point.wait_unplugged, ends)
        await wait_all_tasks_blocked()
        plan = FaultPlan([Fault.parse("disconnect:in:1")])
        point.put(partial(FaultyPort, plan=plan, nursery=nursery))
        await wait_all_tasks_blocked()
        assert ends == []
        point.submit_in(ENDPOINT_IN, InUrb(64, lambda *_: None))
        await wait_all_tasks_blocked()
        assert ends == ["unplugged"]
    assert not point.is_unplugged


async def test_who_waits_learns_of_a_pulled_cable(bus: UsbBus, point: TapPoint) -> None:
    ends: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(unplugged, point.wait_unplugged, ends)
        await wait_all_tasks_blocked()
        put(point)
        point.take_out()
        bus.unplug()
    assert (ends, point.is_unplugged) == (["unplugged"], True)
    bus.plug()
    assert await point.wait_plugged()
