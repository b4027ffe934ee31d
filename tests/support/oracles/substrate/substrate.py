"""The same programs on the substrate itself."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast
from unittest.mock import patch

import trio

from aisrv.protocol.commands import Status
from aisrv.protocol.engine_channel import (
    answer_get,
    answer_set,
    begin_get,
    get_command,
    receive_command,
    receive_set,
    refuse_get,
    set_command,
)
from aisrv.xcore.channels.array import (
    ArrayAbandoned,
    abandon_array,
    receive_array,
    receive_array_piece,
    receive_word,
    send_array,
    send_word_and_array,
)
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import (
    chan_complete_transaction,
    chan_in_buf_byte,
    chan_in_byte,
    chan_in_two_words,
    chan_in_word,
    chan_init_transaction_master,
    chan_init_transaction_slave,
    chan_out_buf_byte,
    chan_out_byte,
    chan_out_two_words,
    chan_out_word,
    t_chan_in_buf_byte,
    t_chan_in_buf_word,
    t_chan_in_byte,
    t_chan_in_word,
    t_chan_out_buf_byte,
    t_chan_out_buf_word,
    t_chan_out_byte,
    t_chan_out_word,
)
from aisrv.xcore.channels.listener import Call
from aisrv.xcore.channels.routes import RoutedEnd
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.select import Selection, select_or_default
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Deadlock, Trap
from tests.support.benches.simulation import settle
from tests.support.oracles.substrate.draws import KEPT, SET, Op, answer_to
from tests.support.oracles.substrate.execution import Outcome
from tests.support.oracles.substrate.model import CONTROL, NOBODY, ROOM
from tests.support.oracles.substrate.model_verbs import reversed_words
from tests.support.oracles.substrate.programs import Program

if TYPE_CHECKING:
    from aisrv.xcore.pool import Pool


class OneNumber:
    """A pool that gives an end the number that it had."""

    def __init__(self, number: int) -> None:
        self._number = number

    def take(self) -> int:
        return self._number

    def give_back(self, number: int) -> None:
        assert number == self._number


class Run:
    """A program on a node: its ends by number, and what its cores have done."""

    def __init__(self, program: Program, node: Node, *, ordered: bool) -> None:
        self.program: Final = program
        self.node: Final = node
        self.ordered: Final = ordered
        """Whether selects take the first of several ends."""
        self.ends: Final = [node.tiles[tile].allocate_chanend() for tile in program.tiles]
        for end, destination in zip(self.ends, program.destinations, strict=True):
            end.setd(self.ends[destination])
        for number in program.late:
            self.ends[number].free()
        self.results: Final[list[list[Any]]] = [[] for _ in program.cores]
        self.statuses: Final = ["idle" for _ in program.cores]
        self.logs: Final[list[list[Any]]] = [[] for _ in program.cores]
        self.at_once = 0
        """Commands that were answered in the client's task."""

    async def carry_out(self, core: int, op: Op) -> None:
        """Carry out one verb of a core and note its result; a trap is noted and raised."""
        name, where, *arguments = op
        self.statuses[core] = "busy"
        try:
            if isinstance(where, tuple):
                log = self.logs[core]
                result = await ON_SEVERAL[name](self, tuple(self.ends[number] for number in where), log)
            elif name == "allocate":
                self._allocate(where, *arguments)
                result = None
            elif name == "setd":
                self.ends[where].setd(self.ends[arguments[0]])
                result = None
            else:
                result = await ON_ONE[name](self.ends[where], *arguments)
        except ArrayAbandoned:
            result = "abandoned"
        except Trap as trap:
            self.results[core].append(("trap", int(trap.kind)))
            self.statuses[core] = "trap"
            raise
        self.results[core].append(result)
        self.statuses[core] = "idle"

    def number_of(self, end: object) -> int:
        """The number of an end that a select has taken."""
        return self.ends.index(cast("ChanEnd", end))

    def _allocate(self, number: int, destination: int) -> None:
        end = self.ends[number]
        if end not in self.node.runtime.switch:
            pool = cast("Pool", OneNumber(end.number))
            self.ends[number] = end = ChanEnd(self.node.runtime, end.tile, pool)
            end._destination = self.ends[destination].resource_id  # whatever tile the core is of

    def outcome(self, progress: tuple[Any, ...] = ()) -> Outcome:
        """Describe how the program stands."""
        numbers: dict[RoutedEnd, int] = {end: number for number, end in enumerate(self.ends)}
        return Outcome(
            tuple(map(tuple, self.results)),
            tuple(self.statuses),
            tuple(map(tuple, self.logs)),
            tuple(_state(end, numbers) for end in self.ends),
            progress,
        )


