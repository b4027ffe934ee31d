"""Locks and synchronizers in device time."""

from tests.support.benches.timed_node import TimedRun, core_clock, timed_run

SLOT = 5


def test_a_loop_that_polls_a_lock_ends_at_its_tick() -> None:
    state = {"done": False, "turns": 0}

    def build(run: TimedRun) -> None:
        tile = run.node.tiles[0]
        lock, timer = tile.allocate_lock(), tile.allocate_timer()

        async def poll() -> None:
            while not state["done"]:
                await lock.acquire()
                lock.release()
                state["turns"] += 1

        async def finish() -> None:
            await timer.wait_after(999)
            state["done"] = True

        run.start(0, "poll", poll)
        run.start(0, "finish", finish)

    run = timed_run(build)
    # the flag is set at tick 1000, clock 6000: 600 turns of two slots have begun before, and core 0 is first
    # at that tick, so its turn 601 has begun, too
    assert (run.ends["poll"], state["turns"]) == (6010, 601)


def test_a_lock_goes_to_who_asked_first_by_its_clock() -> None:
    order: list[tuple[str, int]] = []

    def build(run: TimedRun) -> None:
        tile = run.node.tiles[0]
        lock = tile.allocate_lock()
        timers = [tile.allocate_timer() for _ in range(2)]

        async def hold(name: str, begin: int, ticks: int) -> None:
            timer = timers[name == "late"]
            await timer.wait_after(begin - 1)
            await lock.acquire()
            order.append((name, core_clock()))
            await timer.wait_after(begin + ticks - 1)
            lock.release()

        run.start(0, "late", lambda: hold("late", 200, 100))
        run.start(0, "early", lambda: hold("early", 100, 900))

    timed_run(build)
    assert order == [("early", 600 + SLOT), ("late", 6000 + SLOT)]


def test_a_synchronizer_lets_all_go_at_the_clock_of_the_last() -> None:
    def build(run: TimedRun) -> None:
        tile = run.node.tiles[1]
        barrier = tile.allocate_synchronizer(3)

        async def come(tick: int) -> None:
            timer = tile.allocate_timer()
            await timer.wait_after(tick - 1)
            await barrier.synchronize()

        for tick in (100, 300, 200):
            run.start(1, str(tick), lambda tick=tick: come(tick))  # type: ignore[misc]

    assert timed_run(build).ends == {"100": 1800 + SLOT, "200": 1800 + SLOT, "300": 1800 + SLOT}
