"""The AI engine: a task that interprets commands from the channel ends of its clients.

A client's command is answered whole before another client's is taken. Whatever a client sends is
answered: failures with a status word and a line in the debug log. While it streams, the engine waits for the
next frame as it waits for clients, so that their commands are answered between frames.

Sources: the design document, section AI Engine; "XCORE AI server: numbers and wire behavior", sections
Commands and Channel to an AI engine.
"""

from collections.abc import Mapping, Sequence

from aisrv.engine.acquisition import take_frame
from aisrv.engine.commands import GET_HANDLERS, SET_HANDLERS, UNKNOWN_SET, GetHandler, SetHandler, infer
from aisrv.engine.state import AIEngine, CommandFailed
from aisrv.inference.errors import InferenceError
from aisrv.protocol.commands import AcquireMode, Command, Status, command_name, is_set
from aisrv.protocol.engine_channel import answer_get, answer_set, receive_command, receive_set, refuse_get
from aisrv.xcore.array import ArrayAbandoned
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.select import Case, Event, Selection


async def aiengine(
    engine: AIEngine,
    clients: Sequence[ChanEnd],
    set_handlers: Mapping[int, SetHandler] = SET_HANDLERS,
    get_handlers: Mapping[int, GetHandler] = GET_HANDLERS,
) -> None:
    """Serve the clients' commands one at a time, until cancelled: those that have a handler."""
    await engine.power_up()
    sensor = engine.sensor
    some_client = client_or_frame = Selection(*clients)
    if sensor is not None:
        client_or_frame = Selection(*clients, Case(sensor.frames, lambda: engine.streams))
    while True:
        chosen: Event | None = await client_or_frame.wait()
        if sensor is not None and chosen is sensor.frames:
            await serve_frame(engine)
            chosen = await some_client.wait_or_default()  # nobody waits for frame after frame
        if isinstance(chosen, ChanEnd):
            await serve_command(engine, chosen, set_handlers, get_handlers)


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
    command, tensor = await receive_command(c)
    if is_set(command):
        handler = set_handlers.get(command, UNKNOWN_SET)
        await _serve_set(engine, c, command, tensor, handler)
    else:
        await _serve_get(engine, c, command, tensor, get_handlers.get(command))


async def _serve_get(
    engine: AIEngine, c: ChanEnd, command: int, tensor: int, handler: GetHandler | None
) -> None:
    try:
        if handler is None:
            raise CommandFailed(Status.ERROR_BAD_CMD, "the engine does not know this command")
        data = await handler(engine, tensor)
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
    status = Status.OKAY
    try:
        await handler.run(engine, tensor, array)
    except CommandFailed as failure:
        status = engine.record(command, failure)
    except InferenceError as error:
        status = engine.record(command, CommandFailed.of(error))
    await answer_set(c, status)
