"""Endpoints: packets and requests at every boundary, the rendezvous, halts, resets, cancellation."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from phy.usb.urb import TransferStatus
from phy.usb.xud import InEndpoint, OutEndpoint, Packets, UsbReset
from tests.support.amounts import in_ci
from tests.support.peers.usb_host import SIZES, In, Out, packets_of, pattern, received, wire

OKAY, STALL = TransferStatus.OKAY, TransferStatus.STALL
OVERFLOW, SHUTDOWN = TransferStatus.OVERFLOW, TransferStatus.SHUTDOWN


@pytest.fixture
def out() -> OutEndpoint:
    return OutEndpoint(0x01)


@pytest.fixture
def into() -> InEndpoint:
    return InEndpoint(0x81)


class Call:
    """A call of the firmware's that runs beside the test: what it returned or raised, so far."""

    def __init__(self) -> None:
        self.results: list[object] = []

    async def run(self, call: Callable[..., Awaitable[object]], *arguments: object) -> None:
        try:
            self.results.append(await call(*arguments))
        except UsbReset as reset:
            self.results.append(str(reset))


# OUT: packets.


@pytest.mark.parametrize("zero_packet", [False, True])
@pytest.mark.parametrize("size", SIZES)
async def test_firmware_gets_packets_of_512_and_the_rest(
    out: OutEndpoint, size: int, zero_packet: bool
) -> None:
    data = pattern(size)
    expected = packets_of(data, ended=size % 512 != 0 or size == 0 or zero_packet)
    host = Out(out, data, zero_packet=zero_packet)
    packets: list[bytes] = []
    while out.pending:
        packets += wire(await out.get_buffer())
    assert packets == expected
    assert host.ended == [(OKAY, size)]


@pytest.mark.parametrize("size", SIZES)
async def test_one_call_takes_a_whole_transfer(out: OutEndpoint, size: int) -> None:
    Out(out, pattern(size), zero_packet=True)
    taken = await out.get_buffer(2048)
    assert (taken.data, taken.short) == (pattern(size), True)


async def test_write_is_done_with_its_last_packet_not_before(out: OutEndpoint) -> None:
    host = Out(out, pattern(1025))
    await wait_all_tasks_blocked()
    states = [list(host.ended)]
    for _ in range(3):
        await out.get_buffer()
        states.append(list(host.ended))
    assert states == [[], [], [], [(OKAY, 1025)]]


async def test_bytes_from_the_host_are_counted_as_they_are_taken(out: OutEndpoint) -> None:
    Out(out, pattern(1200))
    assert out.crossed == 0
    taken = len((await out.get_buffer(512)).data)
    assert out.crossed == taken == 512
    await out.get_buffer(2048)
    assert out.crossed == 1200


async def test_limit_splits_a_request(out: OutEndpoint) -> None:
    host = Out(out, pattern(1025))
    first = await out.get_buffer(1024)
    assert (first.data, first.short, host.ended) == (pattern(1025)[:1024], False, [])
    last = await out.get_buffer(1024)
    assert (last.data, last.short, host.ended) == (pattern(1025)[1024:], True, [(OKAY, 1025)])


async def test_requests_of_full_packets_go_on_in_the_next_request(out: OutEndpoint) -> None:
    data = pattern(1027)
    hosts = [Out(out, data[:512]), Out(out, data[512:1024]), Out(out, data[1024:])]
    taken = await out.get_buffer(4096)
    assert (taken.data, taken.short) == (data, True)
    assert [host.ended for host in hosts] == [[(OKAY, 512)], [(OKAY, 512)], [(OKAY, 3)]]


async def test_request_that_is_no_multiple_of_512_ends_the_transfer(out: OutEndpoint) -> None:
    Out(out, pattern(600))
    Out(out, b"next")
    taken = await out.get_buffer(4096)
    assert (taken.data, taken.short) == (pattern(600), True)
    assert (await out.get_buffer(4096)).data == b"next"


