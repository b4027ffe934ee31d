"""The task of `sensor.toml`: it reads a sensor over I2C by two ports, and an engine says what it sees.

Run it with `aisrv run --board examples/pins/sensor.toml`.
"""

import enum
from typing import Final

from pixel_sensor import ADDRESS, CHIP_ID, ID, NEXT, PIXELS

from aisrv import digits
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.ports.port import Port
from aisrv.xcore.tile import Tile
from aisrv.xcore.timer import Timer
from phy.local import (
    aisrv_local_get_output_tensor,
    aisrv_local_load_model,
    aisrv_local_set_input_tensor,
    aisrv_local_start_inference,
)

FRAMES: Final = 4
LOW: Final = 140
"""Ticks of 10 ns that SCL is low: 400 kHz with those that it is high."""
HIGH: Final = 110


class Result(enum.Enum):
    """What became of a transfer."""

    ACK = "acknowledged"
    NACK = "not acknowledged"


class I2cMaster:
    """An I2C controller of one core: two ports of one bit, which drive 0 alone, and a timer."""

    def __init__(self, scl: Port, sda: Port, timer: Timer) -> None:
        self._scl = scl
        self._sda = sda
        self._timer = timer
        self._now = 0
        for port in (scl, sda):
            port.enable()
            port.set_drive_pull_up()

    async def write(self, address: int, data: bytes, *, stop: bool = True) -> Result:
        """Write bytes; without `stop` a read can follow at once."""
        await self._start()
        for byte in (address << 1, *data):
            if not await self._send(byte):
                await self._stop()
                return Result.NACK
        if stop:
            await self._stop()
        return Result.ACK

    async def read(self, address: int, count: int) -> bytes | None:
        """Read bytes; None where nobody acknowledges the address."""
        await self._start()
        data = None
        if await self._send(address << 1 | 1):
            data = bytes([await self._receive(last=number == count - 1) for number in range(count)])
        await self._stop()
        return data

    async def read_registers(self, address: int, register: int, count: int) -> bytes | None:
        """Read registers that follow each other."""
        if await self.write(address, bytes((register,)), stop=False) is Result.NACK:
            return None
        return await self.read(address, count)

    async def _start(self) -> None:
        await self._sda.out(1)
        await self._rise()
        await self._sda.out(0)
        await self._wait(HIGH)
        await self._fall()

    async def _stop(self) -> None:
        await self._sda.out(0)
        await self._rise()
        await self._sda.out(1)
        await self._wait(LOW)

    async def _send(self, byte: int) -> bool:
        for at in range(7, -1, -1):
            await self._bit(byte >> at & 1)
        return not await self._bit(1)

    async def _receive(self, *, last: bool) -> int:
        value = 0
        for _ in range(8):
            value = value << 1 | await self._bit(1)
        await self._bit(int(last))
        return value

    async def _bit(self, bit: int) -> int:
        """Send a bit, 1 to receive one; return the bit that was on SDA."""
        await self._sda.out(bit)
        await self._rise()
        seen = self._sda.peek()
        await self._fall()
        return seen

    async def _rise(self) -> None:
        """Let SCL go high, and wait while the target holds it low, and then its high time."""
        await self._wait(LOW // 2)
        await self._scl.in_when_pinseq(1)
        self._now = self._timer.now()
        await self._wait(HIGH)

    async def _fall(self) -> None:
        await self._scl.out(0)
        await self._wait(LOW // 2)

    async def _wait(self, ticks: int) -> None:
        self._now = self._timer.now() + ticks
        await self._timer.wait_after(self._now)


async def read_digits(engine: ChanEnd, tile: Tile) -> None:
    """Print the digit in each frame of the sensor."""
    master = I2cMaster(tile.port("1E"), tile.port("1F"), tile.allocate_timer())
    await aisrv_local_load_model(engine, digits.model_bytes())
    if await master.read_registers(ADDRESS, CHIP_ID, 1) != bytes((ID,)):
        print("reader: there is no sensor", flush=True)
        return
    for _ in range(FRAMES):
        await master.write(ADDRESS, bytes((NEXT, 1)))
        pixels = await master.read_registers(ADDRESS, PIXELS, 64) or bytes(64)
        await aisrv_local_set_input_tensor(engine, digits.quantize_pixels(pixels))
        await aisrv_local_start_inference(engine)
        scores = memoryview(await aisrv_local_get_output_tensor(engine)).cast("b")
        print(f"reader: {max(range(digits.CLASSES), key=scores.__getitem__)}", flush=True)
