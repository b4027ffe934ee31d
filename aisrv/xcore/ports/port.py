"""Ports: input and output of words at the edges of a clock block. Rules: "Ports".

A port commits what it outputs to its pins ahead, and finds what it inputs in their past: no task runs for
each edge. A core that waits sleeps to the tick of its word, or until the pins change. Names are those of
lib_xcore's port.h; `in_` is `port_in`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aisrv.xcore.core import Core
from aisrv.xcore.ports.driven import Driver
from aisrv.xcore.ports.settings import PortMode, PortSettings
from aisrv.xcore.ports.wire import Wire
from aisrv.xcore.report import known_to_use, name_of
from aisrv.xcore.traced import traced_verb

if TYPE_CHECKING:
    from aisrv.xcore.channels.listener import Listener
    from aisrv.xcore.ports.pin import Pin
    from aisrv.xcore.runtime import CalledOff

WORD: int = 0xFFFFFFFF


class Port(PortSettings):
    """One of the 29 ports of a tile. Get it with `Tile.port`, and `enable` it.

    It is an event of a select: that an input would not wait. The word of the event is held until it is input.
    """

    _alarm: "CalledOff | None" = None
    _listens = False
    _outside = False

    # Output.

    @traced_verb("out")
    async def out(self, value: int) -> None:
        """Output a word of the transfer width; waits where one is in the transfer register."""
        await self._begin("out")
        await self._wait_to_load("out")
        self._put(value, self._registers.entries)

    @traced_verb("outpw")
    async def out_part_word(self, value: int, bits: int) -> None:
        """Output the lowest `bits` of a word; the port must be buffered, and `bits` some of its samples."""
        await self._begin("outpw")
        entries = self._entries("outpw", bits)
        await self._wait_to_load("outpw")
        self._put(value, entries)

    async def out_shift_right(self, value: int) -> int:
        """Output the lowest bits of a value, and return the others, shifted right."""
        await self.out(value)
        return (value & WORD) >> self._registers.transfer_width

    async def out_at_time(self, time: int, value: int) -> None:
        """Output as the port's counter becomes `time`."""
        await self.set_trigger_time(time)
        await self.out(value)

    async def out_shift_right_at_time(self, time: int, value: int) -> int:
        """Output the lowest bits of a value at a time, and return the others."""
        await self.set_trigger_time(time)
        return await self.out_shift_right(value)

    @traced_verb("syncr")
    async def sync(self) -> None:
        """Wait until all that was output has been driven for a whole period; an input does not wait."""
        await self._begin("syncr")
        registers = self._registers
        if self._mode is not PortMode.DATA or not registers.is_output:
            return
        registers.begin_sync(self._now())
        with self._wait("syncr"):
            while not registers.is_synced(self._now()):
                await self._park("syncr", registers.next_sync())
                self._advance(self._now())

    def _put(self, value: int, entries: int) -> None:
        if self._mode is PortMode.DATA:
            self._registers.put(value & WORD, entries, self._now())

    async def _wait_to_load(self, verb: str) -> None:
        """Wait until the transfer register is free."""
        registers = self._registers
        if not registers.is_full():
            return
        with self._wait(verb):
            while registers.is_full():
                await self._park(verb, registers.next_load())
                self._advance(self._now())

    # Input.

    @traced_verb("in")
    async def in_(self) -> int:
        """Input a word of the transfer width that meets time and condition, or wait for one."""
        await self._begin("in")
        return await self._input("in")

    @traced_verb("inpw")
    async def in_part_word(self, bits: int) -> int:
        """Input a word of which `bits` are new, in its highest bits; the port must be buffered."""
        await self._begin("inpw")
        entries = self._entries("inpw", bits)
        return await self._input("inpw", entries)

    async def in_shift_right(self, value: int) -> int:
        """Input a word into the highest bits of a value, which is shifted right."""
        new = await self.in_()
        width = self._registers.transfer_width
        return (value & WORD) >> width | new << 32 - width & WORD

    async def in_at_time(self, time: int) -> int:
        """Input the value at a time of the port's counter; where buffered, the last sample of the word."""
        await self.set_trigger_time(time)
        return await self.in_()

    async def in_shift_right_at_time(self, time: int, value: int) -> int:
        """Input the value at a time into the highest bits of a value."""
        await self.set_trigger_time(time)
        return await self.in_shift_right(value)

    async def in_when_pinseq(self, value: int) -> int:
        """Input once the pins are `value`; where buffered, that is the last sample of the word."""
        self.set_trigger_in_equal(value)
        return await self._in_once()

    async def in_when_pinsneq(self, value: int) -> int:
        """Input once the pins are not `value`; where buffered, that is the last sample of the word."""
        self.set_trigger_in_not_equal(value)
        return await self._in_once()

    async def in_shift_right_when_pinseq(self, pins: int, value: int) -> int:
        """Input once the pins are as given, into the highest bits of a value."""
        self.set_trigger_in_equal(pins)
        new = await self.in_shift_right(value)
        self._registers.forget_condition()
        return new

    async def in_shift_right_when_pinsneq(self, pins: int, value: int) -> int:
        """Input once the pins are not as given, into the highest bits of a value."""
        self.set_trigger_in_not_equal(pins)
        new = await self.in_shift_right(value)
        self._registers.forget_condition()
        return new

    async def _in_once(self) -> int:
        value = await self.in_()
        self._registers.forget_condition()
        return value

    def endin(self) -> int:
        """End the input of a buffered port: return the bits that are left, which the next inputs have.

        Whole words come first; the rest is in the highest bits of the last one.
        """
        self._operate("endin")
        if not self._registers.buffered:
            self._refuse("endin", "is not buffered")
        now = self._now()
        self._advance(now)
        if self._registers.is_output:
            self._refuse("endin", "is an output")
        return self._registers.end(now) * self.width

    async def force_input(self) -> tuple[int, int]:
        """Input what is there of a word: return how many bits, and the word with them in its highest ones."""
        bits = min(self.endin(), self._registers.transfer_width)
        return bits, await self.in_()

    def peek(self) -> int:
        """Return the pins as they are now."""
        self._operate("peek")
        return self._pins.value_at(self._now())

    async def look(self) -> int:
        """Return the pins as `peek` does; in device time wait for the core's tick, which may lie ahead."""
        await self._begin("peek")
        return self._pins.value_at(self._now())

    async def _input(self, verb: str, entries: int | None = None) -> int:
        """Input what is there, or wait; a word that is waited for has so many `entries`."""
        if self._mode is not PortMode.DATA:
            return 0
        now, registers = self._now(), self._registers
        if (taken := registers.available(now)) is not None:
            return taken.value
        with self._wait(verb):
            if entries is not None and not registers.is_output:
                registers.set_count(entries, now)
            registers.begin_wait(now)
            while True:
                now = self._now()
                self._advance(now)
                if (taken := registers.awaited(now)) is not None:
                    return taken.value
                if registers.needs_pins:
                    self._listen_to_pins()
                await self._park(verb, registers.next_look(now))

    # Triggers, counts and buffers.

    @traced_verb("setpt")
    async def set_trigger_time(self, time: int) -> None:
        """Have the next input or output at a time of the port's counter, of 16 bits.

        Waits where a word is in the transfer register, as that is not for this time.
        """
        await self._begin("setpt")
        if self._mode is not PortMode.DATA:
            return
        await self._wait_to_load("setpt")
        self._registers.set_time(time & 0xFFFF, self._now())
        self._await_anew()

    def clear_trigger_time(self) -> None:
        """Have the next input or output at any time."""
        self._operate("clrpt")
        now = self._now()
        self._advance(now)
        self._registers.clear_time(now)
        self._await_anew()

    def get_trigger_time(self) -> int:
        """Return the counter, of 16 bits, at the last word that was input, or loaded for output."""
        self._operate("getts")
        self._advance(self._now())
        return self._registers.timestamp()

    def set_trigger_in_equal(self, value: int) -> None:
        """Input once the pins are `value`: a buffered port once, an unbuffered one from now on."""
        self._set_condition("setc", equal=True, value=value)

    def set_trigger_in_not_equal(self, value: int) -> None:
        """Input once the pins are not `value`: a buffered port once, an unbuffered one from now on."""
        self._set_condition("setc", equal=False, value=value)

    def set_trigger_value(self, value: int) -> None:
        """Change the value of the condition."""
        self._set_condition("setd", equal=self._registers.condition, value=value)

    def clear_trigger_in(self) -> None:
        """Input any value."""
        self._set_condition("setc", equal=None, value=None)

    def _set_condition(self, verb: str, *, equal: bool | None, value: int | None) -> None:
        self._operate(verb)
        now = self._now()
        self._advance(now)
        data = None if value is None else value & (1 << self.width) - 1
        self._registers.set_condition(now, data, equal=equal)
        self._await_anew()

    @traced_verb("setpsc")
    async def set_shift_count(self, bits: int) -> None:
        """Have the next word of a buffered port be of so many bits, once."""
        await self._begin("setpsc")
        entries = self._entries("setpsc", bits)
        if self._mode is not PortMode.DATA:
            return
        await self._wait_to_load("setpsc")
        self._registers.set_count(entries, self._now())

    def clear_buffer(self) -> None:
        """Empty both registers; what is not driven yet is withdrawn, and the last value stays."""
        self._operate("setc")
        now = self._now()
        self._advance(now)
        self._registers.clear(now)
        self._look_again()

    def _entries(self, verb: str, bits: int) -> int:
        width = self._registers.transfer_width
        if not self._registers.buffered:
            self._refuse(verb, "is not buffered")
        if bits % self.width or not self.width <= bits <= width:
            self._refuse(verb, f"cannot shift {bits} bits of {width}")
        return bits // self.width

    # Select.

    @property
    def ready(self) -> bool:
        """Return whether an input would not wait. A word that is seen so is held until it is input."""
        if not self._enabled or self._mode is not PortMode.DATA:
            return False
        return self._holds_event(self._now())

    def _holds_event(self, now: int) -> bool:
        self._advance(now)
        return self._registers.hold(now)

    def listen(self, listener: "Listener") -> None:
        """Let a select know when its event comes; an output turns round as soon as all is out."""
        self._check("select")
        now = self._now()
        self._advance(now)
        self._registers.begin_wait(now)
        self._listener = listener
        self._listen_to_pins()
        self._await_event()

    def stop_listening(self, listener: "Listener") -> None:
        """Remove the select, if it is this one."""
        if self._listener is listener:
            self._listener = None
            self._stop_waiting()

    def _await_event(self) -> None:
        """Tell the select of the event where it is there, or look again when it may be."""
        self._call_off()
        listener = self._listener
        if listener is None:
            return
        now = self.runtime.clock.ticks()  # who changed a pin may be ahead
        if self._enabled and self._mode is PortMode.DATA and self._holds_event(now):
            self._fire(listener, now)
            return
        tick = self._registers.next_look(now)
        if tick is not None:
            self._alarm = self.runtime.at_tick(tick, self._await_event)
        elif not self._by_cores:
            self._outside = True
            self.runtime.outside_awaited()

    def _fire(self, listener: "Listener", now: int) -> None:  # noqa: ARG002 - for other classes
        """Tell a select of the event, which is there at a tick."""
        listener.fire(self)

    def _await_anew(self) -> None:
        """Let a select that waits have what is wanted from now on."""
        if self._listener is None or self._registers.is_output:
            return
        self._registers.wait_anew(self._now())
        self._await_event()

    def _call_off(self) -> None:
        if self._alarm is not None:
            self._alarm.call_off()
            self._alarm = None
        if self._outside:
            self._outside = False
            self.runtime.outside_came()

    # Waits.

    async def _begin(self, verb: str) -> None:
        """Begin a verb that may wait."""
        await self.runtime.begin_verb()
        self._check(verb)
        self._advance(self._now())

    def _wait(self, verb: str) -> "_Waiting":
        return _Waiting(self, verb)

    def waits_in(self, verb: str | None) -> None:
        """Note the verb that a core waits in; None where it does no more.

        A callback may use the port in which its core waits below, but not wait as well.
        """
        if verb is not None and self._verb is not None:
            self._refuse_use(f"{verb} on {self.name}")
        self._verb = verb
        if verb is None:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._listener is None:
            self._registers.end_wait()
        self._call_off()
        if self._listens:
            self._listens = False
            for pin in self.pins:
                pin.stop_listening(self)

    async def _park(self, verb: str, tick: int | None) -> None:
        """Sleep to a tick, or until clock or pins are others than was known."""
        if tick is not None:
            await self._parking.park_to_tick(tick, verb, self)
        else:
            await self._parking.park(verb, self, timed=not self._by_cores)

    def _listen_to_pins(self) -> None:
        if not self._listens:
            self._listens = True
            for pin in self.pins:
                pin.listen(self)

    def pin_changed(self, pin: "Pin", tick: int) -> None:  # noqa: ARG002 - as in PinListener
        """Look again, as a pin is another than was known."""
        self._look_again()

    def _look_again(self) -> None:
        super()._look_again()
        if self._listener is not None:
            self._await_event()

    # Reports.

    @property
    def _by_cores(self) -> bool:
        return None not in self.wakers()

    def wakers(self) -> Sequence[Core | None]:
        """Return the cores of which any could wake the one that waits here; None is somebody outside.

        Those are the ones whose ports drive its pins or its clock.
        """
        block = self.clock
        if not block.runs:
            return [known_to_use(block.user)]
        pins: tuple[Pin, ...] = () if block.source_pin is None else (block.source_pin,)
        if self._registers.needs_pins:
            pins += self.pins
        if (gate := self._registers.gate) is not None:
            pins += gate.pins
        found: list[Core | None] = []
        for pin in pins:
            drivers = self._others_at(pin)
            found += [known_to_use(each.user) if isinstance(each, PortSettings) else None for each in drivers]
            if not drivers:
                found.append(None)
        return found or [None]

    def explain_wait(self) -> str:
        """Describe what the core that waits here waits for."""
        block = self.clock
        if not block.runs:
            return f"{block.name} does not run, used by {name_of(block.user)}"
        gate = self._registers.gate
        pins = self.pins if gate is None else (*self.pins, *gate.pins)
        drivers = {id(each): each for pin in pins for each in self._others_at(pin)}
        names = [
            f"{each.name} of {name_of(each.user)}" if isinstance(each, PortSettings) else each.name
            for each in drivers.values()
        ]
        return f"driven by {' and '.join(names)}" if names else "its pins are driven by nobody"

    def _others_at(self, pin: "Pin") -> list[Driver]:
        """Return who else drives a pin, also through wires."""
        found: list[Driver] = []
        for driver in pin.drivers:
            if isinstance(driver, Wire):
                found += self._others_at(driver.source)
            elif isinstance(driver, Port) and driver.ready_of is not None:
                found.append(driver.ready_of)
            else:
                found.append(driver)
        return [driver for driver in found if driver is not self]


class _Waiting:
    """The block in which a core waits in a verb of a port."""

    __slots__ = ("_port", "_verb")

    def __init__(self, port: Port, verb: str) -> None:
        self._port = port
        self._verb = verb

    def __enter__(self) -> None:
        self._port.waits_in(self._verb)

    def __exit__(self, *_: object) -> None:
        self._port.waits_in(None)
