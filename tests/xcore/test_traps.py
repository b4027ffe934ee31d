"""Traps: what stops a core, what the error says, and what goes on."""

import logging
from collections.abc import Awaitable, Callable

import pytest
import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.core import Core
from aisrv.xcore.node import open_node
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Trap, TrapKind, XcoreError, ecall
from tests.support.benches.simulation import bench, settle, simulated, sole_error


def test_trap_kinds_have_the_numbers_of_trycatch_h() -> None:
    assert {kind.name: kind.value for kind in TrapKind} == {
        "LINK_ERROR": 1,
        "ILLEGAL_INSTRUCTION": 3,
        "ILLEGAL_RESOURCE": 4,
        "LOAD_STORE": 5,
        "ARITHMETIC": 7,
        "ECALL": 8,
        "RESOURCE_DEP": 9,
    }


def test_ecall_traps() -> None:
    with pytest.raises(Trap) as trap:
        ecall("assertion failed")
    assert (trap.value.kind, str(trap.value)) == (TrapKind.ECALL, "ECALL (8): assertion failed")


def _failure(program: Callable[[], Awaitable[None]]) -> BaseException:
    with pytest.raises(ExceptionGroup) as error:
        simulated(program)()
    return error.value


def test_a_trap_names_tile_core_task_and_tick() -> None:
    async def program() -> None:
        async with open_node() as node:
            timer = node.tiles[1].allocate_timer()

            async def faulty() -> None:
                await timer.wait_after(1233)
                await node.tiles[1].allocate_chanend().outuint(1)

            node.tiles[1].start(trio.sleep, 1)
            node.tiles[1].start(faulty)

    trap = sole_error(_failure(program), Trap)
    assert str(trap) == "LINK_ERROR (1): output on chanend 0x80010002, which has no destination"
    assert trap.__notes__ == ["tile 1 core 1 (faulty) trapped at tick 1234 in outuint on chanend 0x80010002"]


@simulated
async def test_a_trap_in_a_step_of_a_verb_keeps_its_place() -> None:
    @verb
    def frees(_: ChanEnd, other: ChanEnd) -> Steps[None]:
        other.free()
        yield

    async with bench() as test:
        await test.a.outuint(1)
        with pytest.raises(Trap) as trap:
            await frees(test.b, test.a)
        assert trap.value.place == f"freer on {test.a.name}"


async def _trap() -> None:
    await trio.lowlevel.checkpoint()
    ecall("gives up")


def test_a_trap_is_the_only_error_though_others_are_parked_for_ever() -> None:
    async def program() -> None:
        async with open_node() as node:
            node.tiles[0].start(node.tiles[0].allocate_chanend().inuint)
            node.tiles[0].start(_trap)

    trap = sole_error(_failure(program), Trap)
    assert trap.__notes__ == ["tile 0 core 1 (_trap) trapped at tick 0"]


def test_another_error_of_a_core_is_the_only_error_too() -> None:
    async def program() -> None:
        async def faulty() -> None:
            await trio.lowlevel.checkpoint()
            raise LookupError("a fault of the program")

        async with open_node() as node:
            node.tiles[0].start(node.tiles[0].allocate_chanend().inuint)
            node.tiles[0].start(faulty)

    sole_error(_failure(program), LookupError)


def test_an_error_of_the_outside_world_is_the_only_error_too() -> None:
    async def program() -> None:
        async with open_node() as node:
            node.tiles[0].start(node.tiles[0].allocate_chanend().inuint)
            await settle()
            raise LookupError("a fault of the host")

    sole_error(_failure(program), LookupError)


@simulated
async def test_halt_stops_the_core_that_trapped_and_the_others_run_on() -> None:
    received: list[int] = []
    async with open_node(on_trap="halt") as node:
        a, b = node.channel(*node.tiles)

        async def source() -> None:
            for word in range(20):
                await trio.sleep(0.001)
                await a.outuint(word)
            await a.outct(1)

        async def sink() -> None:
            while not await b.testct():
                received.append(await b.inuint())
            await b.chkct(1)

        node.tiles[0].start(source)
        node.tiles[1].start(sink)
        node.tiles[1].start(_trap)
        await trio.sleep(0.0055)
        assert len(received) == 5
    assert received == list(range(20))


