"""Receives a frame of a camera with a parallel bus, by a buffered port that the pixel clock clocks.

Time is virtual. Run it with `python examples/pins/camera_receiver.py`.
"""

from pathlib import Path
from typing import Final

import trio
from trio.testing import MockClock

from aisrv.board.toml_file import read_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.xcore.ports.port import Port
from aisrv.xcore.tile import Tile

BOARD: Final = read_board(Path(__file__).with_name("camera.toml"))
WIDTH: Final = 16
HEIGHT: Final = 4
PIXELS: Final = 4
"""Of a word."""
LIGHT: Final = 128


class CameraReceiver:
    """Ports on a camera's bus: eight bits of data, and one bit each for its clock and its two signals."""

    def __init__(self, tile: Tile, data: str, pclk: str, hsync: str, vsync: str) -> None:
        clock = tile.allocate_clock_block()
        source = tile.port(pclk)
        source.enable()
        clock.set_source_port(source)
        self._data, self._hsync, self._vsync = tile.port(data), tile.port(hsync), tile.port(vsync)
        self._data.start_buffered(8 * PIXELS)
        self._data.set_clock(clock)
        for port in (self._hsync, self._vsync):
            port.enable()
            port.set_clock(clock)
        clock.start()

    async def receive(self) -> list[bytes]:
        """Receive the rows of the next frame."""
        for level in (1, 0):
            await _sees(self._vsync, level)
        return [await self._receive_row() for _ in range(HEIGHT)]

    async def _receive_row(self) -> bytes:
        await _sees(self._hsync, 1)
        first = self._hsync.get_trigger_time()  # of the first pixel
        words = [await self._data.in_at_time(first + PIXELS - 1 & 0xFFFF)]
        words += [await self._data.in_() for _ in range(WIDTH // PIXELS - 1)]
        await _sees(self._hsync, 0)
        return b"".join(word.to_bytes(PIXELS, "little") for word in words)


async def _sees(port: Port, level: int) -> None:
    """Wait until a port of one bit has a level at its clock."""
    port.set_trigger_in_equal(level)
    await port.in_()


async def show(tile: Tile) -> None:
    """Print the first frame: light pixels are #."""
    receiver = CameraReceiver(tile, "8B", "1E", "1F", "1G")
    for row in await receiver.receive():
        print("".join("#" if pixel >= LIGHT else "." for pixel in row))


async def main() -> None:
    """Receive a frame on a core of tile 1."""
    async with open_device(BOARD, runner=inline) as device:
        tile = device.node.tiles[1]
        tile.start(show, tile)
        await trio.sleep(0.01)


if __name__ == "__main__":
    trio.run(main, clock=MockClock(autojump_threshold=0))