async def test_empty_request_ends_a_transfer_of_full_packets(out: OutEndpoint) -> None:
    Out(out, pattern(512))
    taken = await out.get_buffer(1024)
    assert (taken.data, taken.short) == (pattern(512), False)
    host = Out(out, b"")
    taken = await out.get_buffer(1024)
    assert (taken.data, taken.short, host.ended) == (b"", True, [(OKAY, 0)])


async def test_waiting_firmware_gets_a_packet_when_its_last_byte_comes(out: OutEndpoint) -> None:
    call = Call()
    host = Out(out, length=513)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, out.get_buffer)
        await wait_all_tasks_blocked()
        host.feed(pattern(511)[:1], b"", pattern(511)[1:])
        await wait_all_tasks_blocked()
        assert call.results == []
        host.feed(b"\xaa")
        await wait_all_tasks_blocked()
        (taken,) = call.results
        assert isinstance(taken, Packets)
        assert (taken.data, taken.short) == (pattern(511) + b"\xaa", False)
        assert host.ended == []
    host.feed(b"\xbb")
    taken = await out.get_buffer()
    assert (taken.data, taken.short, host.ended) == (b"\xbb", True, [(OKAY, 513)])


async def test_more_data_than_the_request_announced_are_refused(out: OutEndpoint) -> None:
    host = Out(out, b"abc", length=4)
    with pytest.raises(ValueError, match=r"^5 bytes fed to a URB of 4$"):
        host.feed(b"de")
    host.feed(b"d")
    assert (await out.get_buffer()).data == b"abcd"


async def test_data_of_a_request_that_has_ended_are_not_kept(out: OutEndpoint) -> None:
    host = Out(out, length=2048)
    scratch = bytearray(1024)
    host.feed(memoryview(scratch))
    out.halt()
    host.request.keep()
    scratch.clear()  # BufferError where a view is left
    assert host.ended == [(STALL, 0)]


