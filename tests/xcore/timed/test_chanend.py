"""What channel verbs cost in device time: clocks of a core, from the rules in docs/guides/device-time.md."""

from collections.abc import Callable

import pytest

from aisrv.protocol.engine_channel import (
    answer_get,
    answer_set,
    begin_get,
    begin_set,
    end_set,
    receive_command,
    receive_set,
)
from aisrv.xcore.channels.array import receive_array, send_array
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.select import select
from tests.support.benches.timed_node import TimedRun, core_clock, timed_run

WORD = 2 * 5
"""Clocks of a lone word or token, with up to five cores."""
ROUTE = 48
"""Clocks of a route to the other tile."""
HANDSHAKE = 5 * WORD + 4 * ROUTE
"""A normal word to the other tile: END, END back, the word, END, END back."""


def between(
    tiles: tuple[int, int],
    near: Callable[[ChanEnd], object],
    far: Callable[[ChanEnd], object],
    **options: int,
) -> dict[str, int]:
    """The clocks at which two cores end that have a channel."""

    def build(run: TimedRun) -> None:
        a, b = run.node.channel(*(run.node.tiles[tile] for tile in tiles))
        run.start(tiles[0], "near", lambda: near(a))  # type: ignore[arg-type, return-value]
        run.start(tiles[1], "far", lambda: far(b))  # type: ignore[arg-type, return-value]

    return timed_run(build, **options).ends


def test_a_normal_word_to_the_other_tile_takes_242_clocks() -> None:
    ends = between((1, 0), lambda c: chan_out_word(c, 7), chan_in_word)
    assert ends == {"near": 242, "far": 242}


def test_a_normal_word_within_a_tile_opens_no_route_of_the_switch() -> None:
    assert between((1, 1), lambda c: chan_out_word(c, 7), chan_in_word) == {"near": 50, "far": 50}


@pytest.mark.parametrize(
    ("nbytes", "clocks"),
    [(0, 106), (2, 146), (4, 126), (513, 106 + 128 * 20 + 20), (27_648, 106 + 6912 * 20)],
)
def test_an_array_takes_four_slots_a_word_and_a_byte_left_over(nbytes: int, clocks: int) -> None:
    ends = between((0, 1), lambda c: send_array(c, bytes(nbytes)), lambda c: receive_array(c, nbytes))
    assert ends["far"] == clocks


def test_a_lone_word_is_charged_once_for_both_sides() -> None:
    assert between((0, 0), lambda c: c.outuint(1), lambda c: c.inuint()) == {"near": WORD, "far": WORD}


def test_output_to_nobody_takes_its_slots() -> None:
    async def output(c: ChanEnd) -> None:
        c.setd(0x80011F02)
        for _ in range(3):
            await c.outuint(1)

    async def nothing(_: ChanEnd) -> None:
        pass

    assert between((0, 0), output, nothing)["near"] == 5 + 3 * WORD


def test_the_commands_of_the_worked_example_take_its_clocks() -> None:
    """vww: 27,648 bytes in, 2 out; command and tensor 484, empty array 106, status 73, answer 146."""
    marks: list[int] = []

    async def data_task(c: ChanEnd) -> None:
        await begin_set(c, 1, 0)
        marks.append(core_clock())
        for _ in range(54):
            await c.outwords(bytes(512))
        await end_set(c, b"")
        marks.append(core_clock())
        await begin_set(c, 2, 0)
        await end_set(c, b"")
        marks.append(core_clock())
        _, data, last = await begin_get(c, 3, 0, 512)
        assert last
        assert data == b"ab"
        marks.append(core_clock())

    async def engine(c: ChanEnd) -> None:
        for _ in range(2):
            await receive_command(c)
            await receive_set(c, 1 << 20)
            await answer_set(c, 0)  # type: ignore[arg-type]
        await receive_command(c)
        await answer_get(c, b"ab")

    between((1, 0), data_task, engine)
    assert marks == [484, 138_903, 138_903 + 663, 138_903 + 663 + 872]


def test_the_receiver_takes_the_later_clock() -> None:
    def build(run: TimedRun) -> None:
        a, b = run.node.channel(run.node.tiles[0], run.node.tiles[0])
        timer = run.node.tiles[0].allocate_timer()

        async def early() -> None:
            await a.outuint(1)

        async def late() -> None:
            await timer.wait_after(999)
            await b.inuint()

        run.start(0, "early", early)
        run.start(0, "late", late)

    assert timed_run(build).ends == {"early": WORD, "late": 1000 * 6}


def test_a_sender_without_room_goes_on_at_the_clock_of_who_makes_it() -> None:
    async def output(c: ChanEnd) -> None:
        await c.outwords(bytes(12))

    def build(run: TimedRun) -> None:
        a, b = run.node.channel(run.node.tiles[0], run.node.tiles[0])
        timer = run.node.tiles[0].allocate_timer()

        async def late() -> None:
            await timer.wait_after(999)
            await b.inuint()

        run.start(0, "sender", lambda: output(a))
        run.start(0, "late", late)

    assert timed_run(build).ends == {"sender": 6000, "late": 6000}


def test_an_end_whose_destination_another_one_has_goes_on_as_that_closes_its_route() -> None:
    def build(run: TimedRun) -> None:
        tile = run.node.tiles[0]
        first, taker = run.node.channel(tile, tile)
        second, timer = tile.allocate_chanend(), tile.allocate_timer()
        second.setd(taker)

        async def hold() -> None:
            await first.outuint(1)
            await timer.wait_after(999)
            await first.outct(1)

        async def claim() -> None:
            await second.outuchar(2)

        run.start(0, "hold", hold)
        run.start(0, "claim", claim)

    # the timer's slot is before its tick; END is a lone token
    assert timed_run(build).ends == {"hold": 6000 + WORD, "claim": 6000 + 2 * WORD}


