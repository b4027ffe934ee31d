"""An I2C target with registers, on two pins: SCL and SDA.

A write is the register's number and then values for it and those after it; a read goes on from the register
that was written last. Source: UM10204, "I2C-bus specification and user manual", section 3.1 (conditions,
acknowledge, clock stretching) and table 10 (times of each speed). Spikes below 50 ns are left
out, as tSP asks.
"""

import enum
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import trio
from msgspec import Struct

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.addons.pins.peripherals.resistor import resistor
from aisrv.addons.pins.peripherals.violations import Violations
from aisrv.addons.pins.peripherals.wires import Wires
from aisrv.protocol.i2c import I2cDevice, I2cNak
from aisrv.xcore.ports.pin import HIGH, LOW, Pin, Z

logger = logging.getLogger(__name__)

SPIKE_TICKS: Final = 5
"""tSP: 50 ns."""
_SCL, _SDA = 0, 1
_BITS: Final = 8


class I2cSpeed(Struct, frozen=True):
    """Least times of a speed, in nanoseconds, and what the target takes to change SDA."""

    clock: int
    """Period of SCL."""
    start_hold: int
    low: int
    high: int
    start_setup: int
    data_setup: int
    stop_setup: int
    free: int
    """tBUF, between a stop and a start."""
    output_ticks: int
    """Ticks from the falling edge of SCL to the target's change of SDA."""


SPEEDS: Final[Mapping[str, I2cSpeed]] = MappingProxyType(
    {
        "standard": I2cSpeed(10_000, 4_000, 4_700, 4_000, 4_700, 250, 4_000, 4_700, 30),
        "fast": I2cSpeed(2_500, 600, 1_300, 600, 600, 100, 600, 1_300, 30),
        "fast-plus": I2cSpeed(1_000, 260, 500, 260, 260, 50, 260, 500, 10),
    }
)
"""Speeds by name: up to 100 kHz, 400 kHz and 1 MHz."""


class _Phase(enum.Enum):
    """What the bits on the bus are to the target."""

    IGNORED = "ignored"
    ADDRESS = "address"
    REGISTER = "register"
    VALUES = "values"
    READ = "read"


