"""What pages are sent: one ticker makes the states, and each page's task sends what that page has not got.

Nothing is queued. A page that is slow gets fewer and larger steps, and holds one old state.
"""

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec
import trio

from aisrv.addons.web.cpu_time import CpuTime
from aisrv.addons.web.frames import BINARY, TEXT, frame
from aisrv.addons.web.merge_patch import merge_patch
from aisrv.addons.web.view import LONGEST_LINE, Json, View
from aisrv.listeners.failures import Failures

TICK: Final = 0.05
"""Seconds between two states."""
GRID_TICKS: Final = 5
"""Ticks between two states of the grid."""
RESTING: Final = 50
"""The next tick is at least so many times the CPU time of the last one and its sends away: 2 % of a core."""
logger = logging.getLogger(__name__)
_PROGRAM: Final = tuple(map(logging.getLogger, ("aisrv", "phy", "flash_server")))
"""Loggers of what devices consist of, the engines' debug logs among them."""

GRID: Final = "grid"
"""What a page that shows all devices looks at."""
LOG_LINES: Final = 500

_encode = msgspec.json.Encoder(enc_hook=int).encode
"""Sizes are integers of a class of their own; all else is plain."""


class Socket(Protocol):
    """Where the messages of a page go: a `WebSocket`."""

    async def send_frames(self, frames: bytes) -> None:
        """Send whole frames as they are."""


class PageLog(logging.Handler):
    """The newest lines of the log, and how many there were."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._lines: deque[list[object]] = deque(maxlen=LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of a logger."""
        self.add(record.levelno, record.name, record.getMessage(), record.created)

    def add(self, level: int, name: str, text: str, created: float) -> None:
        """Keep a line; `created` is in seconds since 1970."""
        self.count += 1
        self._lines.append([round(created, 3), level, name[-40:], text[:LONGEST_LINE]])

    def since(self, number: int) -> list[list[object]]:
        """Return the lines after the first `number`, as far as they are kept."""
        return list(self._lines)[-(self.count - number) :] if self.count > number else []


class _Sent(msgspec.Struct):
    """What a page has got: the number of its last log line, its state, its pictures."""

    line: int
    state: Json = {}
    pictures: dict[tuple[int, int], bytes] = {}


class Hub:
    """The states of all devices that a page looks at. Without pages it does nothing."""

    def __init__(self, views: Sequence[View], log: PageLog | None = None, cpu: CpuTime | None = None) -> None:
        """Show the views, and what `log` is given besides the lines of the program itself.

        `cpu` counts what states and sends cost.
        """
        self.views: Final[Mapping[str, View]] = {view.name: view for view in views}
        self.log: Final = PageLog() if log is None else log
        self._cpu = CpuTime() if cpu is None else cpu
        self._looking: Counter[str] = Counter()
        self._states: dict[str, Json] = {}
        self._patches: dict[tuple[str, int], bytes] = {}
        self._ticked = trio.Event()
        self._looked = trio.Event()
        self._levels = [logging.NOTSET for _ in _PROGRAM]

    async def run(self) -> None:
        """Make states until cancelled, while somebody looks."""
        number = 0
        with Failures(logger) as failures:
            while True:
                while not self._looking:
                    await self._looked.wait()
                begun, self._cpu.spent = trio.current_time(), 0.0
                with failures.contain("the view of a page"):
                    self._cpu.call(partial(self._tick, number))
                number += 1
                await self._rest(begun)

    async def _rest(self, begun: float) -> None:
        """Wait for the next tick. Pages send meanwhile, which puts it off."""
        due = begun + TICK
        while trio.current_time() < due:
            await trio.sleep_until(due)
            due = begun + max(TICK, RESTING * self._cpu.spent)

    def _tick(self, number: int) -> None:
        self._patches.clear()
        now = trio.current_time()
        for name in self._looking:
            if name != GRID:
                self._states[name] = self.views[name].state(now)
            elif number % GRID_TICKS == 0 or GRID not in self._states:
                devices = {each: view.summary() for each, view in self.views.items()}
                self._states[GRID] = {"t": round(now, 3), "devices": devices}
        ticked, self._ticked = self._ticked, trio.Event()
        ticked.set()

    def first_messages(self, name: str) -> list[bytes]:
        """Return the frames that a page gets before all others."""
        names = list(self.views)
        if name == GRID:
            return [frame(TEXT, _encode({"grid": True, "devices": names}))]
        view = self.views[name]
        before = [[0, logging.INFO, source, line[:LONGEST_LINE]] for source, line in view.lines_before()]
        board = frame(TEXT, _encode({"board": view.board(), "devices": names}))
        return [board, frame(TEXT, _encode({"log": before}))]

    async def feed(self, socket: Socket, name: str) -> None:
        """Send a page what it looks at, until cancelled."""
        self._begin(name)
        try:
            sent = _Sent(self.log.count)  # lines that come while the first messages are sent follow them
            await self._cpu.run(self._send_first(socket, name))
            while True:
                await self._ticked.wait()
                await self._cpu.run(self._send_news(socket, name, sent))
        finally:
            self._end(name)

    async def _send_first(self, socket: Socket, name: str) -> None:
        await socket.send_frames(b"".join(self.first_messages(name)))

    async def _send_news(self, socket: Socket, name: str, sent: "_Sent") -> None:
        """Send a page what it has not got, if there is anything."""
        state, news = self._states.get(name, sent.state), []
        if state is not sent.state:
            news.append(self._patch(name, sent.state, state))
            sent.state = state
        if sent.line < self.log.count:
            lines = self.log.since(sent.line)
            missed = self.log.count - sent.line - len(lines)
            news.append(frame(TEXT, _encode({"log": lines} | ({"missed": missed} if missed else {}))))
            sent.line = self.log.count
        latest = {} if name == GRID else self.views[name].pictures()
        news += [frame(BINARY, data) for key, data in latest.items() if sent.pictures.get(key) != data]
        sent.pictures = latest
        if data := b"".join(news):
            await socket.send_frames(data)

    def _patch(self, name: str, before: Json, now: Json) -> bytes:
        """Return the frame of what has changed, made once for all pages with the same state before."""
        key = name, id(before)
        if before and key in self._patches:
            return self._patches[key]
        changes = merge_patch(before, now)
        data = b"" if changes is None or changes.keys() <= {"t"} else frame(TEXT, _encode({"patch": changes}))
        if before:
            self._patches[key] = data
        return data

    def _begin(self, name: str) -> None:
        if not self._looking:
            self._begin_log()
        self._looking[name] += 1
        if self._looking[name] == 1 and name in self.views:
            self.views[name].open()
        looked, self._looked = self._looked, trio.Event()
        looked.set()

    def _end(self, name: str) -> None:
        self._looking[name] -= 1
        if not self._looking[name]:
            del self._looking[name]
            self._states.pop(name, None)
            if name in self.views:
                self.views[name].close()
        if not self._looking:
            self._end_log()

    def _begin_log(self) -> None:
        """Take the lines of the program, however little it says elsewhere."""
        self._levels = [each.level for each in _PROGRAM]
        for each in _PROGRAM:
            each.setLevel(min(logging.INFO, each.getEffectiveLevel()))
            each.addHandler(self.log)

    def _end_log(self) -> None:
        for each, level in zip(_PROGRAM, self._levels, strict=True):
            each.removeHandler(self.log)
            each.setLevel(level)
