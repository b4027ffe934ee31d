"""A sink of samples on an I2S bus that others clock, such as a converter with a loudspeaker."""

from collections.abc import Callable
from typing import Final

import trio

from aisrv.addons.pins.peripherals.i2s_format import I2sPins
from aisrv.addons.pins.peripherals.violations import Violations
from aisrv.addons.pins.peripherals.wires import Wires
from aisrv.xcore.ports.pin import HIGH

DATA_SETUP: Final = 10
"""Nanoseconds that data are stable before the rising edge of the bit clock: a tick."""


class I2sSink:
    """Takes samples, left and right in turn, from the first whole left slot on."""

    def __init__(
        self, name: str, pins: I2sPins, *, width: int = 16, sink: Callable[[int], object] | None = None
    ) -> None:
        """Take signed samples of `width` bits; `sink` is called with each, besides `samples`."""
        self.name: Final = name
        self.violations: Final = Violations(name)
        self.samples: Final[list[int]] = []
        """The samples so far, unless a sink has them."""
        self._pins = pins
        self._width = width
        self._sink = self.samples.append if sink is None else sink
        self._bits: list[int] | None = None  # of the slot; None before the first one
        self._word = 0  # the word clock at the last bit
        self._slot: int | None = None  # length of a slot

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take samples until cancelled. Bits are looked at when the word clock has changed."""
        bclk, lrclk, _ = self._pins
        since = bclk.runtime.clock.ticks()
        self._word = lrclk.value(since)
        with Wires(lrclk) as wires:
            task_status.started()
            try:
                while True:
                    self._keep(since)
                    change = await wires.change()
                    if change is not None:
                        self._take_bits(since, change.tick)
                        since = change.tick
            finally:
                self._take_bits(since, bclk.runtime.clock.ticks())
                for pin in self._pins:
                    pin.forget(self)

    def _keep(self, since: int) -> None:
        for pin in self._pins:
            pin.keep(self, since - 1)

    def _take_bits(self, since: int, until: int) -> None:
        bclk, lrclk, data = self._pins
        for tick, level in list(bclk.changes(since, until)):
            if level != HIGH:
                continue
            bit = data.value(tick)
            if data.value(tick - 1) != bit:
                self.violations.add(tick, "data setup", "data changed with the edge that samples them")
            if self._bits is not None:
                self._bits.append(int(bit == HIGH))
            if (word := lrclk.value(tick)) != self._word:  # this bit is the last of its slot
                if self._bits is not None:
                    self._end_slot(tick, self._bits)
                if self._bits is not None or word != HIGH:
                    self._bits = []
                self._word = word

    def _end_slot(self, tick: int, bits: list[int]) -> None:
        if self._slot not in (None, len(bits)):
            self.violations.add(
                tick, "slot length", f"a slot of {len(bits)} bits after one of {self._slot} bits"
            )
        elif len(bits) < self._width:
            self.violations.add(
                tick, "slot length", f"a slot has {len(bits)} bits, a sample has {self._width} bits"
            )
        self._slot = len(bits)
        value = 0
        for bit in (bits + [0] * self._width)[: self._width]:
            value = value << 1 | bit
        self._sink(value - (value >> (self._width - 1) << self._width))