class I2cTarget:
    """The target; `violations` has what controllers did wrong."""

    def __init__(
        self,
        name: str,
        scl: Pin,
        sda: Pin,
        device: I2cDevice,
        *,
        speed: I2cSpeed = SPEEDS["fast"],
        stretch: int = 0,
    ) -> None:
        """Serve a device's registers. With `stretch` SCL is held low so many ticks after each acknowledge."""
        self.name: Final = name
        self.violations: Final = Violations(name)
        self._pins = (scl, sda)
        self._device = device
        self._speed = speed
        self._stretch = stretch
        self._driver = PinDriver(name, open_drain=True)
        self._phase = _Phase.IGNORED
        self._register = 0
        self._shift = 0
        self._bits = 0
        """Bits of the byte that SCL has risen for; the ninth is the acknowledge."""
        self._acknowledges = False
        self._is_busy = False
        self._rose: int | None = None  # the last edges of SCL and SDA, and start and stop
        self._fell: int | None = None
        self._moved: int | None = None
        self._started: int | None = None
        self._stopped: int | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer on the pins until cancelled."""
        with (
            resistor(self.name, HIGH, *self._pins),
            Wires(*self._pins, spike=SPIKE_TICKS, on_spike=self._note_spike) as wires,
        ):
            task_status.started()
            try:
                while True:
                    change = await wires.change()
                    if change is None:
                        continue
                    if change.wire == _SDA:
                        self._sda_changed(change.tick, change.level, scl=wires.levels[_SCL])
                    elif change.level:
                        self._scl_rose(change.tick, wires.levels[_SDA])
                    else:
                        self._scl_fell(change.tick)
            finally:
                for pin in self._pins:
                    pin.withdraw(self._driver)
                    pin.release(self._driver)

    def _note_spike(self, tick: int, wire: int) -> None:
        self.violations.add(tick, "tSP", f"a spike on {('scl', 'sda')[wire]}, which the target does not see")

    # Conditions.

    def _sda_changed(self, tick: int, level: int, *, scl: int) -> None:
        if scl and level:
            self._stop(tick)
        elif scl:
            self._start(tick)
        self._moved = tick

    def _start(self, tick: int) -> None:
        if self._is_busy:
            self._check_whole(tick, "a start")
            self._check(tick, "tSU;STA", "SCL was high before the start for", self._rose, "start_setup")
        else:
            self._check(tick, "tBUF", "the bus was free for", self._stopped, "free")
        self._is_busy = True
        self._started, self._fell, self._rose = tick, None, None
        self._phase = _Phase.ADDRESS
        self._begin_byte()

    def _stop(self, tick: int) -> None:
        if self._is_busy:
            self._check_whole(tick, "a stop")
        self._check(tick, "tSU;STO", "SCL was high before the stop for", self._rose, "stop_setup")
        self._is_busy = False
        self._stopped = tick
        self._phase = _Phase.IGNORED
        self._drive_sda(Z, tick)

    def _check_whole(self, tick: int, what: str) -> None:
        # The edge of SCL that the condition needs has been counted as a bit.
        if self._phase is not _Phase.IGNORED and (bits := self._bits - 1) > 0:
            self.violations.add(tick, "early end", f"{what} after {bits} bits of a byte")

    # Bits.

    def _scl_rose(self, tick: int, sda: int) -> None:
        if self._fell is not None:
            self._check(tick, "tLOW", "SCL was low for", self._fell, "low")
        if self._is_busy and self._moved is not None and self._bits < _BITS and self._receives:
            self._check(tick, "tSU;DAT", "SDA was stable before SCL rose for", self._moved, "data_setup")
        if self._rose is not None:
            self._check(tick, "fSCL", "a period of SCL of", self._rose, "clock")
        self._rose = tick
        if not self._is_busy:
            return
        if self._receives:
            if self._bits < _BITS:
                self._shift = self._shift << 1 | sda
        elif self._phase is _Phase.READ and sda and self._bits == _BITS:
            self._phase = _Phase.IGNORED  # not acknowledged: the controller has enough
        self._bits += 1

    def _scl_fell(self, tick: int) -> None:
        if self._rose is None:
            self._check(tick, "tHD;STA", "SCL stayed high after the start for", self._started, "start_hold")
        else:
            self._check(tick, "tHIGH", "SCL was high for", self._rose, "high")
        self._fell = tick
        if not self._is_busy:
            return
        out = tick + self._speed.output_ticks
        if self._bits == _BITS and self._receives:
            self._acknowledges = self._take(self._shift)
            self._drive_sda(LOW if self._acknowledges else Z, out)
        elif self._bits == _BITS:
            self._drive_sda(Z, out)
        elif self._bits > _BITS:
            self._end_acknowledge(tick, out)
        elif self._phase is _Phase.READ:
            self._drive_bit(out)

    def _end_acknowledge(self, tick: int, out: int) -> None:
        self._begin_byte()
        if self._phase is _Phase.READ:
            self._shift = self._next_value()
            self._drive_bit(out)
        else:
            if not self._acknowledges:
                self._phase = _Phase.IGNORED
            self._drive_sda(Z, out)
        if self._stretch and self._phase is not _Phase.IGNORED:
            scl = self._pins[_SCL]
            scl.drive(LOW, self._driver)
            scl.release(self._driver, max(tick + self._stretch, scl.runtime.clock.ticks() + 1))

    @property
    def _receives(self) -> bool:
        return self._phase in (_Phase.ADDRESS, _Phase.REGISTER, _Phase.VALUES)

    def _begin_byte(self) -> None:
        self._shift = self._bits = 0

    def _drive_bit(self, tick: int) -> None:
        bit = self._shift >> (_BITS - 1 - self._bits) & 1 if self._bits < _BITS else 1
        self._drive_sda(Z if bit else LOW, tick)

    def _drive_sda(self, level: int, tick: int) -> None:
        """Drive SDA from a tick on, which has passed where this machine is late."""
        sda = self._pins[_SDA]
        sda.withdraw(self._driver, tick)
        sda.drive(level, self._driver, tick)

    # Bytes.

    def _take(self, byte: int) -> bool:
        """Take a byte from the controller; return whether it is acknowledged."""
        if self._phase is _Phase.ADDRESS:
            return self._take_address(byte)
        if self._phase is _Phase.REGISTER:
            self._register, self._phase = byte, _Phase.VALUES
            return True
        try:
            self._device.write(self._register, byte)
        except I2cNak as nak:
            logger.info("%s: register 0x%02x = 0x%02x: NAK, %s", self.name, self._register, byte, nak)
            return False
        self._register = (self._register + 1) % 256
        return True

    def _take_address(self, byte: int) -> bool:
        if byte >> 1 != self._device.address:
            self._phase = _Phase.IGNORED
            return False
        if not byte & 1:
            self._phase = _Phase.REGISTER
            return True
        try:
            self._device.read(self._register)
        except I2cNak as nak:
            logger.info("%s: register 0x%02x: NAK, %s", self.name, self._register, nak)
            self._phase = _Phase.IGNORED
            return False
        self._phase = _Phase.READ
        return True

    def _next_value(self) -> int:
        """Return the byte that a read goes on with; ones where no register is left."""
        try:
            value = self._device.read(self._register)
        except I2cNak:
            return 0xFF
        self._register = (self._register + 1) % 256
        return value

    def _check(self, tick: int, rule: str, what: str, since: int | None, least: str) -> None:
        if since is not None:
            self.violations.check(tick, rule, what, tick - since, getattr(self._speed, least))
