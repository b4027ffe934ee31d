"""What fits into a device's memory and what does not, as its host learns it: status, debug log, map."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aisrv import digits
from aisrv.board import Board, EngineSpec
from aisrv.device.device import Device, open_device
from aisrv.inference.placement import arena_need
from aisrv.inference.process.inline import inline
from aisrv.model.reader import read_model
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import get_command, set_command

MODEL = digits.model_bytes()
SIZE = len(MODEL)
NEED = arena_need(read_model(MODEL)).total
ADVICE = "; it fits with the model in external memory"
# In external memory less than a tenth of the time are estimates, and nothing is said.
ESTIMATES = "One inference is predicted to take 0.414 ms (0.344 to 0.486): 10.3 % are estimates."
"""What the debug log has of the model when it loads."""


@asynccontextmanager
async def device_with(arena: int, external: int = 0) -> AsyncIterator[Device]:
    engine = EngineSpec(arena_bytes=arena, external_bytes=external)
    async with open_device(Board(engines=(engine,)), runner=inline) as device:
        yield device


async def set_model(device: Device, command: Command, model: bytes = MODEL) -> tuple[Status, str]:
    """The status, and the last line of the debug log as a host reads it."""
    status = await set_command(device.local[0], command, 0, model)
    _, log = await get_command(device.local[0], Command.GET_DEBUG_LOG)
    return status, log.rstrip(b"\0").decode().rpartition(f"{command.name}: ")[2].rstrip("\n")


async def test_model_in_arena_memory_that_fits_exactly() -> None:
    async with device_with(SIZE + NEED) as device:
        assert await set_model(device, Command.SET_MODEL_ARENA) == (Status.OKAY, ESTIMATES)


async def test_tensors_that_lack_a_byte_beside_the_model() -> None:
    async with device_with(SIZE + NEED - 1) as device:
        status, line = await set_model(device, Command.SET_MODEL_ARENA)
        assert status is Status.ERROR_MODEL_ERR
        assert line.endswith(f"need {NEED:,} bytes of the arena: {NEED - 1:,} available, 1 missing")


async def test_tensors_that_would_fit_with_the_model_outside() -> None:
    async with device_with(SIZE + NEED - 1, SIZE) as device:
        status, line = await set_model(device, Command.SET_MODEL_ARENA)
        assert status is Status.ERROR_MODEL_ERR
        assert line.endswith(f"1 missing{ADVICE}")
        status, _ = await set_model(device, Command.SET_MODEL_EXT)
        assert status is Status.OKAY


@pytest.mark.parametrize("command", [Command.SET_MODEL_ARENA, Command.SET_MODEL_EXT])
async def test_what_did_not_fit_leaves_no_model_and_a_device_that_works(command: Command) -> None:
    async with device_with(SIZE + NEED, SIZE) as device:
        await device.load_model(MODEL)
        status, _ = await set_model(device, command, MODEL + bytes(NEED + 1))
        assert status is Status.ERROR_MODEL_ERR
        assert (await get_command(device.local[0], Command.GET_TIMINGS))[0] is Status.ERROR_NO_MODEL
        await device.load_model(MODEL)
