"""What the page may do to devices: what a host can, through the same commands. Each is one POST request.

A command does not run in its request's task: a tab that is closed cancels that one, and the command goes on.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

import trio
from msgspec import Struct

from aisrv.addons.web.device.bench import Bench, BenchError
from aisrv.addons.web.query import threshold, whole_number
from aisrv.addons.web.view import Values
from aisrv.device.device import Device
from aisrv.listeners.websocket import BAD_REQUEST, NOT_FOUND, Refused
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import set_large
from phy.usb.bus import HostPort
from phy.usb.taps.fault_plan import FaultError

LARGEST_BODY: Final = 16 << 20
"""Bytes of a model, an input or a frame."""
WAITING: Final = 8
"""Commands that may wait for an engine."""
CONFLICT: Final = 409
BUSY: Final = 503


class _Asked(NamedTuple):
    """A command for an engine, and where its status goes."""

    command: Command
    data: bytes
    done: "trio.MemorySendChannel[Status]"


class Target(Struct, frozen=True):
    """A device, the port that hosts reach it by, and its bench, where it has one."""

    device: Device
    port: HostPort
    bench: Bench | None = None

    @property
    def tools(self) -> Bench:
        """The bench. Raises Refused."""
        if self.bench is None:
            raise Refused(NOT_FOUND, "this device takes no faults and no traces")
        return self.bench


class Control(Struct, frozen=True):
    """A control: the most bytes of its body, and a command with its data or what it does to a device."""

    most: int = 0
    command: Command | None = None
    data: Callable[[Values], bytes] | None = None
    """Makes the data of the query; None takes the body."""
    action: Callable[[Target, Values], bytes | None] | None = None
    """What it does at once; the bytes that it returns are the answer."""


def _flag(name: str) -> Callable[[Values], bytes]:
    return lambda values: bytes((whole_number(values, name, 0, 1),))


def _fault(target: Target, values: Values) -> None:
    try:
        target.tools.inject(values.get("spec", ""))
    except FaultError as error:
        raise Refused(BAD_REQUEST, str(error)) from None


def _trace(target: Target, values: Values) -> bytes | None:
    bench = target.tools
    on = whole_number(values, "on", 0, 1)
    try:
        if not on:
            return bench.stop_trace()
        bench.start_trace()
    except BenchError as error:
        raise Refused(CONFLICT, str(error)) from None
    return None


def _threshold(values: Values) -> bytes:
    return bytes(threshold(values))


CONTROLS: Final[Mapping[str, Control]] = {
    "model": Control(LARGEST_BODY, Command.SET_MODEL_ARENA),
    "model-ext": Control(LARGEST_BODY, Command.SET_MODEL_EXT),
    "input": Control(LARGEST_BODY, Command.SET_INPUT_TENSOR),
    "frame": Control(LARGEST_BODY, Command.SET_SENSOR_TENSOR),
    "infer": Control(command=Command.START_INFER),
    "stream": Control(command=Command.START_ACQUIRE_STREAM),
    "single": Control(command=Command.START_ACQUIRE_SINGLE),
    "gpio": Control(command=Command.SET_OUTPUT_GPIO_EN, data=_flag("on")),
    "gpio-mode": Control(command=Command.SET_OUTPUT_GPIO_MODE, data=_flag("max")),
    "threshold": Control(command=Command.SET_OUTPUT_GPIO_THRESH, data=_threshold),
    "reset": Control(action=lambda target, _: target.port.reset()),
    "unplug": Control(action=lambda target, _: target.device.usb.unplug()),
    "plug": Control(action=lambda target, _: target.device.usb.plug()),
    "fault": Control(action=_fault),
    "no-faults": Control(action=lambda target, _: target.tools.take_faults_back()),
    "trace": Control(action=_trace),
}


class Controls:
    """Carries out what pages ask for, one command of an engine at a time."""

    by_name: Final = CONTROLS

    def __init__(self, targets: Mapping[str, Target]) -> None:
        """`targets` are the devices by bus id."""
        self._targets = targets
        self._queues: dict[tuple[str, str], trio.MemorySendChannel[_Asked]] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry out commands until cancelled: a task for each engine."""
        async with trio.open_nursery() as nursery:
            for name, target in self._targets.items():
                for number in range(len(target.device.local)):
                    queue, asked = trio.open_memory_channel[_Asked](WAITING)
                    self._queues[name, str(number)] = queue
                    nursery.start_soon(_carry_out, target.device, number, asked)
            task_status.started()

    async def do(self, control: Control, values: Values, body: bytes) -> str | bytes:
        """Do what a control is for; return what to say, or a file. Raises Refused with the reason."""
        name = values.get("device", "")
        target = self._targets.get(name)
        if target is None:
            raise Refused(NOT_FOUND, "there is no such device")
        if control.action is not None:
            return control.action(target, values) or "done"
        engine = values.get("engine", "0")
        queue = self._queues.get((name, engine))
        if queue is None or control.command is None:
            raise Refused(NOT_FOUND, "there is no such engine")
        data = body if control.data is None else control.data(values)
        done, answer = trio.open_memory_channel[Status](1)
        try:
            queue.send_nowait(_Asked(control.command, data, done))
        except trio.WouldBlock:
            raise Refused(BUSY, f"the engine has {WAITING} commands to do") from None
        status = await answer.receive()
        if status is not Status.OKAY:
            log = bytes(target.device.engines[int(engine)].log).rstrip(b"\0")
            last = log.decode(errors="replace").strip().rpartition("\n")[2]
            raise Refused(CONFLICT, f"{control.command.name}: {last or status!r}")
        return "done"


async def _carry_out(device: Device, number: int, asked: "trio.MemoryReceiveChannel[_Asked]") -> None:
    """Carry out the commands of one engine on the program's own channel to it."""
    command = partial(set_large, device.local[number])
    async for each in asked:
        status = await command(each.command, 0, each.data)
        each.done.send_nowait(status)
