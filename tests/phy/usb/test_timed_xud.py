"""Endpoints in device time: when requests end, and what resets leave.

Acceptance 4 of "Device time and traces".
"""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from itertools import pairwise

import pytest
import trio

from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT
from aisrv.xcore.core import current_core
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.timed.core import TimedCore
from aisrv.xcore.timed.device_costs import USB_TURN_TICKS, usb_transaction_ticks
from aisrv.xcore.timed.runtime import TimedRuntime
from phy.usb.timed_xud import TimedInEndpoint, TimedOutEndpoint, TimedWires
from phy.usb.urb import InUrb, OutUrb, TransferStatus
from phy.usb.xud import Packets, UsbReset
from tests.support.benches.device_time import on_virtual_time

TURN = USB_TURN_TICKS


class Bench:
    """A node with both endpoints, and the ticks at which requests of the host ended."""

    def __init__(self, node: Node) -> None:
        assert isinstance(node.runtime, TimedRuntime)
        wires = TimedWires(node.runtime)
        self.node = node
        self.out_endpoint = TimedOutEndpoint(ENDPOINT_OUT, wires)
        self.in_endpoint = TimedInEndpoint(ENDPOINT_IN, wires)
        self.ends: list[tuple[int, TransferStatus]] = []
        self.taken: list[tuple[int, int, bool]] = []
        """Tick, bytes and whether it ended the transfer, of each packet that the firmware has."""
        self.data: list[bytes] = []

    def write(self, data: bytes, *, zero_packet: bool = False) -> OutUrb:
        request = OutUrb(len(data), lambda status, _taken: self._ended(status), zero_packet=zero_packet)
        if data:
            request.feed(data)
        self.out_endpoint.submit(request)
        return request

    def read(self, length: int) -> InUrb:
        def ended(status: TransferStatus, data: bytes | memoryview) -> None:
            self._ended(status)
            self.data.append(bytes(data))

        request = InUrb(length, ended)
        self.in_endpoint.submit(request)
        return request

    async def sink(self) -> None:
        """Take packets for ever, without any time between them."""
        while True:
            packets: Packets = await self.out_endpoint.get_buffer()
            self.taken.append((self.node.clock.ticks(), len(packets.data), packets.short))

    def _ended(self, status: TransferStatus) -> None:
        self.ends.append((self.node.clock.ticks(), status))


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    async with open_node(classes=TIMED) as node:
        yield Bench(node)
        node.stop()


def test_a_transfer_of_whole_packets_has_an_empty_one() -> None:
    async def main() -> Bench:
        async with bench() as each:
            each.node.tiles[0].start(each.sink, name="sink")
            each.write(bytes(1024), zero_packet=True)
            await trio.sleep(1)
        return each

    done = on_virtual_time(main)
    packet, empty = usb_transaction_ticks(512) + TURN, usb_transaction_ticks(0) + TURN
    assert done.taken == [(packet, 512, False), (2 * packet, 512, False), (2 * packet + empty, 0, True)]
    assert done.ends == [(2 * packet + empty - TURN, TransferStatus.OKAY)]


def test_a_request_ends_with_its_own_last_packet() -> None:
    async def main() -> Bench:
        async with bench() as each:
            each.node.tiles[0].start(each.sink, name="sink")
            each.write(bytes(512))
            each.write(b"abc")
            await trio.sleep(1)
        return each

    packet = usb_transaction_ticks(512)
    ends = [packet, packet + TURN + usb_transaction_ticks(3)]
    assert on_virtual_time(main).ends == [(tick, TransferStatus.OKAY) for tick in ends]


def test_a_host_that_comes_later_waits_for_its_transaction_alone() -> None:
    async def main() -> Bench:
        async with bench() as each:
            each.node.tiles[0].start(each.sink, name="sink")
            await trio.sleep(0.001)
            each.write(b"abc")
            await trio.sleep(1)
        return each

    assert on_virtual_time(main).ends == [(100_000 + 114, TransferStatus.OKAY)]


def test_without_turns_the_bus_carries_no_more_than_table_5_10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phy.usb.timed_xud.USB_TURN_TICKS", 0)

    async def main() -> Bench:
        async with bench() as each:
            each.node.tiles[0].start(each.sink, name="sink")
            for _ in range(1100):
                each.write(bytes(512))
            await trio.sleep(0.0100001)
        return each

    done = on_virtual_time(main)
    ticks = [tick for tick, _, _ in done.taken]
    assert ticks[:3] == [962, 1924, 2886]
    assert sum(size for _, size, _ in done.taken) <= Fraction(53_248_000, 100)


def test_with_turns_and_a_copy_to_another_tile_a_packet_takes_all_three() -> None:
    """962 ticks on the bus, 830 of a turn, and 128 words of four slots on a route that stays open."""
    count = 9

    async def main() -> list[int]:
        had: list[int] = []
        async with bench() as each:
            near, far = each.node.channel(*each.node.tiles)

            async def copy() -> None:
                while True:
                    packets = await each.out_endpoint.get_buffer()
                    await near.outwords(packets.data)
                    core = current_core()
                    assert isinstance(core, TimedCore)
                    had.append(core.clock)

            async def take() -> None:
                for _ in range(count):
                    await far.inwords(128)

            each.node.tiles[0].start(copy, name="copy")
            each.node.tiles[1].start(take, name="take")
            for _ in range(count):
                each.write(bytes(512))
            await trio.sleep(1)
        return had

    clocks = on_virtual_time(main)
    packet = Fraction(2_218) + Fraction(2, 3)
    assert [Fraction(b - a, 6) for a, b in pairwise(clocks)] == [packet] * (count - 1)