async def test_host_may_submit_the_next_request_from_the_end_of_the_last(out: OutEndpoint) -> None:
    packets: list[bytes] = []

    async def firmware() -> None:
        for _ in range(2):
            packets.extend(wire(await out.get_buffer()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(firmware)
        await wait_all_tasks_blocked()
        Out(out, b"first", then=lambda: Out(out, b"second"))
    assert packets == [b"first", b"second"]


REQUESTS = st.lists(
    st.tuples(st.sampled_from((0, 1, 3, 4, 511, 512, 513, 1024, 1025)) | st.integers(0, 1600), st.booleans()),
    max_size=6,
)


@settings(max_examples=in_ci(150, every_day=40))
@given(
    requests=REQUESTS,
    cuts=st.lists(st.integers(1, 700), max_size=12),
    limits=st.lists(st.integers(1, 5).map(lambda packets: packets * 512), min_size=1, max_size=4),
    turns=st.lists(st.booleans(), min_size=1, max_size=5),
    views=st.lists(st.booleans(), min_size=1, max_size=5),
)
def test_any_split_into_requests_and_pieces_gives_the_same_packets(
    requests: list[tuple[int, bool]], cuts: list[int], limits: list[int], turns: list[bool], views: list[bool]
) -> None:
    """`turns` says after which pieces the firmware gets to run, `views` which show memory used again."""
    expected: list[bytes] = []
    stream = pattern(sum(length for length, _ in requests))
    position = 0
    for length, zero_packet in requests:
        data = stream[position : position + length]
        position += length
        expected += packets_of(data, ended=length % 512 != 0 or length == 0 or zero_packet)

    async def main() -> None:
        out = OutEndpoint(0x01)
        packets: list[bytes] = []

        async def firmware() -> None:
            while len(packets) < len(expected):
                packets.extend(wire(await out.get_buffer(limits[len(packets) % len(limits)])))

        hosts = []
        step = fed = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(firmware)
            for length, zero_packet in requests:
                host = Out(out, length=length, zero_packet=zero_packet)
                hosts.append(host)
                end = fed + length
                while fed < end:
                    cut = min(cuts[step % len(cuts)] if cuts else 1600, end - fed)
                    piece: bytes | bytearray = stream[fed : fed + cut]
                    fed += cut
                    step += 1
                    if views[step % len(views)]:
                        piece = bytearray(piece)
                        host.feed(memoryview(piece))
                    else:
                        host.feed(stream[fed - cut : fed])
                    if turns[step % len(turns)]:
                        await wait_all_tasks_blocked()
                    if isinstance(piece, bytearray):
                        host.request.keep()
                        piece[:] = bytes(cut)
        assert packets == expected
        assert [host.ended for host in hosts] == [[(OKAY, length)] for length, _ in requests]

    trio.run(main)


# IN: packets.


async def send(into: InEndpoint, transfers: list[tuple[bytes, bool]]) -> None:
    for data, last in transfers:
        await into.set_buffer(data, last=last)


@pytest.mark.parametrize("size", SIZES)
async def test_request_with_room_gets_the_transfer_up_to_its_short_packet(
    into: InEndpoint, size: int
) -> None:
    host = In(into, 2048)
    await into.set_buffer(pattern(size))
    assert host.ended == [(OKAY, pattern(size))]


@pytest.mark.parametrize("size", SIZES)
async def test_bytes_to_the_host_are_counted_as_it_takes_them(into: InEndpoint, size: int) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(into.set_buffer, pattern(size))
        await wait_all_tasks_blocked()
        assert into.crossed == 0
        In(into, 2048)
    assert into.crossed == size
    In(into, 64)
    await into.set_buffer(b"abc")
    assert into.crossed == size + 3


@pytest.mark.parametrize("size", SIZES)
async def test_request_of_the_exact_size_gets_all_of_it(into: InEndpoint, size: int) -> None:
    host = In(into, size)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(into.set_buffer, pattern(size))
        await wait_all_tasks_blocked()
        assert host.ended == [(OKAY, pattern(size))]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("size", [512, 1024])
async def test_zero_length_packet_follows_a_multiple_of_512(into: InEndpoint, size: int) -> None:
    call = Call()
    In(into, size)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, into.set_buffer, pattern(size))
        await wait_all_tasks_blocked()
        assert call.results == []
        second = In(into, 512)
    assert (call.results, second.ended) == ([None], [(OKAY, b"")])


@pytest.mark.parametrize("size", [512, 1024])
async def test_transfer_that_goes_on_sends_no_zero_length_packet(into: InEndpoint, size: int) -> None:
    host = In(into, 4096)
    await into.set_buffer(pattern(size), last=False)
    assert host.ended == []
    await into.set_buffer(b"end")
    assert host.ended == [(OKAY, pattern(size) + b"end")]


async def test_nothing_to_send_yet_waits_for_nobody(into: InEndpoint) -> None:
    await into.set_buffer(b"", last=False)
    host = In(into, 512)
    await into.set_buffer(b"data")
    assert host.ended == [(OKAY, b"data")]


async def test_data_are_sent_when_the_host_has_taken_them_not_before(into: InEndpoint) -> None:
    call = Call()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, into.set_buffer, pattern(1025))
        await wait_all_tasks_blocked()
        In(into, 512)
        In(into, 512)
        await wait_all_tasks_blocked()
        assert call.results == []
        last = In(into, 512)
        await wait_all_tasks_blocked()
        assert (call.results, last.ended) == ([None], [(OKAY, pattern(1025)[1024:])])


async def test_packet_larger_than_the_request_is_overflow_and_comes_again(into: InEndpoint) -> None:
    small, large = In(into, 100), In(into, 512)
    await into.set_buffer(pattern(300))
    assert (small.ended, large.ended) == ([(OVERFLOW, b"")], [(OKAY, pattern(300))])