def _state(end: ChanEnd, numbers: dict[RoutedEnd, int]) -> Any:
    """What `Outcome.ends` says, of the inside of an end: nothing public shows its tokens."""
    buffer = end._buffer
    tokens: list[int] = []
    for run in buffer._runs:
        tokens += (CONTROL + run,) if isinstance(run, int) else run
    tokens = tokens[buffer._offset :]
    assert len(tokens) == buffer.queued
    source = None if end._source is None else numbers[end._source]
    route = (
        numbers[end._route] if isinstance(end._route, RoutedEnd) else None if end._route is None else NOBODY
    )
    return tuple(tokens[:ROOM]), source, tuple(numbers[claim] for claim in end._claims), route


# Verbs, by the names that programs give them.


async def _chan_out(end: ChanEnd, data: bytes) -> None:
    match len(data):
        case 1:
            await chan_out_byte(end, data[0])
        case 4:
            await chan_out_word(end, int.from_bytes(data))
        case _:
            await chan_out_buf_byte(end, data)


async def _chan_in(end: ChanEnd, count: int) -> bytes:
    match count:
        case 1:
            return bytes((await chan_in_byte(end),))
        case 4:
            return (await chan_in_word(end)).to_bytes(4)
        case _:
            return await chan_in_buf_byte(end, count)


async def _master(end: ChanEnd, script: tuple[bytes | int, ...]) -> bytes:
    return await _transaction(await chan_init_transaction_master(end), script)


async def _slave(end: ChanEnd, script: tuple[bytes | int, ...]) -> bytes:
    return await _transaction(await chan_init_transaction_slave(end), script)


async def _transaction(tc: Any, script: tuple[bytes | int, ...]) -> bytes:
    got = b""
    for part in script:
        match part:
            case 1:
                got += bytes((await t_chan_in_byte(tc),))
            case 4:
                got += (await t_chan_in_word(tc)).to_bytes(4)
            case 8:
                got += reversed_words(await t_chan_in_buf_word(tc, 2))
            case int():
                got += await t_chan_in_buf_byte(tc, part)
            case _ if len(part) == 1:
                await t_chan_out_byte(tc, part[0])
            case _ if len(part) == 4:
                await t_chan_out_word(tc, int.from_bytes(part))
            case _ if len(part) == 8:
                await t_chan_out_buf_word(tc, reversed_words(part))
            case _:
                await t_chan_out_buf_byte(tc, part)
    await chan_complete_transaction(tc)
    return got


async def _receive_array(end: ChanEnd, limit: int) -> tuple[bytes, int]:
    array = await receive_array(end, limit)
    return bytes(array.data), array.length


async def _receive_word_and_array(end: ChanEnd, room: int, limit: int) -> tuple[int, bytes, int]:
    word, data = await receive_word(end, room)
    return word, *((await _receive_array(end, limit)) if data is None else (data[:limit], len(data)))


async def _at_once(verb: Callable[[], None]) -> None:
    verb()


async def _set(end: ChanEnd, command: int, tensor: int, data: bytes) -> int:
    return int(await set_command(end, command, tensor, data))


ON_ONE: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    **{
        name: getattr(ChanEnd, name)
        for name in (
            *(
                "outuint",
                "outuchar",
                "outct",
                "outbytes",
                "outwords",
                "inuint",
                "inuchar",
                "inbytes",
                "inwords",
            ),
            *("in_until_control", "inct", "chkct", "testct", "testwct"),
        )
    },
    "set_id": lambda end, destination, _: _at_once(lambda: end.setd(destination)),
    "free": lambda end: _at_once(end.free),
    "chan_out": _chan_out,
    "chan_in": _chan_in,
    "chan_out_two_words": chan_out_two_words,
    "chan_in_two_words": chan_in_two_words,
    "master": _master,
    "slave": _slave,
    "send_array": send_array,
    "abandon_array": abandon_array,
    "receive_array": _receive_array,
    "receive_array_piece": receive_array_piece,
    "send_word_and_array": send_word_and_array,
    "receive_word_and_array": _receive_word_and_array,
    "get": get_command,
    "begin_get": begin_get,
    "set": _set,
}


async def _select(run: Run, ends: tuple[ChanEnd, ...], _log: list[Any]) -> int:
    return run.number_of(await Selection(*ends, ordered=run.ordered).wait())


