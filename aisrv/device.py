"""The composition root: builds a device from a board, as the firmware's `main.xc` does.

Tasks on tiles, joined by channels: one core an engine, and on the USB tile XUD, endpoint 0 and the data task.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from aisrv.aiengine import aiengine
from aisrv.board import Board, UsbProtocol
from aisrv.debug_log import DebugLog
from aisrv.engine_channel import set_command
from aisrv.engine_commands import IOSERVER_SET_HANDLERS, SET_HANDLERS, SetHandler
from aisrv.engine_state import AIEngine
from aisrv.inference.engine import InferenceEngine, RunnerFactory
from aisrv.inference.isolation import isolated
from aisrv.inference.timings import DeviceModel
from aisrv.protocol import Command, Spec, Status
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.node import Node, open_node
from phy.usb.bus import UsbBus
from phy.usb.data import UsbData
from phy.usb.data_task import DataTask
from phy.usb.descriptors import aisrv_descriptors
from phy.usb.ep0 import usb_ep0
from phy.usb.ioserver import UsbIoserver

DATA_TASKS: Final[dict[UsbProtocol, type[DataTask]]] = {
    UsbProtocol.AISRV: UsbData,
    UsbProtocol.IOSERVER: UsbIoserver,
}
"""The task at the bulk endpoints, by what the device speaks."""

ENGINE_SETS: Final[dict[UsbProtocol, Mapping[int, SetHandler]]] = {
    UsbProtocol.AISRV: SET_HANDLERS,
    UsbProtocol.IOSERVER: IOSERVER_SET_HANDLERS,
}
"""The SET commands that engines know, by what the device speaks."""


class ModelRefused(Exception):
    """A model that the device's own program set, and an engine refused; the text is its debug log."""


class Device:
    """A running device: its node, engines, USB bus, and a channel of its own to each engine."""

    def __init__(
        self, board: Board, node: Node, engines: Sequence[AIEngine], usb: UsbBus, local: Sequence[ChanEnd]
    ) -> None:
        self.board: Final = board
        self.node: Final = node
        self.engines: Final = tuple(engines)
        self.usb: Final = usb
        self.local: Final = tuple(local)
        """Channel ends for an embedding program, a client of each engine by number."""

    async def load_model(
        self, model: bytes, *, engine: int = 0, command: Command = Command.SET_MODEL_ARENA
    ) -> None:
        """Set the model of an engine over its local channel; raises ModelRefused with the reason."""
        status = await set_command(self.local[engine], command, 0, model)
        if status is not Status.OKAY:
            text = bytes(self.engines[engine].log).rstrip(b"\0").decode(errors="replace")
            raise ModelRefused(f"engine {engine} answered {status!r}: {text.strip()}")


@asynccontextmanager
async def open_device(
    board: Board | None = None, *, runner: RunnerFactory = isolated
) -> AsyncIterator[Device]:
    """Run a device for as long as the block lasts.

    `runner` says where models execute, by default each in a process of its own. A device on virtual time
    needs `aisrv.inference.inline.inline`: a clock that jumps does not wait for a process.
    """
    board = board or Board()
    engines: list[AIEngine] = []
    try:
        async with open_node(tiles=board.tiles, core_clock_mhz=board.core_clock_mhz) as node:
            device = _build(board, node, runner)
            engines.extend(device.engines)
            yield device
            node.stop()
    finally:
        with trio.CancelScope(shield=True):
            for engine in engines:
                await engine.inference.unload_model()


@asynccontextmanager
async def open_devices(
    boards: Sequence[Board], *, runner: RunnerFactory = isolated
) -> AsyncIterator[tuple[Device, ...]]:
    """Run a device for each board, side by side, for as long as the block lasts."""

    async def run(board: Board, *, task_status: trio.TaskStatus[Device]) -> None:
        async with open_device(board, runner=runner) as device:
            task_status.started(device)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        yield tuple([await nursery.start(run, board) for board in boards])
        nursery.cancel_scope.cancel()


def _build(board: Board, node: Node, runner: RunnerFactory) -> Device:
    hardware = Spec(
        tiles=board.tiles,
        internal_kib=board.internal_kib,
        flash_kib=board.flash_kib,
        external_kib=board.external_kib,
    )
    clients: list[list[ChanEnd]] = [[] for _ in board.engines]

    def connect(tile: int, engine: int) -> ChanEnd:
        channel = node.channel(node.tiles[tile], node.tiles[board.engines[engine].tile])
        clients[engine].append(channel.b)
        return channel.a

    engines = []
    for number, spec in enumerate(board.engines):
        node.tiles[spec.tile].memory.allocate(f"arena of engine {number}", spec.arena_bytes)
        log = DebugLog(logging.getLogger(f"aisrv.engine{number}"))
        inference = InferenceEngine(
            runner,
            arena_bytes=spec.arena_bytes,
            external_bytes=spec.external_bytes,
            device=DeviceModel(clock_mhz=board.core_clock_mhz, threads=spec.threads),
            log=log.write,
        )
        chain = None if spec.chain_to is None else connect(spec.tile, spec.chain_to)
        engines.append(AIEngine(inference, log, hardware=hardware, chain=chain))

    every = range(len(engines))
    usb = UsbBus(aisrv_descriptors(board.serial))
    clients_of_usb = [connect(board.usb_tile, number) for number in every]
    data = DATA_TASKS[board.protocol](usb.out, usb.into, clients_of_usb, "usb")
    local = [connect(board.engines[number].tile, number) for number in every]

    usb_tile = node.tiles[board.usb_tile]
    usb_tile.reserve_core("XUD")
    usb_tile.start(usb_ep0, usb)
    usb_tile.start(data.run, name="usb_data")
    for number, engine in enumerate(engines):
        tile = node.tiles[board.engines[number].tile]
        sets = ENGINE_SETS[board.protocol]
        tile.start(aiengine, node, engine, clients[number], sets, name=f"aiengine {number}")
    return Device(board, node, engines, usb, local)
