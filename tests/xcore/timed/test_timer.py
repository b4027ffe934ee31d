"""Timers, selects with timers and default cases in device time."""

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.lib_xcore import par
from aisrv.xcore.select import select, select_or_default
from tests.support.benches.timed_node import TimedRun, core_clock, timed_run

SLOT = 5


def _alone(job: str) -> list[int]:
    """What a core notes that does one thing with a timer."""
    marks: list[int] = []

    def build(run: TimedRun) -> None:
        timer = run.node.tiles[0].allocate_timer()

        async def work() -> None:
            if job == "read":
                marks.extend(timer.now() for _ in range(13))
            elif job == "wait":
                marks.append(await timer.wait_after(77))
                marks.append(core_clock())
            elif job == "periods":
                marks.extend([await timer.wait_after(1000 * period - 1) for period in range(1, 4)])
            else:
                await select(timer.after(499))
                marks.append(core_clock())

        run.start(0, "core", work)

    timed_run(build)
    return marks


def test_a_read_takes_a_slot_so_time_passes_in_a_loop_of_reads() -> None:
    assert _alone("read") == [-(-SLOT * read // 6) for read in range(1, 14)]


def test_a_wait_ends_at_its_tick() -> None:
    assert _alone("wait") == [78, 78 * 6]


def test_periods_do_not_drift() -> None:
    assert _alone("periods") == [1000, 2000, 3000]


def test_a_select_ends_at_the_tick_of_its_timer() -> None:
    assert _alone("select") == [500 * 6]


def test_a_select_takes_a_token_before_its_timer() -> None:
    marks: list[int] = []

    def build(run: TimedRun) -> None:
        tile = run.node.tiles[0]
        a, b = run.node.channel(tile, tile)
        timer, other = tile.allocate_timer(), tile.allocate_timer()

        async def wait() -> None:
            event = await select(b, timer.after(499))
            assert event is b
            marks.append(core_clock())
            event = await select(b, timer.after(499))
            assert isinstance(event, ChanEnd)  # the word lies there
            await b.inuint()
            await select(b, timer.after(499))
            marks.append(core_clock())

        async def send() -> None:
            await other.wait_after(99)
            await a.outuint(1)

        run.start(0, "wait", wait)
        run.start(0, "send", send)

    timed_run(build)
    assert marks == [600 + 10, 3000]


def test_a_default_case_takes_five_slots_and_the_select_one() -> None:
    marks: list[int] = []

    def build(run: TimedRun) -> None:
        tile = run.node.tiles[0]
        a, b = run.node.channel(tile, tile)
        timer = tile.allocate_timer()

        async def poll() -> None:
            while await select_or_default(b) is None:
                marks.append(core_clock())

        async def send() -> None:
            await timer.wait_after(49)
            await a.outuint(1)

        run.start(0, "poll", poll)
        run.start(0, "send", send)

    run = timed_run(build)
    assert marks == [6 * SLOT * turn for turn in range(1, len(marks) + 1)]
    assert run.ends["poll"] == 10 * 30 + 30 + SLOT  # the token comes at clock 310, within the eleventh turn


def test_a_job_of_par_takes_twenty_slots_to_start() -> None:
    marks: list[int] = []

    def build(run: TimedRun) -> None:
        async def note() -> None:
            marks.append(core_clock())

        run.start(0, "caller", lambda: par(run.node.tiles[0], note, note, note))

    timed_run(build)
    assert sorted(marks) == [100, 200, 200]