async def test_overflow_after_whole_packets_gives_those(into: InEndpoint) -> None:
    odd, rest = In(into, 600), In(into, 1024)
    await into.set_buffer(pattern(1100))
    assert odd.ended == [(OVERFLOW, pattern(1100)[:512])]
    assert rest.ended == [(OKAY, pattern(1100)[512:])]


async def test_request_for_no_bytes_takes_a_zero_length_packet_only(into: InEndpoint) -> None:
    with_data, without = In(into, 0), In(into, 512)
    await into.set_buffer(b"x")
    assert (with_data.ended, without.ended) == ([(OVERFLOW, b"")], [(OKAY, b"x")])
    empty = In(into, 0)
    await into.set_buffer(b"")
    assert empty.ended == [(OKAY, b"")]


async def test_host_may_submit_an_in_request_from_the_end_of_the_last(into: InEndpoint) -> None:
    follow: list[In] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, into, [(pattern(512), False), (b"end", True)])
        await wait_all_tasks_blocked()
        In(into, 512, then=lambda: follow.append(In(into, 0, then=lambda: follow.append(In(into, 512)))))
    assert [each.ended for each in follow] == [[(OVERFLOW, b"")], [(OKAY, b"end")]]


TRANSFERS = st.lists(
    st.tuples(
        st.lists(st.integers(1, 3).map(lambda packets: packets * 512), max_size=3),
        st.sampled_from((0, 1, 3, 4, 511, 512, 513, 1024, 1025)) | st.integers(0, 1600),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=in_ci(150, every_day=40))
@given(
    transfers=TRANSFERS,
    lengths=st.lists(
        st.sampled_from((0, 1, 511, 512, 513, 1024, 1025, 4096)) | st.integers(0, 2000), max_size=8
    ),
    before=st.integers(0, 8),
)
def test_in_requests_end_as_the_bus_rules_say(
    transfers: list[tuple[list[int], int]], lengths: list[int], before: int
) -> None:
    """`before` requests wait already when the firmware begins to send, the others come one by one."""
    parts: list[tuple[bytes, bool]] = []
    packets: list[bytes] = []
    for pieces, rest in transfers:
        data = pattern(sum(pieces) + rest)
        packets += packets_of(data)
        for piece in pieces:
            parts.append((data[:piece], False))
            data = data[piece:]
        parts.append((data, True))

    async def main() -> None:
        into = InEndpoint(0x81)
        hosts = [In(into, length) for length in lengths[:before]]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, into, parts)
            await wait_all_tasks_blocked()
            for length in lengths[before:]:
                hosts.append(In(into, length))
                await wait_all_tasks_blocked()
            ends = [host.ended[0] if host.ended else None for host in hosts]
            assert ends == received(packets, lengths)
            assert all(len(host.ended) <= 1 for host in hosts)
            nursery.cancel_scope.cancel()

    trio.run(main)


# Halts.


async def test_halt_stalls_requests_that_wait_and_new_ones(out: OutEndpoint) -> None:
    waiting = Out(out, pattern(1025))
    await out.get_buffer()
    out.halt()
    new = Out(out, b"abc")
    assert out.halted
    assert (waiting.ended, new.ended, out.pending) == ([(STALL, 512)], [(STALL, 0)], 0)


async def test_halted_in_endpoint_stalls_with_the_data_that_crossed(into: InEndpoint) -> None:
    waiting = In(into, 2048)
    await into.set_buffer(pattern(512), last=False)
    into.halt()
    new = In(into, 64)
    assert (waiting.ended, new.ended, into.pending) == ([(STALL, pattern(512))], [(STALL, b"")], 0)


async def test_clear_lets_requests_through_again(out: OutEndpoint) -> None:
    out.halt()
    out.clear_halt()
    host = Out(out, b"abc")
    assert not out.halted
    assert (await out.get_buffer()).data == b"abc"
    assert host.ended == [(OKAY, 3)]


