"""Loading models: from the data of a host, or from flash."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from aisrv.engine import acquisition
from aisrv.engine.handlers import carries_out
from aisrv.engine.state import INTERPRETER, AIEngine, CommandFailed
from aisrv.inference.interpreter import ModelBytes
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.memory_map import ModelMemory
from aisrv.xcore.channels.array import Array
from aisrv.xcore.traced import traced_wait
from flash_server.protocol import FAILURE_TEXTS, FlashFailure, FlashReadError

if TYPE_CHECKING:
    from flash_server.client.flash_channel import FlashChannel
    from flash_server.client.images import InPlaceImage, Window


def _arena_bytes(engine: AIEngine) -> int:
    return engine.inference.arena_bytes


def _external_bytes(engine: AIEngine) -> int:
    return engine.inference.external_bytes


@carries_out(Command.SET_MODEL_ARENA, _arena_bytes)
async def _set_arena(engine: AIEngine, _tensor: int, array: Array) -> None:
    await _set_model(engine, array, ModelMemory.ARENA)


@carries_out(Command.SET_MODEL_EXT, _external_bytes)
async def _set_external(engine: AIEngine, _tensor: int, array: Array) -> None:
    await _set_model(engine, array, ModelMemory.EXT)


@carries_out(Command.SET_MODEL_ARENA_FLASH)
async def _set_arena_from_flash(engine: AIEngine, _tensor: int, _array: Array) -> None:
    await _set_model_from_flash(engine, ModelMemory.ARENA, _arena_bytes)


@carries_out(Command.SET_MODEL_EXT_FLASH)
async def _set_external_from_flash(engine: AIEngine, _tensor: int, _array: Array) -> None:
    await _set_model_from_flash(engine, ModelMemory.EXT, _external_bytes)


async def _set_model(engine: AIEngine, array: Array, memory: ModelMemory) -> None:
    try:
        if array.overflowed:
            from aisrv.inference.placement import model_shortage

            await engine.inference.unload_model()
            raise model_shortage(array.length, len(array.data), memory)
        await _load(engine, array.data, memory)
    finally:
        await engine.model_changed()


async def _set_model_from_flash(
    engine: AIEngine, memory: ModelMemory, room: Callable[[AIEngine], int]
) -> None:
    if engine.flash is None:
        raise CommandFailed(Status.ERROR_BAD_CMD, "the engine has no flash")
    try:
        await engine.inference.unload_model()
        try:
            found = await _read_from_flash(engine.flash, engine.window, room(engine))
        except FlashReadError as error:
            raise CommandFailed(Status.ERROR_MODEL_ERR, f"{memory.name} memory: {error}") from None
        if isinstance(found, ModelBytes):
            await _load(engine, found, memory)
        else:
            await _load(engine, found.image, memory, found)
    finally:
        await engine.model_changed()


async def _load(
    engine: AIEngine, model: ModelBytes, memory: ModelMemory, in_place: "InPlaceImage | None" = None
) -> None:
    await traced_wait(engine.inference.load_model(model, memory, in_place), "load", INTERPRETER)
    await acquisition.stream_by_itself(engine)


async def _read_from_flash(
    flash: "FlashChannel", window: "Window | None", limit: int
) -> "ModelBytes | InPlaceImage":
    """Read the engine's model, or, where it has none, the relocatable image in another segment.

    With a window that image runs in place.
    """
    try:
        model: ModelBytes = await flash.read_model(limit)
    except FlashReadError as error:
        if error.code != FlashFailure.ABSENT:
            raise
        model = bytearray()
    if model:
        return model
    from flash_server.client.images import open_image, read_image
    from flash_server.image.headers import IMAGE_PARTS

    sizes = await flash.read_sizes()
    if not any(sizes[part] for part in IMAGE_PARTS):
        raise FlashReadError(FlashFailure.ABSENT, FAILURE_TEXTS[FlashFailure.ABSENT])
    return await (read_image(flash, limit) if window is None else open_image(flash, window))
