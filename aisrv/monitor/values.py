"""The state of a device at one moment, as values."""

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from aisrv.engine.gpio import Levels
from aisrv.protocol.commands import Status

if TYPE_CHECKING:
    from aisrv.graph.run.status import GraphStatus


@dataclass(frozen=True, slots=True)
class Traffic:
    """What has crossed a port since the device started, or between two moments."""

    to_device: int = 0
    """Bytes."""
    from_device: int = 0
    """Bytes."""
    commands: int = 0

    def __sub__(self, before: Self) -> "Traffic":
        return Traffic(
            self.to_device - before.to_device,
            self.from_device - before.from_device,
            self.commands - before.commands,
        )


class CoreState(enum.Enum):
    """What a logical core is doing."""

    SET_ASIDE = "set aside"
    """For hardware support that needs no task, such as XUD."""
    WAITING = "waiting"
    """Its task waits for something."""
    RUNNING = "running"
    """Its task runs, or could."""
    HALTED = "halted"
    """A trap ended its task."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A core that another one waits for."""

    tile: int
    """The number of its tile."""
    name: str
    """The name of its task."""
    is_halted: bool = False
    """Whether a trap ended its task, so that the other one waits without end."""


@dataclass(frozen=True, slots=True)
class CoreStatus:
    """One logical core that is in use, and what it waits for."""

    number: int
    """Its number on the tile."""
    name: str
    """The name of its task."""
    state: CoreState
    """What it is doing."""
    verb: str = ""
    """The call that it waits in, empty unless it does."""
    waits_on: str = ""
    """The resource that the call is on, empty where it is on none."""
    peers: tuple[Peer, ...] = ()
    """The cores that could wake it; none where that is somebody outside."""
    trap: str = ""
    """The trap that halted it, with verb and resource; empty unless one did."""


@dataclass(frozen=True, slots=True)
class TileStatus:
    """One tile with the cores in use, by number."""

    number: int
    cores: tuple[CoreStatus, ...]
    chanends: int
    """Channel ends allocated."""


@dataclass(frozen=True, slots=True)
class Score:
    """A byte of an output tensor, as int8, and its index: a class of a classifier."""

    index: int
    """Its place in the tensor."""
    value: int
    """The byte, -128 to 127."""
    label: str = ""
    """The name of the class, where it is known."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One AI engine."""

    number: int
    """Its number on the board."""
    tile: int
    model_bytes: int | None
    """Size of the model file; None without a model."""
    inferences: int
    """Successful ones since the device started."""
    top: tuple[Score, ...]
    """The largest bytes of output 0 of the last inference, the largest first; empty before it."""
    leds: Levels
    """The levels of its four outputs."""
    errors: Status
    """Error bits that no host has read yet."""
    fallback: str = ""
    """What runs the model where the engine's own interpreter has no code for it; empty where that does."""


@dataclass(frozen=True, slots=True)
class PortStatus:
    """A port that hosts drive, and what has crossed it since the device started."""

    name: str
    """What the view calls it."""
    total: Traffic
    """What has crossed it."""


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """A device at one moment. Two that differ in time alone are equal."""

    name: str
    """What the view calls it."""
    time: float = field(compare=False)
    """Seconds of Trio's clock."""
    tiles: tuple[TileStatus, ...]
    engines: tuple[EngineStatus, ...]
    ports: tuple[PortStatus, ...]
    deadlock: str = ""
    """The tasks that only each other could wake, as a path; empty unless there are such."""
    graph: "GraphStatus | None" = None
    """The graph that runs on it; None where there is none."""
    ignored_packets: int = 0
    """Packets over USB that were no command, since the device started."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What crosses a port in a second."""

    to_device: float = 0.0
    """Bytes."""
    from_device: float = 0.0
    """Bytes."""
    commands: float = 0.0


def rates_between(before: DeviceStatus, after: DeviceStatus) -> tuple[Rates, ...]:
    """Return the rates at each port from one snapshot to a later one; zeros where no time has passed.

    `before` and `after` are snapshots of one device.
    """
    seconds = after.time - before.time
    if seconds <= 0:
        return (Rates(),) * len(after.ports)
    return tuple(
        _per_second(new.total - old.total, seconds)
        for old, new in zip(before.ports, after.ports, strict=True)
    )


def _per_second(traffic: Traffic, seconds: float) -> Rates:
    return Rates(traffic.to_device / seconds, traffic.from_device / seconds, traffic.commands / seconds)
