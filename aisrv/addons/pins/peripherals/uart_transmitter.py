"""A UART's transmitter on a pin."""

from typing import Final

import trio

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.addons.pins.peripherals.uart_format import DEFAULT_FORMAT, UartFormat
from aisrv.xcore.ports.pin import Pin

PIECE: Final = 64
"""Bytes that are laid down at once."""


class UartTransmitter:
    """Sends bytes one after the other, without pauses."""

    def __init__(
        self,
        name: str,
        pin: Pin,
        format: UartFormat = DEFAULT_FORMAT,  # noqa: A002 - what it is
        data: bytes = b"",
    ) -> None:
        """Send on a pin; `data` is sent as soon as it runs."""
        self.name: Final = name
        self._pin = pin
        self._format = format
        self._data = data
        self._driver = PinDriver(name)
        self._free_from = 0
        self._turn = trio.Lock()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the line idle, and send what there is, until cancelled."""
        self._pin.drive(1, self._driver)
        task_status.started()
        try:
            await self.send(self._data)
            await trio.sleep_forever()
        finally:
            self._pin.withdraw(self._driver)
            self._pin.release(self._driver)

    async def send(self, data: bytes) -> None:
        """Send bytes, and return when the last stop bit has ended. A cancelled one ends with its frame."""
        async with self._turn:
            for at in range(0, len(data), PIECE):
                await self._send(data[at : at + PIECE])

    async def _send(self, data: bytes) -> None:
        form, pin = self._format, self._pin
        start = max(pin.runtime.clock.ticks() + 1, self._free_from)
        levels = [level for byte in data for level in form.frame(byte)]
        pin.drive_at([form.tick(start, at) for at in range(len(levels))], levels, self._driver)
        self._free_from = form.tick(start, len(levels))
        try:
            await pin.until(self._free_from)
        except trio.Cancelled:
            sent = max(pin.runtime.clock.ticks() - start, 0) * len(levels) // (self._free_from - start)
            self._free_from = form.tick(start, -(-sent // form.length) * form.length)
            pin.withdraw(self._driver, self._free_from - 1)
            pin.drive(1, self._driver, self._free_from)
            raise
