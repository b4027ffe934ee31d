"""A host that floods a device: a step takes few of its messages, whatever their kind, and leaves nothing.

The kinds are the product's: the messages of USB/IP, at all endpoints, and the requests that endpoint 0 knows.
Messages are counted, not time: 2,048 ends of URBs take some 3 ms, 64 messages a half.
"""

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip.urbs import PENDING_LIMIT, PendingUrbs
from aisrv.listeners.turns import MESSAGES_A_TURN
from aisrv.protocol.usb_descriptors import SetupPacket, aisrv_descriptors
from aisrv.protocol.usbip import Direction, MessageCode
from phy.usb import ep0
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.urb import MOST_PENDING, InUrb, OutUrb
from phy.usb.xud import CALLS_AT_ONCE, InEndpoint, OutEndpoint
from tests.support.benches.usb_firmware import idle, sink
from tests.support.oracles.step_watch import CallWatch
from tests.support.peers.usb_host import In, Out
from tests.support.peers.usbip_host import (
    ENOMEM,
    SET_CONFIGURATION,
    UsbipHost,
    control_in,
    control_out,
    served,
    submit,
    unlink,
)

Message = Callable[[int], bytes]
"""A message with a sequence number."""
MESSAGES: Final = 1000


def control(request_type: int, request: int) -> Message:
    setup = bytes(
        SetupPacket(request_type, request, 0x0100 if request == 6 else 0, 0, 18 * (request_type >> 7))
    )
    return lambda number: (control_in if request_type & 0x80 else control_out)(number, setup)


def submitted(direction: int, endpoint: int, length: int, devid: int = 0x10001) -> Message:
    data = b"" if direction else bytes(length)
    return lambda number: submit(number, direction, endpoint, length, data=data, devid=devid)


SUBMITS: Final[dict[str, Message]] = {
    **{f"request {kind:#04x} {request}": control(kind, request) for kind, request in ep0.HANDLERS},
    "unknown request": control(0xC0, 0x77),
    **{
        f"{direction.name} {endpoint} of {length} bytes": submitted(direction, endpoint, length)
        for direction in Direction
        for endpoint in (0, 1, 2, 16)
        for length in (0, 1, 3, 512)
    },
    "another device": submitted(Direction.IN, 1, 1, devid=7),
    "the same number": lambda _: submit(7, 1, 1, 1),
}
KINDS: Final[dict[MessageCode, dict[str, Message]]] = {
    MessageCode.CMD_SUBMIT: SUBMITS,
    MessageCode.CMD_UNLINK: {
        "of nothing": lambda number: unlink(number, 5),
        "of one that waits": lambda number: submit(2 * number, 1, 1, 64) + unlink(2 * number + 1, 2 * number),
    },
}
FLOODS: Final = {f"{code.name} {name}": kind for code, kinds in KINDS.items() for name, kind in kinds.items()}


def test_each_message_of_a_host_has_its_kinds() -> None:
    assert set(KINDS) == {code for code in MessageCode if code.name.startswith("CMD_")}


async def flood(host: UsbipHost, data: bytes) -> None:
    """Send messages as fast as they go, take what comes, and return when all are answered or wait."""

    async def read() -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while await host.stream.receive_some(1 << 20):
                pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await host.stream.send_all(data)
        await wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kind", FLOODS.values(), ids=FLOODS)
async def test_a_step_takes_few_messages_of_any_kind(kind: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the reader nor the device's tasks take more, and no URB is garbage for the collector."""
    taken = [(PendingUrbs, name) for name in ("submit_out", "submit_in", "unlink")]
    done = [(ep0, "answer"), (OutEndpoint, "get_buffer")]
    watch = CallWatch(monkeypatch, *taken, *done)
    async with served(sink) as server:
        host = await server.attach()
        data = b"".join(kind(100 + number) for number in range(MESSAGES))
        gc.collect()
        gc.disable()
        try:
            with watch.watching():
                await flood(host, data)
            garbage = gc.collect()
        finally:
            gc.enable()
    assert watch.count >= MESSAGES
    assert 1 <= watch.largest.amount <= MESSAGES_A_TURN, str(watch.largest)
    assert garbage < MESSAGES // 2


@pytest.mark.parametrize("kind", [*ep0.HANDLERS, (0xC0, 0x77)], ids=str)
async def test_requests_that_have_queued_up_are_answered_in_turns(
    kind: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = CallWatch(monkeypatch, (ep0, "answer"))
    bus = UsbBus(aisrv_descriptors())
    setup = SetupPacket(*kind, 0x0100 if kind[1] == 6 else 0, 0, 18)
    for _ in range(MOST_PENDING):
        bus.submit_control(ControlUrb(setup, b"", lambda _status, _data: None))
    async with trio.open_nursery() as nursery:
        with watch.watching():
            nursery.start_soon(ep0.usb_ep0, bus)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (watch.count, watch.largest.amount) == (MOST_PENDING, CALLS_AT_ONCE)


@pytest.mark.parametrize("length", [0, 1, 3, 511, 512, 513])
async def test_packets_that_have_queued_up_are_taken_in_turns(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = CallWatch(monkeypatch, (OutEndpoint, "get_buffer"), (OutUrb, "finish"))
    bus = UsbBus(aisrv_descriptors())
    sent = [Out(bus.out_endpoint, bytes(length)) for _ in range(MOST_PENDING)]
    async with trio.open_nursery() as nursery:
        with watch.watching():
            nursery.start_soon(sink, bus)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert all(each.ended for each in sent)
    assert watch.largest.amount <= 10 * CALLS_AT_ONCE, str(watch.largest)


async def test_answers_that_hosts_wait_for_are_sent_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = CallWatch(monkeypatch, (InEndpoint, "set_buffer"))
    bus = UsbBus(aisrv_descriptors())
    read = [In(bus.in_endpoint, 512) for _ in range(MOST_PENDING)]

    async def answer_all() -> None:
        while True:
            await bus.in_endpoint.set_buffer(b"one")

    async with trio.open_nursery() as nursery:
        with watch.watching():
            nursery.start_soon(answer_all)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert all(each.ended for each in read)
    assert watch.largest.amount <= CALLS_AT_ONCE, str(watch.largest)


async def test_a_reset_ends_all_that_is_pending_which_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = CallWatch(monkeypatch, (InUrb, "finish"))
    async with served(idle) as server:
        host = await server.attach()
        await host.send(*(submit(number, 1, 1, 64) for number in range(1, PENDING_LIMIT + 11)))
        refused = await host.answers(10)
        assert [each.status for each in refused] == [ENOMEM] * 10
        await host.send(unlink(5000, PENDING_LIMIT))  # which leaves room for the request
        assert (await host.answer()).message == 4
        with watch.watching():
            await flood(host, control_out(5001, SET_CONFIGURATION))
    assert watch.largest.amount == PENDING_LIMIT - 1
