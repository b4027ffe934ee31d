"""A UART's receiver on a pin: bytes, and what is wrong with their frames."""

from collections.abc import Callable
from typing import Final

import trio

from aisrv.addons.pins.peripherals.resistor import resistor
from aisrv.addons.pins.peripherals.uart_format import DEFAULT_FORMAT, Parity, UartFormat
from aisrv.addons.pins.peripherals.violations import Violations
from aisrv.addons.pins.peripherals.wires import Wires
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.ports.pin import HIGH, Pin

LARGEST_SHIFT: Final = 0.25
"""Share of a bit that an edge may be early or late."""


class UartReceiver:
    """Samples each bit in its middle. Frames with an error are named, and their bytes left out."""

    def __init__(
        self,
        name: str,
        pin: Pin,
        format: UartFormat = DEFAULT_FORMAT,  # noqa: A002 - what it is
        *,
        sink: Callable[[int], object] | None = None,
    ) -> None:
        """Receive from a pin; `sink` is called with each byte, besides `received`."""
        self.name: Final = name
        self.violations: Final = Violations(name)
        self.received: Final = bytearray()
        """The bytes so far, eight bits of each, unless a sink has them."""
        self._pin = pin
        self._format = format
        self._sink = self.received.append if sink is None else sink

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Receive until cancelled."""
        with resistor(self.name, HIGH, self._pin), Wires(self._pin) as wires:
            task_status.started()
            while True:
                change = await wires.change()
                if change is not None and not change.level:
                    await self._frame(change.tick, wires)

    async def _frame(self, start: int, wires: Wires) -> None:
        """Receive the frame that began at a tick."""
        form = self._format
        levels = []
        shift = 0.0
        await self._pin.until(form.tick(start, form.length - 0.5))  # then all bits are in the past
        for bit in range(form.length):
            middle = form.tick(start, bit + 0.5)
            while (change := await wires.change(middle)) is not None:
                shift = max(shift, self._shift(change.tick - start))
            levels.append(wires.levels[0])
            if bit == 0 and levels[0]:
                self.violations.add(start, "start bit", "the line was low for less than half a bit")
                return
            if bit >= form.before_stop and not levels[-1]:
                await self._bad_stop(start, levels, wires)
                return
        if shift > LARGEST_SHIFT:
            ns = shift * 1e9 / form.baud
            self.violations.add(start, "baud rate", f"an edge is {ns:.0f} ns off at {form.baud} baud")
        byte = sum(level << at for at, level in enumerate(levels[1 : 1 + form.bits]))
        if form.parity is not Parity.NONE and levels[1 + form.bits] != form.parity.bit(byte):
            self.violations.add(start, "parity", f"0x{byte:02x} has not {form.parity.value} parity")
            return
        self._sink(byte & 0xFF)

    def _shift(self, ticks: int) -> float:
        """Return how far an edge is from the next bit's border, in bits."""
        bits = ticks * self._format.baud / TICKS_PER_SECOND
        return abs(bits - round(bits))

    async def _bad_stop(self, start: int, levels: list[int], wires: Wires) -> None:
        if any(levels):
            self.violations.add(start, "framing", "the stop bit is low")
        else:
            self.violations.add(start, "break", "the line was low for a whole frame")
        while not wires.levels[0]:  # a frame begins with a falling edge
            await wires.change()
