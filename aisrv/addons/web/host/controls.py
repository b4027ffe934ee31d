"""What the page may do to a device that a host reaches: the commands of `AiServer`. Each is one POST request.

A command does not run in its request's task: a tab that is closed cancels that one, and the command goes on.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

import trio
from msgspec import Struct

from aisrv.addons.web.host.reader import Reader
from aisrv.addons.web.query import threshold, whole_number
from aisrv.addons.web.view import Values
from aisrv.listeners.websocket import NOT_FOUND, Refused
from aisrv.protocol.commands import GpioMode, command_name
from host_tools.errors import CommandError, DeviceGone, HostError

LARGEST_BODY: Final = 16 << 20
"""Bytes of a model, an input or a frame."""
WAITING: Final = 8
"""Commands that may wait."""
CONFLICT: Final = 409
BUSY: Final = 503

Work = Callable[[Reader], object]


class HostControl(Struct, frozen=True):
    """A control: what it is to do by query and body, and the most bytes of the body."""

    work: Callable[[Values, bytes], Work]
    """Raises Refused for a query that makes no sense."""
    most: int = 0


class _Asked(NamedTuple):
    """Work to do, and where its outcome goes."""

    work: Work
    done: "trio.MemorySendChannel[HostError | None]"


def _flag(name: str, work: Callable[[Reader, bool], object]) -> HostControl:
    def make(values: Values, _body: bytes) -> Work:
        on = bool(whole_number(values, name, 0, 1))
        return lambda reader: work(reader, on)

    return HostControl(make)


def _bare(work: Work) -> HostControl:
    return HostControl(lambda _values, _body: work)


def _bytes(work: Callable[[Reader, bytes], object]) -> HostControl:
    return HostControl(lambda _values, body: lambda reader: work(reader, body), LARGEST_BODY)


def _threshold(values: Values, _body: bytes) -> Work:
    asked = threshold(values)
    return lambda reader: reader.server.set_gpio_threshold(asked.index, asked.threshold)


CONTROLS: Final[Mapping[str, HostControl]] = {
    "model": _bytes(lambda reader, body: reader.load(body, "arena")),
    "model-ext": _bytes(lambda reader, body: reader.load(body, "ext")),
    "input": _bytes(lambda reader, body: reader.server.write_input(body)),
    "frame": _bytes(lambda reader, body: reader.server.write_sensor(body)),
    "infer": _bare(lambda reader: reader.server.infer()),
    "stream": _bare(lambda reader: reader.server.acquire_stream()),
    "single": _bare(lambda reader: reader.server.acquire_single()),
    "gpio": _flag("on", lambda reader, on: reader.server.enable_gpio(on)),
    "gpio-mode": _flag(
        "max", lambda reader, on: reader.server.set_gpio_mode(GpioMode.MAX if on else GpioMode.NONE)
    ),
    "threshold": HostControl(_threshold),
    "reset": _bare(lambda reader: reader.server.reset()),
}


class HostControls:
    """Carries out what pages ask for, one command after another."""

    by_name: Final = CONTROLS

    def __init__(self, name: str, reader: Reader, turn: trio.Lock) -> None:
        """`name` is the device's; `turn` is held by whoever uses the reader's server."""
        self._name = name
        self._reader = reader
        self._turn = turn
        self._queue, self._asked = trio.open_memory_channel[_Asked](WAITING)

    async def run(self) -> NoReturn:
        """Carry out commands until cancelled, or until the device goes away: DeviceGone."""
        while True:
            asked = await self._asked.receive()
            outcome: HostError | None = None
            try:
                async with self._turn:
                    await trio.to_thread.run_sync(asked.work, self._reader)
            except HostError as error:
                outcome = error
            asked.done.send_nowait(outcome)
            if isinstance(outcome, DeviceGone):
                raise outcome

    async def do(self, control: HostControl, values: Values, body: bytes) -> str:
        """Do what a control is for; return what to say. Raises Refused with the reason."""
        if values.get("device", "") != self._name:
            raise Refused(NOT_FOUND, "there is no such device")
        if values.get("engine", str(self._reader.number)) != str(self._reader.number):
            raise Refused(NOT_FOUND, "there is no such engine")
        done, outcome = trio.open_memory_channel[HostError | None](1)
        try:
            self._queue.send_nowait(_Asked(control.work(values, body), done))
        except trio.WouldBlock:
            raise Refused(BUSY, f"the engine has {WAITING} commands to do") from None
        error = await outcome.receive()
        if error is not None:
            raise Refused(CONFLICT, _reason(error))
        return "done"


def _reason(error: HostError) -> str:
    """Return the last line of the debug log where the device refused: it says why."""
    if not isinstance(error, CommandError) or not (lines := error.log.splitlines()):
        return str(error)
    name = f"{command_name(error.command)}: "
    return lines[-1] if lines[-1].startswith(name) else f"{name}{lines[-1]}"
