"""Endpoints under XUD's rules: packets, resets that are told or not, transfers in two calls with a select."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.addons.firmware.usb_control_pipe import ControlPipe
from aisrv.addons.firmware.usb_endpoint import (
    BusState,
    BusUpdate,
    ControlDirection,
    DataIn,
    DataOut,
    XudEndpoint,
)
from aisrv.protocol.usb_descriptors import SetupPacket
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.select import select, select_or_default
from aisrv.xcore.traps import Trap, TrapKind
from phy.usb.bus import ControlUrb
from phy.usb.urb import TransferStatus
from phy.usb.xud import CALLS_AT_ONCE, InEndpoint, OutEndpoint
from tests.support.oracles.step_watch import CallWatch
from tests.support.peers.usb_host import SIZES, In, Out, packets_of, pattern, received


class Bench:
    """An endpoint of each direction, and both of their sides."""

    def __init__(self, node: Node, nursery: trio.Nursery, *, notifies: bool) -> None:
        self.nursery = nursery
        self.host_out, self.host_in = OutEndpoint(0x01), InEndpoint(0x81)
        self.out = DataOut(node.runtime, self.host_out, notifies=notifies)
        self.into = DataIn(node.runtime, self.host_in, notifies=notifies)

    def reset(self) -> None:
        for endpoint in (self.out, self.into):
            endpoint.note(BusState.RESET)
        self.host_out.reset()
        self.host_in.reset()


@asynccontextmanager
async def bench(*, notifies: bool = True) -> AsyncIterator[Bench]:
    async with open_node() as node, trio.open_nursery() as nursery:
        yield Bench(node, nursery, notifies=notifies)
        nursery.cancel_scope.cancel()
        node.stop()


# Packets.


@pytest.mark.parametrize("zero_packet", [False, True])
@pytest.mark.parametrize("size", SIZES)
async def test_a_write_comes_packet_by_packet(size: int, zero_packet: bool) -> None:
    expected = packets_of(pattern(size), ended=size % 512 != 0 or not size or zero_packet)
    async with bench() as b:
        write = Out(b.host_out, pattern(size), zero_packet=zero_packet)
        assert [await b.out.transfer(b"") for _ in expected] == expected
        assert write.ended == [(TransferStatus.OKAY, size)]


@pytest.mark.parametrize("packets", [[0], [1], [511], [512], [512, 0], [512, 512, 1], [3, 512]])
@pytest.mark.parametrize("room", [512, 1024, 2048])
async def test_packets_end_requests_by_the_rules_of_the_bus(packets: list[int], room: int) -> None:
    data = [pattern(size) for size in packets]
    async with bench() as b:
        requests = [In(b.host_in, room) for _ in packets]
        for packet in data:
            await b.into.transfer(packet)
        ends = received(data, [room] * len(packets))
        assert [request.ended[0] if request.ended else None for request in requests] == ends


async def test_a_second_transfer_at_once_traps() -> None:
    async with bench() as b:
        b.nursery.start_soon(b.out.transfer, b"")
        await wait_all_tasks_blocked()
        with pytest.raises(
            Trap, match="a transfer on endpoint 0x01 while another one is in progress"
        ) as trap:
            await b.out.transfer(b"")
        assert trap.value.kind is TrapKind.RESOURCE_DEP
        with pytest.raises(Trap):
            b.out.set_ready(b.nursery, b"")


# Resets.


async def outcome(endpoint: XudEndpoint, into: list[bytes | BusState | None], data: bytes) -> None:
    try:
        into.append(await endpoint.transfer(data))
    except BusUpdate:
        into.append(endpoint.update)


@pytest.mark.parametrize("before", [False, True])
async def test_a_reset_is_told_until_it_was_noted(before: bool) -> None:
    async with bench() as b:
        ended: list[bytes | BusState | None] = []
        if before:
            b.reset()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outcome, b.out, ended, b"")
            nursery.start_soon(outcome, b.into, ended, b"data")
            await wait_all_tasks_blocked()
            if not before:
                b.reset()
        assert ended == [BusState.RESET] * 2
        with pytest.raises(BusUpdate):
            await b.out.transfer(b"")
        assert b.out.acknowledge() is BusState.RESET
        Out(b.host_out, b"fresh")
        assert await b.out.transfer(b"") == b"fresh"


@pytest.mark.parametrize("before", [False, True])
async def test_an_endpoint_that_is_not_told_waits_on(before: bool) -> None:
    async with bench(notifies=False) as b:
        ended: list[bytes | BusState | None] = []
        if before:
            b.reset()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outcome, b.out, ended, b"")
            nursery.start_soon(outcome, b.into, ended, b"stale")
            for _ in range(2):
                await wait_all_tasks_blocked()
                b.reset()
            await wait_all_tasks_blocked()
            assert ended == []
            read = In(b.host_in, 512)
            Out(b.host_out, b"next")
        assert read.ended == [(TransferStatus.OKAY, b"stale")]
        assert set(ended) == {b"", b"next"}


async def test_a_reset_takes_the_empty_packet_that_was_to_follow() -> None:
    async with bench(notifies=False) as b:
        Out(b.host_out, pattern(512), zero_packet=True)
        assert await b.out.transfer(b"") == pattern(512)
        b.reset()
        Out(b.host_out, b"next")
        assert await b.out.transfer(b"") == b"next"


# Halts.


async def test_a_halt_keeps_what_the_firmware_has_begun() -> None:
    async with bench() as b:
        b.nursery.start_soon(b.into.transfer, b"later")
        await wait_all_tasks_blocked()
        b.into.set_stall(stalled=True)
        assert b.into.is_stalled
        assert In(b.host_in, 512).ended == [(TransferStatus.STALL, b"")]
        b.into.set_stall(stalled=False)
        assert not b.into.is_stalled
        assert In(b.host_in, 512).ended == [(TransferStatus.OKAY, b"later")]


# Two calls, and a select between them.


async def test_a_select_waits_for_what_was_made_ready() -> None:
    async with bench() as b:
        b.out.set_ready(b.nursery, b"")
        b.into.set_ready(b.nursery, b"to the host")
        assert await select_or_default(b.out, b.into) is None
        Out(b.host_out, b"from it")
        assert await select(b.out, b.into) is b.out
        assert await b.out.finish() == b"from it"
        read = In(b.host_in, 512)
        assert await select(b.out, b.into) is b.into
        assert await b.into.finish() == b""
        assert read.ended == [(TransferStatus.OKAY, b"to the host")]
        assert (b.out.ready, b.into.ready) == (False, False)


async def test_the_end_can_be_waited_for_without_a_select() -> None:
    async with bench() as b:
        b.out.set_ready(b.nursery, b"")
        ended: list[bytes] = []

        async def finish() -> None:
            ended.append(await b.out.finish())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)
            await wait_all_tasks_blocked()
            Out(b.host_out, b"data")
        assert ended == [b"data"]


async def test_an_endpoint_that_is_ready_already_keeps_the_packet_that_has_come() -> None:
    async with bench() as b:
        b.out.set_ready(b.nursery, b"")
        await wait_all_tasks_blocked()
        Out(b.host_out, b"data")
        b.out.set_ready(b.nursery, b"")
        assert await b.out.finish() == b"data"


async def test_a_call_after_a_reset_takes_the_place_of_what_was_ready() -> None:
    async with bench() as b:
        b.out.set_ready(b.nursery, b"")
        await wait_all_tasks_blocked()
        b.reset()
        b.out.acknowledge()
        Out(b.host_out, b"data")
        assert await b.out.transfer(b"") == b"data"


async def test_another_packet_in_place_of_the_first() -> None:
    async with bench() as b:
        b.into.set_ready(b.nursery, b"first")
        await wait_all_tasks_blocked()
        b.into.set_ready(b.nursery, b"second")
        await wait_all_tasks_blocked()
        read = In(b.host_in, 512)
        await b.into.finish()
        assert read.ended == [(TransferStatus.OKAY, b"second")]


async def test_a_reset_is_an_event() -> None:
    async with bench() as b:
        b.out.set_ready(b.nursery, b"")
        await wait_all_tasks_blocked()
        b.reset()
        assert await select(b.out) is b.out
        with pytest.raises(BusUpdate):
            await b.out.finish()
        with pytest.raises(BusUpdate):
            b.out.set_ready(b.nursery, b"")
        assert b.out.ready
        b.out.acknowledge()
        assert not b.out.ready
        b.out.set_ready(b.nursery, b"")
        Out(b.host_out, b"fresh")
        assert await select(b.out) is b.out
        assert await b.out.finish() == b"fresh"


async def test_a_reset_is_an_event_also_where_nothing_is_ready() -> None:
    async with bench() as b:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(select, b.out)
            await wait_all_tasks_blocked()
            b.reset()
        with pytest.raises(BusUpdate):
            await b.out.finish()


# Smaller packets.


@pytest.mark.parametrize("zero_packet", [False, True])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 32, 512, 520])
async def test_a_write_comes_in_packets_of_the_endpoints_size(size: int, zero_packet: bool) -> None:
    ended = size % 16 != 0 or not size or zero_packet
    expected = [pattern(size)[at : at + 16] for at in range(0, size, 16)]
    if ended and size % 16 == 0:
        expected.append(b"")
    async with bench() as b:
        b.host_out.packet_size = 16
        write = Out(b.host_out, pattern(size), zero_packet=zero_packet)
        assert [await b.out.transfer(b"") for _ in expected] == expected
        assert write.ended == [(TransferStatus.OKAY, size)]


@pytest.mark.parametrize(
    ("packets", "room", "got"), [([16, 16, 3], 64, 35), ([16, 0], 64, 16), ([16, 16], 32, 32), ([5], 64, 5)]
)
async def test_a_read_ends_with_a_packet_that_is_not_full(packets: list[int], room: int, got: int) -> None:
    async with bench() as b:
        b.host_in.packet_size = 16
        read = In(b.host_in, room)
        sent = pattern(sum(packets))
        for size in packets:
            assert read.ended == []
            await b.into.transfer(sent[:size])
            sent = sent[size:]
        assert read.ended == [(TransferStatus.OKAY, pattern(got))]


# Firmware that finds all that it asks for there.


async def test_control_transfers_that_have_queued_up_are_served_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = CallWatch(monkeypatch, (ControlPipe, "get_setup"), (ControlPipe, "put_packet"))
    setup = SetupPacket(0xC0, 1, 2, 3, 0xFFFF)
    waiting = [ControlUrb(setup, b"", lambda _status, _data: None) for _ in range(3)]

    async def get_setup() -> ControlUrb:
        return waiting.pop()

    pipe = ControlPipe(get_setup, lambda: bool(waiting), lambda _setup: None)
    async with open_node() as node:
        out = ControlDirection(node.runtime, 0x00, pipe, notifies=True)
        into = ControlDirection(node.runtime, 0x80, pipe, notifies=True)
        with watch.watching():
            while waiting:
                await out.get_setup()
                for _ in range(0xFFFF // 64 + 1):
                    await into.transfer(bytes(64))
                pipe.abandon(setup)
            await trio.lowlevel.checkpoint()
        node.stop()
    assert watch.count == 3 * (1 + 1024)
    assert watch.largest.amount <= 2 * CALLS_AT_ONCE, str(watch.largest)