async def test_firmware_that_waits_for_a_packet_sleeps_through_halt_and_clear(out: OutEndpoint) -> None:
    call = Call()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, out.get_buffer)
        await wait_all_tasks_blocked()
        out.halt()
        Out(out, b"lost")
        out.clear_halt()
        await wait_all_tasks_blocked()
        assert call.results == []
        Out(out, b"taken")
    (taken,) = call.results
    assert isinstance(taken, Packets)
    assert taken.data == b"taken"


async def test_firmware_that_sends_sleeps_through_halt_and_clear(into: InEndpoint) -> None:
    call = Call()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, into.set_buffer, b"data")
        await wait_all_tasks_blocked()
        into.halt()
        into.clear_halt()
        await wait_all_tasks_blocked()
        assert call.results == []
        host = In(into, 512)
    assert (call.results, host.ended) == ([None], [(OKAY, b"data")])


@pytest.mark.parametrize("endpoint", [OutEndpoint(0x01), InEndpoint(0x81)], ids=["out", "in"])
async def test_wait_halt_cleared_ends_with_the_clear(endpoint: OutEndpoint | InEndpoint) -> None:
    call = Call()
    endpoint.halt()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, endpoint.wait_halt_cleared)
        await wait_all_tasks_blocked()
        assert call.results == []
        endpoint.clear_halt()
    assert call.results == [None]
    await endpoint.wait_halt_cleared()


async def test_request_that_stalls_does_not_end_the_wait_for_the_clear(out: OutEndpoint) -> None:
    call = Call()
    out.halt()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, out.wait_halt_cleared)
        await wait_all_tasks_blocked()
        Out(out, b"abc")
        await wait_all_tasks_blocked()
        assert call.results == []
        out.clear_halt()


# Unlinking.


async def test_unlinked_request_never_ends(out: OutEndpoint) -> None:
    host, other = Out(out, b"abc"), Out(out, b"def")
    assert out.unlink(host.request)
    assert (await out.get_buffer()).data == b"def"
    assert (host.ended, other.ended) == ([], [(OKAY, 3)])


async def test_packets_taken_before_an_unlink_stay_taken(out: OutEndpoint) -> None:
    host = Out(out, pattern(1025))
    assert (await out.get_buffer()).data == pattern(1025)[:512]
    assert out.unlink(host.request)
    assert (host.request.taken, host.ended) == (512, [])
    Out(out, b"next")
    assert (await out.get_buffer()).data == b"next"


async def test_bytes_fed_after_an_unlink_go_nowhere(out: OutEndpoint) -> None:
    host = Out(out, b"ab", length=4)
    assert out.unlink(host.request)
    call = Call()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, out.get_buffer)
        await wait_all_tasks_blocked()
        host.feed(b"cd")
        await wait_all_tasks_blocked()
        assert call.results == []
        nursery.cancel_scope.cancel()


async def test_request_that_is_done_is_not_unlinked(out: OutEndpoint, into: InEndpoint) -> None:
    sent, read = Out(out, b"abc"), In(into, 512)
    await out.get_buffer()
    await into.set_buffer(b"answer")
    assert not out.unlink(sent.request)
    assert not into.unlink(read.request)
    assert (sent.ended, read.ended) == ([(OKAY, 3)], [(OKAY, b"answer")])


async def test_unlinked_in_request_leaves_the_data_to_the_next(into: InEndpoint) -> None:
    host = In(into, 512)
    assert into.unlink(host.request)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(into.set_buffer, b"data")
        await wait_all_tasks_blocked()
        assert host.ended == []
        assert In(into, 512).ended == [(OKAY, b"data")]


# Resets.


