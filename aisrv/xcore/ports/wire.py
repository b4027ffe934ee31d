"""Wires of a board: what one pin has, another has, too."""

from typing import Final

from aisrv.xcore.ports.pin import Pin, Z


class Wire:
    """Drives a pin with the levels of another one, those that lie ahead as well. Close it to take it off."""

    def __init__(self, source: Pin, target: Pin) -> None:
        self.name: Final = f"wire from {source.name}"
        self.source: Final = source
        self.target: Final = target
        source.listen(self)
        self.pin_changed(source, source.runtime.clock.ticks())

    def pin_changed(self, pin: Pin, tick: int) -> None:
        """Do from a tick on as the source does."""
        target = self.target
        target.withdraw(self, tick - 1)
        level = pin.level(tick)
        if level != Z or self in target.drivers:
            target.drive(level, self, tick)
        clock = pin.clock_driven(tick)
        if clock is not None:
            target.drive_clock(clock[0], self, inverted=clock[1])
            return
        changed: list[int] = []
        levels: list[int] = []
        after = pin.next_change(tick)
        while after is not None:
            if (driven := pin.clock_driven(after)) is not None:
                target.drive_at(changed, levels, self)
                target.drive_clock(driven[0], self, inverted=driven[1])
                return
            changed.append(after)
            levels.append(pin.level(after))
            after = pin.next_change(after)
        target.drive_at(changed, levels, self)

    def close(self) -> None:
        """Take it off."""
        self.source.stop_listening(self)
        now = self.source.runtime.clock.ticks()
        self.target.withdraw(self, now)
        self.target.release(self, now)
