"""An I2C controller, bit by bit, as UM10204 has it: for tests of targets, right and wrong."""

from aisrv.xcore.ports.pin import Pin
from tests.support.benches.pin_bench import Line


class I2cController:
    """Drives SCL and SDA as open drains, in times of ticks; by default 400 kHz."""

    def __init__(self, scl: Pin, sda: Pin, *, low: int = 140, high: int = 110, setup: int = 70) -> None:
        self.scl, self.sda = scl, sda
        self.low, self.high, self.setup = low, high, setup
        self.line = Line("controller", open_drain=True)
        self.now = scl.runtime.clock.ticks()

    async def wait(self, ticks: int) -> None:
        self.now += ticks
        await self.scl.until(self.now)

    async def clock_high(self) -> None:
        """Release SCL, and wait while a target holds it."""
        self.scl.drive(1, self.line)
        if not self.scl.value():
            self.now = await self.scl.edge(rising=True)

    async def start(self) -> None:
        """Give a start, or a repeated one."""
        self.sda.drive(1, self.line)
        await self.wait(self.setup)
        await self.clock_high()
        await self.wait(self.high)
        self.sda.drive(0, self.line)
        await self.wait(self.high)
        self.scl.drive(0, self.line)
        await self.wait(self.low - self.setup)

    async def stop(self) -> None:
        self.sda.drive(0, self.line)
        await self.wait(self.setup)
        await self.clock_high()
        await self.wait(self.high)
        self.sda.drive(1, self.line)
        await self.wait(2 * self.low)

    async def bit(self, bit: int) -> int:
        """Send a bit, 1 to receive one; return SDA in the middle of SCL's high time."""
        self.sda.drive(bit, self.line)
        await self.wait(self.setup)
        await self.clock_high()
        await self.wait(self.high // 2)
        seen = self.sda.value()
        await self.wait(self.high - self.high // 2)
        self.scl.drive(0, self.line)
        await self.wait(self.low - self.setup)
        return seen

    async def write(self, byte: int) -> bool:
        """Send a byte; return whether it was acknowledged."""
        for at in range(7, -1, -1):
            await self.bit(byte >> at & 1)
        return not await self.bit(1)

    async def read(self, *, last: bool = False) -> int:
        """Receive a byte, and acknowledge it unless it is the last."""
        value = 0
        for _ in range(8):
            value = value << 1 | await self.bit(1)
        await self.bit(int(last))
        return value
