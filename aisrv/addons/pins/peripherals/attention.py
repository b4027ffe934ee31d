"""How a peripheral sleeps: to a tick, or until levels of its pins are laid down or withdrawn."""

from types import TracebackType
from typing import Self

from aisrv.xcore.ports.pin import Pin


class Attention:
    """Hears of some pins within a block, and has them and others keep their past."""

    def __init__(self, *pins: Pin, kept: tuple[Pin, ...] = ()) -> None:
        """Hear of `pins`; `kept` are pins besides whose past is wanted."""
        self._pins = pins
        self._all = (*pins, *kept)
        self._clock = pins[0].runtime.clock
        self._waiter = pins[0].runtime.tick_waiter()
        self._has_changed = False
        self.heard = 0
        """How often the pins have had other changes than before."""

    def __enter__(self) -> Self:
        for pin in self._pins:
            pin.listen(self)
        self.keep(self._clock.ticks())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pin in self._pins:
            pin.stop_listening(self)
        for pin in self._all:
            pin.forget(self)

    def pin_changed(self, pin: Pin, tick: int) -> None:  # noqa: ARG002 - as in PinListener
        """Wake who sleeps: a pin has other changes than before."""
        self._has_changed = True
        self.heard += 1
        self._waiter.wake()

    def keep(self, since: int) -> None:
        """Have the pins keep their changes from a tick on."""
        for pin in self._all:
            pin.keep(self, since)

    async def sleep(self, tick: int | None) -> None:
        """Sleep to a tick, or without end; less where a pin changes, or has since the last sleep."""
        await self._waiter.sleep(self._clock.ticks() if self._has_changed else tick)
        self._has_changed = False