async def _select_or_default(run: Run, ends: tuple[ChanEnd, ...], _log: list[Any]) -> int | None:
    chosen = await select_or_default(*ends, ordered=True)
    return None if chosen is None else run.number_of(chosen)


async def _serve(run: Run, ends: tuple[ChanEnd, ...], log: list[Any]) -> None:
    """Serve clients, some of their commands at once."""

    def on_call(call: Call) -> tuple[int, bytes] | None:
        match (call.first + call.second) % 8:
            case 3:
                return None
            case 7:
                raise ZeroDivisionError
        data = bytes(call.array[:KEPT]) if call.first & SET else None
        answer = answer_to(call.first, call.second, data or b"")
        if data is None and len(answer[1]) >= call.room:
            return None
        log.append((call.first, call.second, data))
        run.at_once += 1
        return answer

    selection = Selection(*ends, ordered=run.ordered, on_call=on_call)
    while True:
        end = cast("ChanEnd", await selection.wait())
        command, tensor = await receive_command(end)
        if not command & SET:
            log.append((command, tensor, None))
            status, data = answer_to(command, tensor)
            await (refuse_get(end, Status(status)) if status else answer_get(end, data))
            continue
        try:
            array = await receive_set(end, KEPT)
        except ArrayAbandoned:
            log.append((command, tensor, "abandoned"))
            continue
        log.append((command, tensor, bytes(array.data)))
        await answer_set(end, Status(answer_to(command, tensor, bytes(array.data))[0]))


ON_SEVERAL: Final[dict[str, Callable[[Run, tuple[ChanEnd, ...], list[Any]], Awaitable[Any]]]] = {
    "select": _select,
    "select_or_default": _select_or_default,
    "serve": _serve,
}


@patch.object(ChanEnd, "run_whole_verb", ChanEnd.run_verb)
async def lockstep(program: Program, *, tracer: Tracer | None) -> Outcome:
    """Run a program turn by turn: how it went.

    A cancellation ends commands in the middle, as other verbs, and does not leave them to themselves.
    """
    begin = [trio.Event() for _ in program.cores]
    scopes = [trio.CancelScope() for _ in program.cores]
    progress = []

    async with open_node(on_trap="halt") as node, trio.open_nursery() as tasks:
        run = Run(program, node, ordered=True)
        node.runtime.tracer = tracer

        async def live(core: int) -> None:
            for op in program.cores[core]:
                await begin[core].wait()
                begin[core] = trio.Event()
                try:
                    with trio.CancelScope() as scopes[core]:
                        await run.carry_out(core, op)
                except Trap:
                    return
                if scopes[core].cancelled_caught:
                    run.results[core].append("cancelled")
                    run.statuses[core] = "idle"

        for core, tile in enumerate(program.core_tiles):
            if program.as_cores:
                node.tiles[tile].start(live, core)
            else:
                tasks.start_soon(live, core)
        await settle()
        for turn in program.turns:
            if not isinstance(turn, int):
                if run.statuses[turn[1]] == "busy":
                    scopes[turn[1]].cancel()
            elif run.statuses[turn] == "idle":
                begin[turn].set()
            await settle()
            progress.append(tuple(map(len, run.results)))
        outcome = run.outcome(tuple(progress))
        node.stop()
        tasks.cancel_scope.cancel()
    return outcome


async def freely(
    program: Program, dice: Random, *, tracer: Tracer | None, classes: ResourceClasses = PLAIN
) -> tuple[Outcome, str, int]:
    """Let all cores run: how it ended, the report of the deadlock if any, commands answered at once."""
    report = ""
    try:
        async with open_node(seed=dice.getrandbits(32), on_trap="halt", classes=classes) as node:
            run = Run(program, node, ordered=False)
            node.runtime.tracer = tracer

            async def live(core: int, pauses: list[int]) -> None:
                for op, pause in zip(program.cores[core], pauses, strict=True):
                    for _ in range(pause):
                        await trio.lowlevel.checkpoint()
                    await run.carry_out(core, op)

            for core in dice.sample(range(len(program.cores)), len(program.cores)):
                pauses = [dice.choice((0, 0, 0, 1, 2)) for _ in program.cores[core]]
                node.tiles[program.core_tiles[core]].start(live, core, pauses, name=f"c{core}")
    except* Deadlock as group:
        report = str(group.exceptions[0])
    return run.outcome(), report, run.at_once
