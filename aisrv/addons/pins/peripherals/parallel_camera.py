"""A camera with a parallel bus: eight data lines, a pixel clock, and signals of rows and frames.

Data change with the falling edge of the pixel clock, to be sampled at the rising one; `hsync` is high while
they are pixels of a row, `vsync` is high for some lines before a frame. The clock runs all the time. Times
without pixels are counted in clocks and lines. Source: OmniVision, OV7670 data sheet, version 1.4, figures
"Horizontal Timing" and "VGA Frame Timing"; there `hsync` is HREF.
"""

from collections.abc import Sequence
from math import gcd
from typing import Final, NamedTuple, Protocol

import trio
from msgspec import Struct

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.pin import HIGH, LOW, Pin

BITS: Final = 8


class CameraPins(NamedTuple):
    """The pins of a bus; data from bit 0 on."""

    data: tuple[Pin, ...]
    pclk: Pin
    hsync: Pin
    vsync: Pin


class CameraFrame(Protocol):
    """A frame of some rows of equally many bytes."""

    @property
    def height(self) -> int:
        """Rows."""

    @property
    def data(self) -> bytes:
        """The bytes, row by row."""


class CameraFrames(Protocol):
    """Where a camera has its frames from."""

    async def frame(self) -> CameraFrame | None:
        """Take the next frame, as soon as there is one; None where none will come any more."""


class Blanking(Struct, frozen=True):
    """Times without pixels."""

    row: int = 144
    """Clocks after each row; with those of the row they are a line."""
    sync: int = 3
    """Lines for which `vsync` is high."""
    before: int = 17
    """Lines from there to the first row."""
    after: int = 10
    """Lines after the last row."""


OV7670: Final = Blanking()
"""Times of that camera."""


class ParallelCamera:
    """Sends each frame as it is there, the next one when the one before has ended."""

    def __init__(
        self,
        name: str,
        pins: CameraPins,
        frames: CameraFrames,
        *,
        clock: int = 10_000_000,
        blanking: Blanking = OV7670,
    ) -> None:
        """Send frames with a pixel clock of so many Hz, up to 50 MHz."""
        self.name: Final = name
        self._pins = pins
        self._frames = frames
        self._hz = clock
        self._blanking = blanking
        self._driver = PinDriver(name)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Clock the bus until cancelled, and send the frames that there are."""
        data, pclk, hsync, vsync = self._pins
        node_clock = pclk.runtime.clock
        common = gcd(TICKS_PER_SECOND, self._hz)
        edges = ClockEdges(node_clock.ticks() + 1, TICKS_PER_SECOND // common, self._hz // common)
        for pin in (*data, hsync, vsync):
            pin.drive(LOW, self._driver)
        pclk.drive_clock(edges, self._driver)
        task_status.started()
        try:
            edge = 1
            while (frame := await self._frames.frame()) is not None:
                edge = await self._send(frame, edges, max(edge, edges.falling_until(node_clock.ticks()) + 2))
            await trio.sleep_forever()
        finally:
            for pin in (*data, pclk, hsync, vsync):
                pin.withdraw(self._driver)
                pin.release(self._driver)

    async def _send(self, frame: CameraFrame, edges: ClockEdges, edge: int) -> int:
        """Send a frame from a falling edge on; return the one after it, which has come then."""
        blanking, vsync = self._blanking, self._pins.vsync
        length = len(frame.data) // frame.height
        line = length + blanking.row
        ends = edge + blanking.sync * line
        vsync.drive_at((edges.falling(edge), edges.falling(ends)), (HIGH, LOW), self._driver)
        edge = ends + blanking.before * line
        for at in range(frame.height):
            await vsync.until(edges.falling(edge - line))  # so that a row is on the pins a line ahead
            row = frame.data[at * length : (at + 1) * length]
            self._lay_down(row, edges.falling_ticks(edge, edge + length + 1))
            edge += line
        edge += blanking.after * line
        await vsync.until(edges.falling(edge))
        return edge

    def _lay_down(self, row: bytes, ticks: Sequence[int]) -> None:
        """Lay a row down on the pins, a byte at each tick, and its end at the last one."""
        self._pins.hsync.drive_at((ticks[0], ticks[-1]), (HIGH, LOW), self._driver)
        for bit, pin in enumerate(self._pins.data):
            changes: list[int] = []
            levels: list[int] = []
            level = LOW
            for tick, byte in zip(ticks, (*row, 0), strict=True):
                if byte >> bit & 1 != level:
                    level ^= 1
                    changes.append(tick)
                    levels.append(level)
            pin.drive_at(changes, levels, self._driver)
