"""An SPI master of four ports, bit by bit, on the pins of the device's own SPI port.

It does what a host on the other end does: it asks for the device's id, sets an input, has the engine run and
reads the output, as docs/reference/spi.md has it. Time is virtual: everything is exact to the tick of 10 ns.
Run it with `python examples/pins/spi_master.py`, or with the name of a file for a recording of the pins.
"""

import sys
from pathlib import Path
from typing import Final

import trio
from trio.testing import MockClock

from aisrv import digits
from aisrv.addons.pins.board import recorded
from aisrv.board.toml_file import read_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command, Status
from aisrv.xcore.tile import Tile

BOARD: Final = read_board(Path(__file__).with_name("spi.toml"))
DUMMY: Final = bytes(2)
"""Between the command of a read and its data."""
HALF: Final = 10
"""Ticks of half a clock: 5 MHz."""
IDLE: Final = 20
"""Ticks that chip select is high between transactions."""


class SpiMaster:
    """An SPI controller in mode 0 of one core: four ports of one bit and a timer."""

    def __init__(self, tile: Tile) -> None:
        self._cs, self._clk, self._mosi, self._miso = (tile.port(name) for name in ("1A", "1B", "1C", "1D"))
        self._timer = tile.allocate_timer()
        for port in (self._cs, self._clk, self._mosi, self._miso):
            port.enable()

    async def begin(self) -> None:
        """Drive the lines of an idle bus."""
        await self._cs.out(1)
        await self._clk.out(0)
        await self._mosi.out(0)
        await self._wait(IDLE)

    async def transfer(self, data: bytes) -> bytes:
        """Clock bytes in one transaction; return as many."""
        await self._cs.out(0)
        await self._wait(HALF)
        answer = bytes([await self._byte(byte) for byte in data])
        await self._wait(HALF)
        await self._cs.out(1)
        await self._wait(IDLE)
        return answer

    async def read(self, command: Command, size: int) -> bytes:
        """Return what a command answers."""
        return (await self.transfer(bytes((command,)) + DUMMY + bytes(size)))[3:]

    async def write(self, command: Command, data: bytes = b"") -> None:
        """Give a command, with its data, and wait until the device is not busy."""
        await self.transfer(bytes((command,)) + data)
        while Status.BUSY in Status((await self.read(Command.GET_STATUS, 4))[0]):
            pass  # reading the status takes time

    async def _byte(self, byte: int) -> int:
        answer = 0
        for at in range(7, -1, -1):
            await self._mosi.out(byte >> at & 1)
            await self._wait(HALF)
            await self._clk.out(1)
            answer = answer << 1 | self._miso.peek()
            await self._wait(HALF)
            await self._clk.out(0)
        return answer

    async def _wait(self, ticks: int) -> None:
        await self._timer.wait_after(self._timer.now() + ticks)


async def classify(tile: Tile, image: bytes, label: int, done: trio.Event) -> None:
    """Print the device's id, and the digit that it reads in an image; a task for a core."""
    master = SpiMaster(tile)
    await master.begin()
    print(f"id {(await master.read(Command.GET_ID, 4))[::-1].hex()}")
    await master.write(Command.SET_INPUT_TENSOR, image)
    await master.write(Command.START_INFER)
    output = await master.read(Command.GET_OUTPUT_TENSOR, digits.CLASSES)
    scores = memoryview(output).cast("b")
    print(f"reads {max(range(digits.CLASSES), key=scores.__getitem__)}, it is a {label}")
    done.set()


async def main(recording: Path | None = None) -> None:
    """Open the board with the digits network, and start the master on tile 0."""
    async with open_device(recorded(BOARD, recording), runner=inline) as device:
        await device.load_model(digits.model_bytes())
        done = trio.Event()
        image, label = digits.test_images()[7]
        device.node.tiles[0].start(classify, device.node.tiles[0], image, label, done)
        await done.wait()


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    trio.run(main, file, clock=MockClock(autojump_threshold=0))
