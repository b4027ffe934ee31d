"""The SPI buffer: the task between the slave and one engine, of which it is a client.

It passes blocks on as they come, and keeps the shared memory up to date with the engine. Source: "XCORE AI
server: numbers and wire behavior", section SPI.
"""

import logging
from typing import Final

from aisrv.protocol.commands import FETCHED, Command, Fetched, Spec, Status
from aisrv.protocol.engine_channel import (
    MODEL_CHANGED,
    OUTPUT_CHANGED,
    get_command,
    get_large,
    set_command,
    take_notification,
)
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.select import Case, Event, Selection
from aisrv.xcore.tokens import WORD_BYTES
from phy.spi.destination import Destination, EngineSet, Nowhere
from phy.spi.shared_memory import BLOCK_SIZE, SharedMemory

logger = logging.getLogger(__name__)

_MODELS: Final = frozenset((Command.SET_MODEL_ARENA, Command.SET_MODEL_EXT))
_REGION_BYTES: Final = 12


class SpiBuffer:
    """The state of the task: the shared memory, its ends, and the set that is in progress."""

    def __init__(
        self,
        memory: SharedMemory,
        slave: ChanEnd,
        engine: ChanEnd,
        changes: ChanEnd | None = None,
        server: Destination | None = None,
    ) -> None:
        self._memory = memory
        self._slave = slave
        self._engine = engine
        self._changes = changes
        self._destinations: dict[int, Destination] = {
            Command.SET_MODEL_ARENA: EngineSet(engine, Command.SET_MODEL_ARENA),
            Command.SET_MODEL_EXT: EngineSet(engine, Command.SET_MODEL_EXT),
            Command.SET_INPUT_TENSOR: EngineSet(engine, Command.SET_INPUT_TENSOR),
            Command.SET_SERVER: server or Nowhere(memory, "SET_SERVER refused: the board has no flash"),
        }
        self._set: int | None = None  # command of the set in progress
        self._errors = Status.OKAY  # of the action in progress
        self._sensor_bytes = b""  # the spec's word that the engine's lacks
        self._output_bytes = 0  # of the model, by its spec

    async def run(self) -> None:
        self._sensor_bytes = await self._fetch(Command.GET_SENSOR_TENSOR_LENGTH)
        await self._refresh_spec()
        await self._refresh(Fetched.AT_START)
        cases: list[Event | Case] = [self._slave]
        if self._changes is not None:
            cases.append(Case(self._changes, lambda: self._set is None))  # the engine could answer nothing
        something = Selection(*cases)
        while True:
            if await something.wait() is self._slave:
                await self._carry_out(await self._slave.inuint())
                self._end_busy()
            else:
                await self._take_notifications()

    async def _carry_out(self, command: int) -> None:
        if self._set is not None and command != self._set:
            await self._abandon(f"{Command(command).name} came")
        if command in self._destinations:
            await self._take_block(command)
        elif command == Command.START_INFER:
            await self._infer()
        else:
            await self._acquire()

    def _end_busy(self) -> None:
        errors, self._errors = self._errors, Status.OKAY
        self._memory.finish(errors)

    async def _take_block(self, command: int) -> None:
        destination = self._destinations[command]
        block = self._memory.block
        if self._memory.block_length > BLOCK_SIZE:
            if self._set is not None:
                await self._abandon(f"a block of {self._memory.block_length} bytes came")
            self._refuse_block(command)
            await self._note(Status.ERROR_BAD_CMD)
            return
        if self._set is None:
            await destination.begin()
        if len(block) == BLOCK_SIZE:
            self._set = command
            await destination.data(block)
            return
        self._set = None
        await self._note(await destination.end(block))
        if command in _MODELS:
            await self._take_notifications(MODEL_CHANGED)  # a failure too changes it: no model is left

    async def _abandon(self, reason: str) -> None:
        assert self._set is not None  # noqa: S101 - for the type checker
        command, self._set = self._set, None
        logger.warning("%s was given up in the middle of its data: %s", Command(command).name, reason)
        await self._destinations[command].abandon()

    def _refuse_block(self, command: int) -> None:
        length = self._memory.block_length
        self._memory.refuse(
            f"{Command(command).name} refused: {length} bytes, a block has at most {BLOCK_SIZE}"
        )

    async def _infer(self) -> None:
        if not await self._start(Command.START_INFER, b""):
            await self._refresh_results()

    async def _refresh_results(self) -> None:
        # A question about a tensor that is not there would count as an error of the engine's.
        output = await self._fetch_large(Command.GET_OUTPUT_TENSOR) if self._output_bytes else b""
        self._memory.answers[Command.GET_OUTPUT_TENSOR] = output
        await self._refresh(Fetched.WITH_RESULTS)

    async def _acquire(self) -> None:
        block = self._memory.block
        if self._memory.block_length > BLOCK_SIZE:
            self._refuse_block(Command.START_ACQUIRE_SINGLE)
            await self._note(Status.ERROR_BAD_CMD)
            return
        self._memory.status |= Status.SENSING
        region = block if any(block[_REGION_BYTES:]) else block[:_REGION_BYTES]  # zeros are padding
        if not any(region):
            region = b""
        if not await self._start(Command.START_ACQUIRE_SINGLE, region):
            frame = await self._fetch_large(Command.GET_SENSOR_TENSOR)
            self._memory.answers[Command.GET_OUTPUT_TENSOR] = frame

    async def _start(self, command: Command, data: bytes) -> Status:
        status = await set_command(self._engine, command, 0, data)
        await self._take_notifications()  # first, as it may empty the results for those of a new model
        return await self._note(status)

    async def _refresh_spec(self) -> None:
        """Fetch the spec of a model that may be new; the results of the previous model are dropped."""
        for command in (Command.GET_OUTPUT_TENSOR, *FETCHED[Fetched.WITH_RESULTS]):
            self._memory.answers[command] = b""
        if words := await self._fetch(Command.GET_SPEC):
            self._output_bytes = Spec.from_bytes(words).output_bytes
            self._memory.answers[Command.GET_SPEC] = words + self._sensor_bytes.ljust(WORD_BYTES, b"\0")
        await self._refresh(Fetched.WITH_MODEL)

    async def _refresh(self, moment: Fetched) -> None:
        for command in FETCHED[moment]:
            self._memory.answers[command] = await self._fetch(command)

    async def _take_notifications(self, *known: int) -> None:
        """Acknowledge the notifications of the engine, then fetch what they and `known` say has changed."""
        notifications = set(known)
        while self._changes is not None and self._changes.ready:
            notifications.add(await take_notification(self._changes))
        if MODEL_CHANGED in notifications:
            await self._refresh_spec()
        if OUTPUT_CHANGED in notifications:
            await self._refresh_results()

    async def _fetch(self, command: int) -> bytes:
        status, data = await get_command(self._engine, command)
        await self._note(status)
        return data

    async def _fetch_large(self, command: int) -> bytes | memoryview:
        status, data = await get_large(self._engine, command)
        await self._note(status)
        return data

    async def _note(self, status: Status) -> Status:
        """Keep a failure for the end of the action, and fetch the engine's debug log."""
        if status:
            self._errors |= status
            log_status, log = await get_command(self._engine, Command.GET_DEBUG_LOG)
            if not log_status:
                self._memory.answers[Command.GET_DEBUG_LOG] = log
        return status


async def spi_buffer(
    memory: SharedMemory,
    slave: ChanEnd,
    engine: ChanEnd,
    changes: ChanEnd | None = None,
    server: Destination | None = None,
) -> None:
    """Serve one slave and one engine until cancelled.

    `slave` is the other end of the slave's channel, `engine` a client's end of the engine's. On `changes` the
    engine sends MODEL_CHANGED and OUTPUT_CHANGED before it takes its next command, and no second one of a
    kind before the ACK; without it no other client may set models or stream. `server` takes SET_SERVER.
    """
    await SpiBuffer(memory, slave, engine, changes, server).run()
