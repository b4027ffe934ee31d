"""A packet within a larger verb: at once where it fits the buffer, else token by token."""

import pytest

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.tokens import Control
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import EndTrace, Token, bench, drain, settle, simulated

END = Control.END


@verb
def packet(c: ChanEnd, data: bytes) -> Steps[None]:
    return c.packet(data)


@pytest.mark.parametrize(
    ("queued", "size", "returns"),
    [(0, 0, True), (0, 7, True), (0, 8, False), (7, 0, True), (8, 0, False), (3, 4, True), (3, 5, False)],
)
def test_it_returns_once_eight_tokens_at_most_are_queued(queued: int, size: int, returns: bool) -> None:
    @simulated
    async def run() -> None:
        async with bench() as test:
            await test.a.outbytes(bytes(queued))
            sent = test.start(packet, test.a, bytes(size))
            await settle()
            assert sent.done is returns
            await test.b.inuchar() if queued or size else await test.b.chkct(END)
            await settle()
            assert sent.done

    run()


@pytest.mark.parametrize("data", [b"", b"abc", b"far more than a buffer"])
def test_it_opens_and_closes_a_route(data: bytes) -> None:
    @simulated
    async def run() -> None:
        async with bench() as test:
            trace = EndTrace()
            with test.node.tracing(trace):
                sent = test.start(packet, test.a, data)
                await settle()
                assert await test.b.inbytes(len(data)) == data
                await test.b.chkct(END)
                await settle()
                sent.value()
            runs = [("output", data)] if data else []
            assert trace.hooks[test.a.name] == [
                ("opened", test.b.name),
                *runs,
                ("output", END),
                ("closed", test.b.name),
            ]

    run()


@simulated
async def test_it_closes_the_route_that_is_open() -> None:
    async with bench() as test:
        await test.a.outuchar(1)
        trace = EndTrace()
        with test.node.tracing(trace):
            await packet(test.a, b"x")
        assert trace.hooks == {test.a.name: [("output", b"x"), ("output", END), ("closed", test.b.name)]}
        assert (test.a.statistics().route_open, test.b.statistics().source) == (False, None)
        await test.end(test.b).outuchar(2)
        assert await drain(test.b) == [Token(1), Token(ord("x")), Token(END, control=True), Token(2)]


@simulated
async def test_it_ends_a_route_to_nobody_that_is_open() -> None:
    async with bench() as test:
        gone = test.node.tiles[1].allocate_chanend()
        gone.free()
        test.a.setd(gone.resource_id)
        await test.a.outuchar(1)
        came = test.node.tiles[1].allocate_chanend()
        assert came.resource_id == gone.resource_id
        await packet(test.a, b"x")
        await packet(test.a, b"y")
        assert await drain(came) == [Token(ord("y")), Token(END, control=True)]


@simulated
async def test_it_waits_for_the_route_of_another_end() -> None:
    async with bench() as test:
        other = test.end(test.b)
        await other.outuchar(1)
        sent = test.start(packet, test.a, b"x")
        await settle()
        assert (sent.done, test.b.statistics().tokens_queued) == (False, 1)
        await other.outct(END)
        await settle()
        assert sent.done
        assert await drain(test.b) == [
            *(Token(1), Token(END, control=True)),
            *(Token(ord("x")), Token(END, control=True)),
        ]


@simulated
async def test_its_end_gives_the_destination_to_the_next_source() -> None:
    async with bench() as test:
        await test.a.outuchar(1)
        waits = test.start(test.end(test.b).outuchar, 2)
        await settle()
        await packet(test.a, b"")
        await settle()
        assert waits.done
        assert await drain(test.b) == [Token(1), Token(END, control=True), Token(2)]


@simulated
async def test_it_is_dropped_where_nobody_has_the_destination() -> None:
    async with bench() as test:
        gone = test.node.tiles[1].allocate_chanend()
        gone.free()
        test.a.setd(gone.resource_id)
        await packet(test.a, b"x")
        assert not test.a.statistics().route_open
        assert await drain(test.node.tiles[1].allocate_chanend()) == []


@simulated
async def test_it_traps_where_no_destination_is_set() -> None:
    async with bench() as test:
        with pytest.raises(Trap) as trap:
            await packet(test.end(), b"x")
        assert trap.value.kind is TrapKind.LINK_ERROR
