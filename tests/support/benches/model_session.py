"""A model on a device, run over its USB port by a host in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board
from aisrv.device.device import Device, open_device
from aisrv.inference.engine import Runners
from aisrv.model.reader import read_model
from aisrv.protocol.commands import PACKET_SIZE, Command


class ModelSession:
    """The classic framing; a command that fails is a TransferFailed."""

    def __init__(self, device: Device) -> None:
        self.device: Final = device
        self._host = InProcessHost(device.usb)
        self._outputs: list[int] = []

    async def load(self, model: bytes) -> None:
        """Set a model in external memory."""
        await self._host.plug_in()
        await self._set(Command.SET_MODEL_EXT, 0, model)
        self._outputs = [tensor.nbytes for tensor in read_model(model).output_tensors]

    async def run(self, *inputs: bytes) -> list[bytes]:
        """Write all inputs, run the model once, and read all outputs."""
        for number, data in enumerate(inputs):
            await self._set(Command.SET_INPUT_TENSOR, number, data)
        await self._set(Command.START_INFER, 0, b"")
        return [
            await self._get(Command.GET_OUTPUT_TENSOR, number, size)
            for number, size in enumerate(self._outputs)
        ]

    async def _set(self, command: Command, tensor: int, data: bytes) -> None:
        await self._host.write(bytes((command, 0, tensor)))
        await self._host.write(data, zero_packet=True)

    async def _get(self, command: Command, tensor: int, size: int) -> bytes:
        await self._host.write(bytes((command, 0, tensor)))
        return await self._host.read(
            size + PACKET_SIZE
        )  # with room for a packet, so that a short one ends it


@asynccontextmanager
async def model_session(
    model: bytes, runner: Runners, board: Board | None = None
) -> AsyncIterator[ModelSession]:
    """Start a device with a model."""
    async with open_device(board, runner=runner) as device:
        session = ModelSession(device)
        await session.load(model)
        yield session