def _words(count: int, cores: int, idle: int = 0) -> int:
    """The clock at which cores of a tile have ended that each output words to the other one."""

    def build(run: TimedRun) -> None:
        for number in range(idle):
            run.node.tiles[0].reserve_core(f"xud {number}")
        for number in range(cores):
            a = run.node.tiles[0].allocate_chanend()
            a.setd(0x80011F02)  # nobody

            async def output(c: ChanEnd = a) -> None:
                for _ in range(count):
                    await c.outuint(1)

            run.start(0, f"core {number}", output)

    return max(timed_run(build).ends.values())


def test_six_running_cores_take_six_fifths_of_the_time_of_five() -> None:
    assert (_words(10, 5), _words(10, 6), _words(10, 8)) == (100, 120, 160)


def test_a_core_set_aside_for_hardware_counts_as_running() -> None:
    assert _words(10, 5, idle=1) == 120


def test_a_core_that_waits_does_not_count() -> None:
    def build(run: TimedRun) -> None:
        tile = run.node.tiles[0]
        channels = [run.node.channel(tile, tile) for _ in range(7)]

        async def output() -> None:
            for a, _ in channels:
                await a.outuint(1)

        async def wait(end: ChanEnd) -> None:
            await end.inuint()

        for number, (_, b) in enumerate(channels):
            run.start(0, f"wait {number}", lambda b=b: wait(b))  # type: ignore[misc]
        run.start(0, "sender", output)

    # eight cores start at once, and seven wait at clock 0; each word lets one of them run
    assert timed_run(build).ends["sender"] == 2 * (5 + 5 + 5 + 5 + 5 + 6 + 7)


def test_a_transfer_is_charged_at_the_slower_tile() -> None:
    def build(run: TimedRun) -> None:
        a, b = run.node.channel(*run.node.tiles)
        for number in range(6):
            run.node.tiles[1].reserve_core(f"busy {number}")

        async def output() -> None:
            await a.outuint(1)

        async def take() -> None:
            await b.inuint()

        run.start(0, "output", output)
        run.start(1, "take", take)

    assert timed_run(build).ends["take"] == 2 * 7 + ROUTE


def _routes(count: int, words: int) -> list[int]:
    """Clocks at which cores end that each send a block to the other tile over a route of its own."""

    def build(run: TimedRun) -> None:
        for number in range(count):
            a, b = run.node.channel(*run.node.tiles)

            async def output(c: ChanEnd = a) -> None:
                await c.outwords(bytes(4 * words))
                await c.outct(1)

            async def take(c: ChanEnd = b) -> None:
                await c.inwords(words)
                await c.chkct(1)

            run.start(0, f"output {number}", output)
            run.start(1, f"take {number}", take)

    ends = timed_run(build).ends
    return sorted(ends[f"take {number}"] for number in range(count))


def test_a_fifth_route_between_tiles_waits() -> None:
    alone = ROUTE + 100 * 20 + WORD
    assert _routes(4, 100) == [alone] * 4
    assert _routes(5, 100) == [alone] * 4 + [2 * alone]


def test_a_select_takes_the_earlier_run_though_a_core_ahead_sent_first() -> None:
    order: list[int] = []

    def build(run: TimedRun) -> None:
        tile = run.node.tiles[0]
        ahead, behind = run.node.channel(tile, tile), run.node.channel(tile, tile)

        async def run_ahead() -> None:
            c = tile.allocate_chanend()
            c.setd(0x80011F02)
            for _ in range(50):
                await c.outuint(1)
            await ahead.a.outuint(1)

        async def soon() -> None:
            c = tile.allocate_chanend()
            c.setd(0x80011F02)
            for _ in range(10):
                await c.outuint(1)
            await behind.a.outuint(2)

        async def server() -> None:
            for _ in range(2):
                event = await select(ahead.b, behind.b)
                assert isinstance(event, ChanEnd)
                order.append(await event.inuint())
                order.append(core_clock())

        run.start(0, "ahead", run_ahead)
        run.start(0, "soon", soon)
        run.start(0, "server", server)

    timed_run(build)
    assert order == [2, 10 + 110, 1, 10 + 510]


def test_two_cores_that_play_ping_pong_end_at_their_tick() -> None:
    def build(run: TimedRun) -> None:
        a, b = run.node.channel(*run.node.tiles)

        async def serve(c: ChanEnd) -> None:
            for _ in range(1000):
                await c.outuint(1)
                await c.inuint()

        async def answer(c: ChanEnd) -> None:
            for _ in range(1000):
                await c.outuint(await c.inuint())

        run.start(0, "serve", lambda: serve(a))
        run.start(1, "answer", lambda: answer(b))

    run = timed_run(build)
    clocks = 2 * ROUTE + 1000 * 2 * WORD
    assert run.ends == {"serve": clocks, "answer": clocks}
    assert run.log == [("seconds", -(-clocks // 6))]


@pytest.mark.parametrize(("mhz", "ticks"), [(600, 41), (700, 35), (800, 31)])
def test_ticks_are_clocks_at_the_rate_of_the_cores_rounded_up(mhz: int, ticks: int) -> None:
    def build(run: TimedRun) -> None:
        a, b = run.node.channel(*run.node.tiles)

        async def word() -> None:
            await chan_out_word(a, 1)

        async def take() -> None:
            await chan_in_word(b)

        run.start(0, "out", word)
        run.start(1, "in", take)

    assert timed_run(build, core_clock_mhz=mhz).log == [("seconds", ticks)]
