"""A USB device of the user's firmware in device time: control transfers take theirs, resets cut in."""

import trio

from aisrv.addons.firmware.timed_usb_bus import TimedFirmwareBus
from aisrv.addons.firmware.usb_bus import FirmwareBus
from aisrv.addons.firmware.usb_endpoint import BusState, XudEndpoint
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board
from aisrv.device.timed_parts import TimedParts
from aisrv.protocol.usb_descriptors import SetupPacket
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.timed.device_costs import usb_control_ticks
from aisrv.xcore.timed.runtime import TimedRuntime
from phy.usb.bus import ControlUrb
from phy.usb.urb import TransferStatus
from tests.addons.firmware.test_usb_bus import INS, OUTS, Firmware
from tests.support.benches.device_time import on_virtual_time

NO_DATA = SetupPacket(0x40, 1, 0, 0, 0)


class TimedFirmware(Firmware):
    """Keeps the ticks at which it had each SETUP, and had answered it."""

    def __init__(self, node: Node) -> None:
        assert isinstance(node.runtime, TimedRuntime)
        self.timeline = node.runtime.timeline
        self.taken: list[int] = []
        self.answered: list[int] = []
        super().__init__(TimedFirmwareBus(node.runtime))
        node.tiles[0].start(self.bus.run_xud, node.runtime, OUTS, INS)
        node.tiles[0].start(self.serve)

    async def answer(self, setup: SetupPacket, out: XudEndpoint, into: XudEndpoint) -> None:
        self.taken.append(self.tick())
        await super().answer(setup, out, into)
        self.answered.append(self.tick())

    def tick(self) -> int:
        return self.timeline.tick_of(self.timeline.now())


def test_a_devices_time_is_accounted_to_the_wires_of_its_bus() -> None:
    async def main() -> None:
        async with open_node(classes=TIMED) as node:
            assert isinstance(node.runtime, TimedRuntime)
            factory = TimedParts(Board(), node.runtime)
            bus = factory.make(FirmwareBus, "aisrv.addons.firmware.timed_usb_bus:TimedFirmwareBus")
            assert isinstance(bus, TimedFirmwareBus)
            assert factory.account.wires is bus.wires
            node.stop()

    on_virtual_time(main)


def test_a_status_returns_when_its_host_has_it() -> None:
    async def main() -> None:
        async with open_node(classes=TIMED) as node:
            firmware = TimedFirmware(node)
            await firmware.bus.wait_connected()
            begun = node.clock.ticks()
            await InProcessHost(firmware.bus).control(NO_DATA)
            ended = node.clock.ticks()
            await trio.sleep(1)  # the firmware has its turn after the host
            assert ended - begun >= usb_control_ticks(0)
            assert firmware.taken[-1] < firmware.answered[-1] == ended
            node.stop()

    on_virtual_time(main)


def test_a_reset_while_a_status_is_on_the_wires_is_told_at_once() -> None:
    async def main() -> None:
        async with open_node(classes=TIMED) as node:
            firmware = TimedFirmware(node)
            bus = firmware.bus
            await bus.wait_connected()
            ended: list[TransferStatus] = []
            bus.submit_control(ControlUrb(NO_DATA, b"", lambda status, _: ended.append(status)))
            asked = len(firmware.taken)
            await trio.sleep(float(usb_control_ticks(0)) / 2 * 1e-8)
            assert len(firmware.taken) == asked + 1
            bus.reset()
            assert ended == [TransferStatus.SHUTDOWN]
            await InProcessHost(bus).control(NO_DATA)
            assert firmware.updates == [BusState.RESET] * 2
            node.stop()

    on_virtual_time(main)