def test_an_answer_goes_packet_by_packet() -> None:
    async def main() -> Bench:
        async with bench() as each:

            async def firmware() -> None:
                await each.in_endpoint.set_buffer(bytes(1024) + b"abc")

            each.node.tiles[0].start(firmware, name="firmware")
            each.read(4096)
            await trio.sleep(1)
        return each

    done = on_virtual_time(main)
    assert done.ends == [(2 * (962 + TURN) + TURN + 114, TransferStatus.OKAY)]
    assert done.data == [bytes(1024) + b"abc"]


@pytest.mark.parametrize(("room", "count"), [(1024, 1), (512, 2)])
def test_an_answer_of_whole_packets_ends_with_an_empty_one(room: int, count: int) -> None:
    async def main() -> Bench:
        async with bench() as each:

            async def firmware() -> None:
                await each.in_endpoint.set_buffer(bytes(512))

            each.node.tiles[0].start(firmware, name="firmware")
            for _ in range(count):
                each.read(room)
            await trio.sleep(1)
        return each

    done = on_virtual_time(main)
    assert done.ends[-1] == (962 + TURN + TURN + usb_transaction_ticks(0), TransferStatus.OKAY)
    assert b"".join(done.data) == bytes(512)
    assert len(done.ends) == count


@pytest.mark.parametrize(("late", "taken"), [(-1, []), (0, [b"exit"]), (TURN - 1, [b"exit"])])
def test_a_packet_that_has_crossed_is_not_lost_in_a_reset(late: int, taken: list[bytes]) -> None:
    async def main() -> tuple[list[bytes], list[str]]:
        had: list[bytes] = []
        seen: list[str] = []
        async with bench() as each:

            async def firmware() -> None:
                while True:
                    try:
                        had.append(bytes((await each.out_endpoint.get_buffer()).data))
                    except UsbReset as reset:
                        seen.append(str(reset))

            each.node.tiles[0].start(firmware, name="firmware")
            each.write(b"exit")
            await trio.sleep((usb_transaction_ticks(4) + late) * 1e-8)
            each.out_endpoint.reset()
            await trio.sleep(1)
        return had, seen

    assert on_virtual_time(main) == (taken, ["endpoint 0x01 was reset"])


def test_a_reset_ends_a_request_on_the_wires() -> None:
    async def main() -> tuple[Bench, list[str]]:
        seen: list[str] = []
        async with bench() as each:

            async def firmware() -> None:
                try:
                    await each.out_endpoint.get_buffer()
                except UsbReset as reset:
                    seen.append(str(reset))

            each.node.tiles[0].start(firmware, name="firmware")
            each.write(b"abc")
            await trio.sleep(50e-8)
            each.out_endpoint.reset()
            await trio.sleep(1)
        return each, seen

    done, seen = on_virtual_time(main)
    assert done.ends == [(50, TransferStatus.SHUTDOWN)]
    assert seen == ["endpoint 0x01 was reset"]


def test_a_request_on_the_wires_cannot_be_taken_back() -> None:
    async def main() -> tuple[Bench, bool]:
        async with bench() as each:
            each.node.tiles[0].start(each.sink, name="sink")
            request = each.write(b"abc")
            await trio.sleep(50e-8)
            taken_back = each.out_endpoint.unlink(request)
            await trio.sleep(1)
        return each, taken_back

    done, taken_back = on_virtual_time(main)
    assert not taken_back
    assert done.ends == [(114, TransferStatus.OKAY)]


def test_both_endpoints_share_the_wires() -> None:
    async def main() -> Bench:
        async with bench() as each:

            async def answer() -> None:
                await each.in_endpoint.set_buffer(b"abc")

            each.node.tiles[0].start(answer, name="answer")
            each.read(512)
            await trio.sleep(TURN * 1e-8)
            each.node.tiles[0].start(each.sink, name="sink")
            each.write(bytes(512))
            await trio.sleep(1)
        return each

    first, second = on_virtual_time(main).ends
    assert sorted((first[0], second[0])) == [TURN + 114, TURN + 114 + 962]
    assert math.isfinite(first[0])


def test_a_task_that_is_late_takes_no_request_before_it_was_submitted() -> None:
    async def main() -> Bench:
        async with bench() as each:
            core = each.node.tiles[0].start(each.sink, name="sink")
            await trio.sleep(0.001)
            each.write(b"abc")
            assert isinstance(core, TimedCore)
            core.clock = 0  # as if the machine had been late
            await trio.sleep(1)
        return each

    assert on_virtual_time(main).ends == [(100_000 + 114, TransferStatus.OKAY)]


def test_a_request_without_room_ends_by_itself_and_the_next_gets_the_packet() -> None:
    async def main() -> Bench:
        async with bench() as each:

            async def answer() -> None:
                await each.in_endpoint.set_buffer(b"abc")

            each.read(2)
            each.node.tiles[0].start(answer, name="answer")
            await trio.sleep(0.001)
            assert [status for _, status in each.ends] == [TransferStatus.OVERFLOW]
            each.read(3)
            await trio.sleep(1)
        return each

    done = on_virtual_time(main)
    assert [status for _, status in done.ends] == [TransferStatus.OVERFLOW, TransferStatus.OKAY]
    assert done.data == [b"", b"abc"]
