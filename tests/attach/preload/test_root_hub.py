"""The emulated bus as devices leave it and come again: numbers, files, and who opens one late."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.attach.preload import root_hub
from aisrv.attach.preload.root_hub import MOST_DEVICES, TRIES, RootHub
from aisrv.attach.preload.tree import PreloadTree
from aisrv.attach.preload.usbfs_node import UsbfsNode
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from phy.usb.taps.fault_plan import Fault, FaultPlan
from phy.usb.taps.faults import FaultyPort
from tests.support.oracles.process_resources import count_descriptors

DEVICES = "sys/bus/usb/devices"


@dataclass
class Hub:
    """A hub under test, and who has opened its devices."""

    hub: RootHub
    tree: PreloadTree
    buses: list[UsbBus]
    opened: list[UsbfsNode] = field(default_factory=list)

    async def cycle(self, port: int = 1) -> None:
        """Pull the cable of a port and put it in again."""
        self.buses[port - 1].unplug()
        await wait_all_tasks_blocked()
        self.buses[port - 1].plug()
        await wait_all_tasks_blocked()

    async def open(self, number: int) -> trio.SocketStream:
        path = self.tree.directory / f"ioctl/dev/bus/usb/001/{number:03}"
        stream = await trio.open_unix_socket(os.fspath(path))
        await wait_all_tasks_blocked()
        return stream

    def names(self) -> set[str]:
        return {path.name for path in (self.tree.directory / DEVICES).glob("1-[1-9]*")}

    def nodes(self) -> list[str]:
        return sorted(path.name for path in (self.tree.directory / "dev/bus/usb/001").iterdir())


@asynccontextmanager
async def plugged(directory: Path, count: int = 1, fault: str | None = None) -> AsyncIterator[Hub]:
    before = count_descriptors()
    async with trio.open_nursery() as nursery:
        buses = [UsbBus(aisrv_descriptors()) for _ in range(count)]
        for bus in buses:
            nursery.start_soon(usb_ep0, bus)
        plan = FaultPlan(() if fault is None else (Fault.parse(fault),))
        ports = [FaultyPort(bus, plan, nursery) for bus in buses]
        (directory / "ioctl").mkdir()
        tree = PreloadTree(directory)

        async def serve(node: UsbfsNode, stream: trio.SocketStream) -> None:
            file = node.open()
            found.opened.append(node)
            async with stream:
                await stream.receive_some(1)
            file.close()

        found = Hub(RootHub(tree, ports, serve, nursery), tree, buses)
        await found.hub.start()
        yield found
        nursery.cancel_scope.cancel()
    assert count_descriptors() == before


async def test_a_device_is_a_new_one_each_time(tmp_path: Path) -> None:
    async with plugged(tmp_path, 2) as found:
        first = found.hub.nodes[0]
        await found.cycle()
        assert [node.device_number for node in found.hub.nodes] == [4, 3]
        assert (first.unplugged, found.hub.nodes[0].unplugged) == (True, False)
        assert found.nodes() == ["001", "003", "004"]
        assert (tmp_path / DEVICES / "1-1/devnum").read_text() == "4\n"
        assert found.buses[0].configuration == 1


async def test_the_files_of_a_device_go_with_it(tmp_path: Path) -> None:
    async with plugged(tmp_path, 2) as found:
        whole = found.names()
        found.buses[0].unplug()
        await wait_all_tasks_blocked()
        assert found.names() == {"1-2", "1-2:1.0"}
        assert found.nodes() == ["001", "003"]
        assert not (tmp_path / "dev/.node/bus_usb_001_002").is_symlink()
        found.buses[0].plug()
        await wait_all_tasks_blocked()
        assert found.names() == whole


async def test_a_claim_ends_with_the_device(tmp_path: Path) -> None:
    async with plugged(tmp_path) as found:
        node = found.hub.nodes[0]
        file = node.open()
        node.claim(0, file)
        driver = tmp_path / DEVICES / "1-1:1.0/driver"
        assert driver.resolve().name == "usbfs"
        await found.cycle()
        assert not node.claimed
        assert not driver.exists()
        file.close()


async def test_who_opens_a_device_late_has_one_that_is_gone(tmp_path: Path) -> None:
    async with plugged(tmp_path) as found:
        await found.cycle()
        async with await found.open(2):
            assert [(node.device_number, node.unplugged) for node in found.opened] == [(2, True)]
            await found.cycle()
            await found.cycle()
            async with await found.open(2):  # still, as long as somebody has it
                pass
        await found.cycle()
        with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
            await found.open(2)


WHOLE_BUS = pytest.param(MOST_DEVICES, marks=pytest.mark.long("a bus of few devices does every day"))


@pytest.mark.parametrize("most", [9, WHOLE_BUS])
async def test_numbers_are_used_again_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(root_hub, "MOST_DEVICES", most)
    async with plugged(tmp_path, 2) as found:
        for number in range(4, most + 2):
            await found.cycle()
            assert found.hub.nodes[0].device_number == number
        await found.cycle()
        assert [node.device_number for node in found.hub.nodes] == [2, 3]
        await found.cycle()
        assert [node.device_number for node in found.hub.nodes] == [4, 3]


@pytest.mark.parametrize("most", [9, WHOLE_BUS])
async def test_a_full_bus_gives_the_only_number_that_is_left_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(root_hub, "MOST_DEVICES", most)
    async with plugged(tmp_path, most) as found:
        await found.cycle(5)
        assert found.hub.nodes[4].device_number == 6
        assert not found.hub.nodes[4].unplugged
        async with await found.open(6):
            assert found.opened == [found.hub.nodes[4]]


async def test_a_device_that_failed_is_gone_for_good(tmp_path: Path) -> None:
    async with plugged(tmp_path) as found:
        found.buses[0].fail()
        await found.cycle()
        assert found.names() == set()
        assert found.hub.nodes[0].unplugged


async def test_a_device_that_a_fault_takes_off_the_bus_is_there_again_at_once(tmp_path: Path) -> None:
    async with plugged(tmp_path, fault="disconnect:control:2") as found:
        with pytest.raises(TransferFailed):
            await InProcessHost(found.hub.nodes[0].port).get_descriptor(1)
        await wait_all_tasks_blocked()
        assert found.hub.nodes[0].device_number == 3
        assert found.buses[0].configuration == 1


async def test_a_device_that_never_lets_itself_be_configured_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with plugged(tmp_path, fault="disconnect:control:p=1") as found:
        await wait_all_tasks_blocked()
        assert (found.hub.nodes[0].device_number, found.hub.nodes[0].unplugged) == (1 + TRIES, True)
        assert found.names() == set()
    assert caplog.messages[2 * TRIES :] == [
        f"the device in port 1 left the bus {TRIES} times as it was configured: given up"
    ]