@simulated
async def test_a_halted_core_keeps_its_number_and_its_ends() -> None:
    async with open_node(on_trap="halt") as node:
        tile = node.tiles[0]
        lone = tile.allocate_chanend()

        async def faulty(c: ChanEnd) -> None:
            await c.outuint(1)

        tile.start(faulty, lone)
        await settle()
        assert (tile.cores_in_use, tile.chanends_in_use) == (1, 1)


def test_a_halt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def program() -> None:
        async with open_node(on_trap="halt") as node:
            node.tiles[0].start(_trap)

    with caplog.at_level(logging.ERROR, "aisrv.xcore.node"):
        program()
    assert caplog.messages == [
        "tile 0 core 0 (_trap) trapped at tick 0: ECALL (8): gives up; the core is halted"
    ]


@pytest.mark.parametrize("on_trap", ["raise", "halt"])
def test_the_tracer_hears_of_a_trap(on_trap: str) -> None:
    heard: list[tuple[str, str]] = []

    class Listener(Tracer):
        def core_trapped(self, core: Core, trap: Trap, tick: int) -> None:
            heard.append((str(core), str(trap)))

    @simulated
    async def program() -> None:
        async with open_node(on_trap=on_trap) as node:  # type: ignore[arg-type]  # one of the two literals
            node.runtime.tracer = Listener()
            node.tiles[0].start(_trap)

    if on_trap == "raise":
        with pytest.raises(ExceptionGroup):
            program()
    else:
        program()
    assert heard == [("tile 0 core 0 (_trap)", "ECALL (8): gives up")]


@simulated
async def test_any_exception_of_a_core_halts_that_core(caplog: pytest.LogCaptureFixture) -> None:
    async def faulty() -> None:
        await trio.sleep(0.001)
        error = KeyError("missing")
        error.add_note("in the task 'faulty'")
        raise error

    async def healthy() -> None:
        await trio.sleep(1)
        done.append(True)

    done: list[bool] = []
    caplog.set_level(logging.INFO, "aisrv.xcore")
    async with open_node(on_trap="halt") as node:
        node.tiles[0].start(faulty)
        node.tiles[0].start(healthy)
    assert done == [True]
    (core,) = node.tiles[0].cores
    assert core.trap is not None
    assert (core.trap.kind, core.trap.reason) == (
        TrapKind.ECALL,
        "in the task 'faulty': KeyError: 'missing'",
    )
    frames, reason = caplog.records
    assert frames.exc_info is not None
    assert (frames.levelno, frames.exc_info[0]) == (logging.INFO, KeyError)  # as a note says the place
    assert reason.levelno == logging.ERROR
    assert reason.getMessage() == (
        "tile 0 core 0 (faulty) trapped at tick 100000: "
        "ECALL (8): in the task 'faulty': KeyError: 'missing'; the core is halted"
    )


@simulated
async def test_size_error_of_a_verb_halts_its_core() -> None:
    async with open_node(on_trap="halt") as node:
        node.tiles[0].start(node.tiles[0].allocate_chanend().inbytes, -1)
        await settle()
        report = node.report()
    assert report.endswith("halted by ECALL (8): SizeError: tokens to input: -1 is less than 0")


@simulated
async def test_core_whose_child_tasks_fail_in_several_ways_is_halted_by_the_trap() -> None:
    async def fail() -> None:
        raise LookupError

    async def give_up() -> None:
        ecall("gives up")

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(give_up)

    async with open_node(on_trap="halt") as node:
        core = node.tiles[0].start(both)
    assert str(core.trap) == "ECALL (8): gives up"


@simulated
async def test_core_that_fails_while_its_node_is_stopped_is_halted_and_the_node_ends() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError("in the middle of something")

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            nursery.start_soon(trio.sleep_forever)

    async with open_node(on_trap="halt") as node:
        core = node.tiles[0].start(both)
        await settle()
        node.stop()
    assert str(core.trap) == "ECALL (8): LookupError: in the middle of something"


@simulated
async def test_frames_of_an_error_without_a_place_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def faulty() -> None:
        raise LookupError("a fault of the program")

    async with open_node(on_trap="halt") as node:
        node.tiles[1].start(faulty)
    assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [
        (logging.ERROR, True),
        (logging.ERROR, False),
    ]


def test_all_errors_of_the_substrate_are_one_family() -> None:
    from aisrv.xcore.memory import OutOfMemory
    from aisrv.xcore.select import SelectError
    from aisrv.xcore.traps import Deadlock

    assert all(issubclass(error, XcoreError) for error in (Trap, Deadlock, OutOfMemory, SelectError))
