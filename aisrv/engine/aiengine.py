"""The AI engine: a task that interprets commands from the channel ends of its clients.

A client's command is answered whole before another client's is taken. Whatever a client sends is
answered: failures with a status word and a line in the debug log. While it streams, the engine waits for the
next frame as it waits for clients, so that their commands are answered between frames.

Sources: the design document, section AI Engine; "XCORE AI server: numbers and wire behavior", sections
Commands and Channel to an AI engine.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aisrv.engine.acquisition import take_frame
from aisrv.engine.commands import GET_HANDLERS, SET_HANDLERS, infer
from aisrv.engine.handlers import SMALL, Answer, GetHandler, SetHandler
from aisrv.engine.state import AIEngine, CommandFailed
from aisrv.inference.errors import InferenceError
from aisrv.protocol.commands import AcquireMode, Command, Status, command_name, is_set
from aisrv.protocol.engine_channel import answer_get, answer_set, receive_command, receive_set, refuse_get
from aisrv.xcore.channels.array import Array, ArrayAbandoned
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.listener import Call, HandedCall
from aisrv.xcore.select import Case, Event, OnCall, Selection
from aisrv.xcore.traced import traced_command


async def aiengine(
    engine: AIEngine,
    clients: Sequence[ChanEnd],
    set_handlers: Mapping[int, SetHandler] = SET_HANDLERS,
    get_handlers: Mapping[int, GetHandler] = GET_HANDLERS,
) -> None:
    """Serve the clients' commands one at a time, until cancelled: those that have a handler.

    A command that needs no other task is carried out in the client's while the engine waits.
    """
    await engine.power_up()
    sensor = engine.sensor
    on_call = answers_at_once(engine, set_handlers, get_handlers)
    some_client = client_or_frame = Selection(*clients, on_call=on_call, takes_calls=True)
    if sensor is not None:
        frame = Case(sensor.frames, lambda: engine.streams)
        client_or_frame = Selection(*clients, frame, on_call=on_call, takes_calls=True)
    while True:
        chosen: Event | None = await client_or_frame.wait()
        if sensor is not None and chosen is sensor.frames:
            await serve_frame(engine)
            chosen = await some_client.wait_or_default()  # nobody waits for frame after frame
        if isinstance(chosen, ChanEnd):
            await serve_command(engine, chosen, set_handlers, get_handlers)


def answers_at_once(
    engine: AIEngine, set_handlers: Mapping[int, SetHandler], get_handlers: Mapping[int, GetHandler]
) -> OnCall:
    """Create what carries out the commands that need no other task."""
    gets = {code: handler.at_once for code, handler in get_handlers.items() if handler.at_once is not None}
    sets = {code: handler.at_once for code, handler in set_handlers.items() if handler.at_once is not None}

    def answer(call: Call) -> tuple[int, bytes] | None:
        command, tensor, array, room = call
        try:
            if is_set(command):
                if (run := sets.get(command)) is None:
                    return None
                run(engine, tensor, Array(array, len(array)))
                return Status.OKAY, b""
            if (get := gets.get(command)) is None or room <= SMALL:
                return None
            data: Any = get(engine, tensor)
        except CommandFailed as failure:
            return engine.record(command, failure), b""
        return (Status.OKAY, bytes(data)) if len(data) < room else None

    return answer


async def serve_frame(engine: AIEngine) -> None:
    """Infer on the frame of a stream that has come.

    Without a frame, or a place for one, the stream ends. An inference that fails does not end it, since
    nobody may be there to start it again, and the next frame may well succeed.
    """
    try:
        await take_frame(engine)
    except CommandFailed as failure:
        engine.acquire_mode = AcquireMode.SINGLE
        engine.record(
            Command.START_ACQUIRE_STREAM, CommandFailed(failure.status, f"{failure}; the stream ends")
        )
        return
    try:
        await infer(engine)
    except CommandFailed as failure:
        engine.record(Command.START_ACQUIRE_STREAM, failure)
    except InferenceError as error:
        engine.record(Command.START_ACQUIRE_STREAM, CommandFailed.of(error))
    else:
        await engine.output_changed()


async def serve_command(
    engine: AIEngine,
    c: ChanEnd,
    set_handlers: Mapping[int, SetHandler],
    get_handlers: Mapping[int, GetHandler],
) -> None:
    """Take one command from a client and answer it."""
    if (handed := c.take_call()) is not None:
        await _serve_call(engine, handed, set_handlers)
        return
    command, tensor = await receive_command(c)
    if is_set(command):
        serving = _serve_set(engine, c, command, tensor, set_handlers.get(command, _UNKNOWN_SET))
    else:
        serving = _serve_get(engine, c, command, tensor, get_handlers.get(command))
    if c.runtime.tracer is None:
        await serving
        return
    with traced_command(command_name(command), c, c.runtime):
        await serving


def _unknown() -> CommandFailed:
    return CommandFailed(Status.ERROR_BAD_CMD, "the engine does not know this command")


async def _refuse(_engine: AIEngine, _tensor: int, _array: Array) -> None:
    raise _unknown()


_UNKNOWN_SET: Final = SetHandler(_refuse)


async def _serve_get(
    engine: AIEngine, c: ChanEnd, command: int, tensor: int, handler: GetHandler | None
) -> None:
    try:
        if handler is None:
            raise _unknown()
        answer = handler.run(engine, tensor)
        data = answer if isinstance(answer, Answer) else await answer
    except CommandFailed as failure:
        await refuse_get(c, engine.record(command, failure))
    else:
        await answer_get(c, data)


async def _serve_set(engine: AIEngine, c: ChanEnd, command: int, tensor: int, handler: SetHandler) -> None:
    try:
        array = await receive_set(c, handler.limit(engine))
    except ArrayAbandoned:
        engine.log.write(f"{command_name(command)}: the host gave up in the middle of the data")
        return
    await answer_set(c, await _carry_out(engine, command, tensor, array, handler))


async def _serve_call(engine: AIEngine, handed: HandedCall, set_handlers: Mapping[int, SetHandler]) -> None:
    """Carry out a SET that came whole."""
    command, tensor, data, _ = handed.call
    handler = set_handlers.get(command, _UNKNOWN_SET)
    array = Array(bytes(data[: handler.limit(engine)]), len(data))
    handed.give((await _carry_out(engine, command, tensor, array, handler), b""))


async def _carry_out(
    engine: AIEngine, command: int, tensor: int, array: Array, handler: SetHandler
) -> Status:
    """Carry out a SET; return its status."""
    try:
        await handler.run(engine, tensor, array)
    except CommandFailed as failure:
        return engine.record(command, failure)
    except InferenceError as error:
        return engine.record(command, CommandFailed.of(error))
    return Status.OKAY
