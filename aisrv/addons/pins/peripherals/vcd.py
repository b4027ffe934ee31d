"""Recordings of pins as VCD: the levels of all pins of a node, from its start on, in nanoseconds.

The pins of tile 0 are `tile0.X0D00` and so on. Those with a use have a second name, such as `i2c.scl`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from aisrv.addons.pins.peripherals.violations import NANOSECONDS
from aisrv.xcore.node import Node
from aisrv.xcore.ports.pin import HIGH, LOW, Pin, X, Z
from aisrv.xcore.waiter import Waiter
from phy.vcd_recording import VcdRecording

if TYPE_CHECKING:
    from vcd.writer import Variable

_LEVELS: Final = {LOW: "0", HIGH: "1", Z: "z", X: "x"}
_WRITE_EVERY: Final = 0.02
"""Seconds."""


class PinsVcd(VcdRecording):
    """A recording of a node's pins; made at its start. `run` writes what has passed, `close` the rest."""

    def __init__(self, path: Path, node: Node, names: Mapping[str, Pin] | None = None) -> None:
        """Record in a file; `names` are further names of pins, as `i2c.scl`."""
        super().__init__(path)
        self._clock = node.clock
        self._written = self._clock.ticks()
        self._changed: set[Pin] = set()
        self._waiter: Waiter[None] = Waiter()
        self._variables: dict[Pin, Variable[Any]] = {}
        self._levels: dict[Pin, int] = {}
        for tile in node.tiles:
            for name, pin in tile.pins.items():
                level = self._levels[pin] = pin.level(self._written)
                self._variables[pin] = self._writer.register_var(
                    f"tile{tile.number}", name, "wire", 1, init=_LEVELS[level]
                )
                pin.keep(self, self._written)
                pin.listen(self)
        for name, pin in (names or {}).items():
            scope, _, signal = name.rpartition(".")
            self._writer.register_alias(scope or "pins", signal, self._variables[pin])
        self.flush()

    def pin_changed(self, pin: Pin, tick: int) -> None:  # noqa: ARG002 - as in PinListener
        """Have the changes of a pin written, once they have passed."""
        self._changed.add(pin)
        self._waiter.wake(None)

    async def run(self) -> None:
        """Write what has passed, while there are changes, until cancelled."""
        while True:
            if not self._changed:
                await self._waiter.wait()
            await trio.sleep(_WRITE_EVERY)
            self._write(self._clock.ticks() - 1)
            self.flush()

    def close(self) -> None:
        """Write the rest, up to now."""
        now = self._clock.ticks()
        self._write(now)
        for pin in self._variables:
            pin.stop_listening(self)
            pin.forget(self)
        self._end((now + 1) * NANOSECONDS)

    def _write(self, until: int) -> None:
        """Write the changes up to a tick, with it."""
        since, self._written = self._written, until
        changes = ((pin, self._of(pin, since, until)) for pin in self._changed)
        found = sorted((tick, pin.name, level, pin) for pin, each in changes for tick, level in each)
        self._changed = {pin for pin in self._changed if pin.next_change(until) is not None}
        for pin in self._variables:
            pin.keep(self, until)
        if not self._recording:
            return
        try:
            for tick, _, level, pin in found:
                self._writer.change(self._variables[pin], tick * NANOSECONDS, _LEVELS[level])
        except OSError as error:
            self._fail(error)

    def _of(self, pin: Pin, since: int, until: int) -> list[tuple[int, int]]:
        changes = list(pin.changes(since, until))
        if pin.level(since) != self._levels[pin]:  # it has changed at that tick after that was written
            changes.insert(0, (since, pin.level(since)))
        if changes:
            self._levels[pin] = changes[-1][1]
        return changes


async def record_pins(
    path: Path, node: Node, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Record the pins of a node that begins, until cancelled. Raises OSError."""
    with PinsVcd(path, node) as recording:
        task_status.started()
        await recording.run()