@pytest.mark.parametrize("wait", ["get_buffer", "wait_halt_cleared"])
async def test_reset_ends_a_wait_of_the_out_firmware(out: OutEndpoint, wait: str) -> None:
    call = Call()
    if wait == "wait_halt_cleared":
        out.halt()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, getattr(out, wait))
        await wait_all_tasks_blocked()
        out.reset()
    assert call.results == ["endpoint 0x01 was reset"]
    assert not out.halted
    out.check_reset()  # reported once


async def test_reset_ends_a_wait_of_the_in_firmware_and_drops_its_data(into: InEndpoint) -> None:
    call = Call()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, into.set_buffer, b"old")
        await wait_all_tasks_blocked()
        into.reset()
    assert call.results == ["endpoint 0x81 was reset"]
    host = In(into, 512)
    assert host.ended == []
    await into.set_buffer(b"new")
    assert host.ended == [(OKAY, b"new")]


async def test_reset_ends_requests_with_shutdown(out: OutEndpoint, into: InEndpoint) -> None:
    sent, read = Out(out, pattern(1025)), In(into, 2048)
    await out.get_buffer()
    await into.set_buffer(pattern(512), last=False)
    out.reset()
    into.reset()
    assert (sent.ended, read.ended) == ([(SHUTDOWN, 512)], [(SHUTDOWN, pattern(512))])
    assert (out.pending, into.pending) == (0, 0)


@pytest.mark.parametrize("call", ["get_buffer", "wait_halt_cleared"])
async def test_next_out_call_reports_a_reset_once(out: OutEndpoint, call: str) -> None:
    out.reset()
    host = Out(out, b"after")
    with pytest.raises(UsbReset, match=r"^endpoint 0x01 was reset$"):
        await getattr(out, call)()
    assert host.ended == []
    assert (await out.get_buffer()).data == b"after"


async def test_next_in_call_reports_a_reset_and_sends_nothing(into: InEndpoint) -> None:
    into.reset()
    host = In(into, 512)
    with pytest.raises(UsbReset, match=r"^endpoint 0x81 was reset$"):
        await into.set_buffer(b"old")
    assert host.ended == []
    await into.set_buffer(b"new")
    assert host.ended == [(OKAY, b"new")]


async def test_acknowledged_reset_is_not_reported(out: OutEndpoint) -> None:
    out.reset()
    out.acknowledge_reset()
    Out(out, b"abc")
    assert (await out.get_buffer()).data == b"abc"


async def test_request_submitted_as_a_reset_ends_another_comes_after_the_reset(out: OutEndpoint) -> None:
    call = Call()
    Out(out, length=3, then=lambda: Out(out, b"after"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, out.get_buffer)
        await wait_all_tasks_blocked()
        out.reset()
    assert call.results == ["endpoint 0x01 was reset"]
    assert (await out.get_buffer()).data == b"after"


# Cancellation of the firmware's calls.


async def test_cancelled_get_buffer_takes_nothing(out: OutEndpoint) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(out.get_buffer)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    host = Out(out, pattern(600))
    assert host.ended == []
    assert wire(await out.get_buffer()) == [pattern(600)[:512]]
    assert wire(await out.get_buffer()) == [pattern(600)[512:]]


async def test_cancelled_set_buffer_sends_nothing_more(into: InEndpoint) -> None:
    first = In(into, 512)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(into.set_buffer, pattern(1024))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    host = In(into, 512)
    assert (first.ended, host.ended) == ([(OKAY, pattern(1024)[:512])], [])
    await into.set_buffer(b"new")
    assert host.ended == [(OKAY, b"new")]


async def test_cancelled_wait_for_a_clear_forgets_the_clear(out: OutEndpoint) -> None:
    out.halt()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(out.wait_halt_cleared)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    out.clear_halt()
    call = Call()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, out.get_buffer)
        await wait_all_tasks_blocked()
        assert call.results == []
        Out(out, b"abc")
    assert isinstance(call.results[0], Packets)
