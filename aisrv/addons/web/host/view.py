"""The view of a device that a host reaches: it is asked four times a second while somebody looks."""

import logging
import time
from typing import Final, NoReturn

import trio

from aisrv.addons.web.host.log_lines import new_lines
from aisrv.addons.web.host.reader import Reader, Reading
from aisrv.addons.web.hub import PageLog
from aisrv.addons.web.view import Json, cut
from aisrv.protocol.commands import GPIO_COUNT
from host_tools.errors import DeviceGone, HostError

POLL_SECONDS: Final = 0.25
ABOUT: Final = "LEDs by rule, from scores and thresholds"


class HostView:
    """Shows what a `Reader` has read last. Its device is not asked while nobody looks."""

    def __init__(self, name: str, reader: Reader, turn: trio.Lock, log: PageLog) -> None:
        """`turn` is held by whoever uses the reader's server; new lines of the device's log go to `log`."""
        self.name: Final = cut(name)
        self._reader = reader
        self._turn = turn
        self._log = log
        self._state: Json = {}
        self._reading = Reading({}, {}, ())
        self._pages = trio.Event()

    def open(self) -> None:
        """See `View.open`."""
        self._pages.set()

    def close(self) -> None:
        """See `View.close`."""
        self._pages = trio.Event()

    async def read(self) -> None:
        """Ask the device once. Raises HostError."""
        async with self._turn:
            reading = await trio.to_thread.run_sync(self._reader.read)
        for line in new_lines(self._reading.log, reading.log) if self._state else ():
            self._log.add(logging.INFO, f"engine {self._reader.number}", line, time.time())
        if not self._state or reading.engine != self._reading.engine:
            self._state = self._state_of(reading)
        self._reading = reading

    async def run(self) -> NoReturn:
        """Ask the device while somebody looks, until it goes away: DeviceGone.

        Any other failure is a line of the page's log, and the last state stays.
        """
        while True:
            await self._pages.wait()
            due = trio.current_time() + POLL_SECONDS
            try:
                await self.read()
            except DeviceGone:
                raise
            except HostError as error:
                self._log.add(logging.WARNING, "host", str(error), time.time())
            await trio.sleep_until(due)

    def _state_of(self, reading: Reading) -> Json:
        return {
            "t": round(trio.current_time(), 3),
            "cores": {},
            "links": {},
            "engines": {str(self._reader.number): reading.engine},
            "deadlock": "",
            "ignored": 0,
        }

    def board(self) -> Json:
        """See `View.board`: what the device says of itself. It has no tiles to look into."""
        spec, memory = self._reader.spec, self._reader.memory
        return {
            "name": self.name,
            "description": f"{spec.tiles} tiles of {spec.internal_kib} KiB, flash of {spec.flash_kib} KiB, "
            f"external memory of {spec.external_kib} KiB",
            "mhz": 0,
            "tiles": {},
            "links": {},
            "engines": {
                str(self._reader.number): {
                    "tile": -1,
                    "kind": ABOUT,
                    "leds": [f"output {number}" for number in range(GPIO_COUNT)],
                    "arena": 0 if memory is None else memory.arena_bytes,
                    "external": 0 if memory is None else memory.external_bytes,
                    "sensor": self._reader.has_sensor,
                }
            },
            "flash": {},
            "sensor": {},
            "usb": -1,
            "spi": -1,
            "bench": False,
        }

    def state(self, now: float) -> Json:
        """See `View.state`."""
        _ = now
        return self._state

    def summary(self) -> Json:
        """See `View.summary`: a host knows neither serial number nor inferences."""
        engine = self._reading.engine
        return {"serial": "", "n": 0, "leds": engine.get("leds", 0), "halted": 0, "errors": ""}

    def pictures(self) -> dict[tuple[int, int], bytes]:
        """See `View.pictures`."""
        return dict(self._reading.pictures)

    def lines_before(self) -> list[tuple[str, str]]:
        """See `View.lines_before`: the device's debug log as it was read last."""
        return [(f"engine {self._reader.number}", line) for line in self._reading.log]
