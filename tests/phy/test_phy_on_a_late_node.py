"""Hosts of a node in device time on a late machine: answers take their time from the request."""

from collections.abc import Callable

import pytest
import trio

from aisrv.device.device import Device
from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, Command
from aisrv.protocol.usb_descriptors import SetupPacket
from aisrv.xcore.timed.classes import timeline_of
from aisrv.xcore.timed.core import TimedCore
from aisrv.xcore.timed.timeline import Timeline
from phy.spi.bus import SpiTransfer
from phy.usb.bus import ControlUrb
from phy.usb.urb import InUrb, OutUrb
from tests.support.benches.device_time import timed_device

LATE_TICKS = 5_000_000
Request = ControlUrb | OutUrb | InUrb


def ignore(*_: object) -> None:
    """Take the end of a request."""


def control(device: Device) -> Request:
    urb = ControlUrb(SetupPacket(0x80, 6, 0x0100, 0, 18), b"", ignore)
    device.usb.submit_control(urb)
    return urb


def out(device: Device) -> Request:
    urb = OutUrb(3, ignore)
    device.usb.submit_out(ENDPOINT_OUT, urb)
    return urb


def in_(device: Device) -> Request:
    urb = InUrb(512, ignore)
    device.usb.submit_in(ENDPOINT_IN, urb)
    return urb


def be_late(timeline: Timeline) -> int:
    """Let a turn be due and the machine be busy for 50 ms; return the present tick, not the node's."""
    due = timeline.reference.ticks() + 1
    timeline.at(timeline.clock_at(due), lambda: None)
    while (now := timeline.reference.ticks()) < due + LATE_TICKS:
        pass
    assert timeline.ticks <= due
    return now


@pytest.mark.parametrize("submit", [control, out, in_])
def test_a_request_is_submitted_when_the_host_does_that(submit: Callable[[Device], Request]) -> None:
    async def main() -> tuple[int, int]:
        async with timed_device() as device:
            timeline = timeline_of(device.node.runtime)
            assert timeline is not None
            now = be_late(timeline)
            return submit(device).submitted, timeline.clock_at(now)

    submitted, now = trio.run(main)
    assert submitted >= now


def packet(device: Device) -> Request:
    urb = OutUrb(3, ignore)
    urb.feed(bytes((Command.GET_STATUS, 0, 0)))
    device.usb.submit_out(ENDPOINT_OUT, urb)
    return urb


@pytest.mark.parametrize(("submit", "name"), [(control, "usb_ep0"), (packet, "usb_data")])
def test_a_core_that_a_host_wakes_comes_after_all_that_was_due_before(
    submit: Callable[[Device], Request], name: str
) -> None:
    async def main() -> tuple[int, int]:
        async with timed_device() as device:
            timeline = timeline_of(device.node.runtime)
            assert timeline is not None
            await trio.sleep(0.01)  # the cores wait for a host
            now = be_late(timeline)
            submit(device)
            core = next(core for tile in device.node.tiles for core in tile.cores if core.name == name)
            assert isinstance(core, TimedCore)
            return core.clock, timeline.clock_at(now)

    clock, now = trio.run(main)
    assert clock >= now


def test_a_message_over_spi_takes_its_bytes_from_when_it_is_sent() -> None:
    async def main() -> int:
        async with timed_device() as device:
            timeline = timeline_of(device.node.runtime)
            assert timeline is not None
            assert device.spi is not None
            begin = be_late(timeline)
            message = bytes((Command.GET_STATUS,)) + bytes(6)
            await device.spi.message([SpiTransfer(message, clock_hz=1_000)])
            return timeline.reference.ticks() - begin

    assert trio.run(main) >= 7 * 8 * 100_000
