"""The state of a device at one moment, as values."""

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from aisrv.engine.gpio import Levels
from aisrv.protocol.commands import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisrv.device.parts import PartStatus


@dataclass(frozen=True, slots=True)
class Traffic:
    """Transferred bytes and commands at a port since the device started, or between two moments."""

    to_device: int = 0
    from_device: int = 0
    commands: int = 0

    def __sub__(self, before: Self) -> "Traffic":
        return Traffic(
            self.to_device - before.to_device,
            self.from_device - before.from_device,
            self.commands - before.commands,
        )


class CoreState(enum.Enum):
    """State of a logical core."""

    SET_ASIDE = "set aside"
    """Reserved for hardware support that needs no task, such as XUD."""
    WAITING = "waiting"
    RUNNING = "running"
    HALTED = "halted"
    """A trap ended its task."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A core that another one waits for."""

    tile: int
    name: str
    is_halted: bool = False
    """Whether a trap ended its task, so that the other one waits without end."""


@dataclass(frozen=True, slots=True)
class CoreStatus:
    """One logical core that is in use, and what it waits for."""

    number: int
    name: str
    """Name of its task."""
    state: CoreState
    verb: str = ""
    """Call that it waits in, empty unless it does."""
    waits_on: str = ""
    """Resource of the call, empty if it has none."""
    peers: tuple[Peer, ...] = ()
    """Cores that could wake it; none if only the outside could."""
    trap: str = ""
    """Trap that halted it, with verb and resource, or empty."""


@dataclass(frozen=True, slots=True)
class TileStatus:
    """One tile with the cores in use, by number."""

    number: int
    cores: tuple[CoreStatus, ...]
    chanends: int


@dataclass(frozen=True, slots=True)
class Score:
    """A byte of an output tensor, as int8, and its index: a class of a classifier."""

    index: int
    value: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One AI engine."""

    number: int
    tile: int
    model_bytes: int | None
    """Size of the model file; None without a model."""
    inferences: int
    """Successful ones since the device started."""
    top: tuple[Score, ...]
    """Largest bytes of output 0 of the last inference, the largest first; empty before it."""
    leds: Levels
    errors: Status
    """Error bits that no host has read yet."""
    fallback: str = ""
    """Interpreter in place of the engine's own if that has no code for the model, or empty."""


@dataclass(frozen=True, slots=True)
class PortStatus:
    """A port that hosts drive, and its traffic since the device started."""

    name: str
    total: Traffic


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """A device at one moment. Two that differ in time alone are equal."""

    name: str
    time: float = field(compare=False)
    """Seconds of Trio's clock."""
    tiles: tuple[TileStatus, ...]
    engines: tuple[EngineStatus, ...]
    ports: tuple[PortStatus, ...]
    deadlock: str = ""
    """Path of tasks that only each other could wake, or empty."""
    parts: "Mapping[str, PartStatus]" = field(default_factory=dict)
    """Views of the parts of add-ons, by the names of their tables."""
    ignored_packets: int = 0
    """Packets over USB that were no command, since the device started."""
    late: int = 0
    """Events in device time for which this machine was a millisecond late, or more."""
    latest_ms: float = 0.0
    """Milliseconds by which the latest of them was late."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Traffic of a port in a second."""

    to_device: float = 0.0
    from_device: float = 0.0
    commands: float = 0.0


def rates_between(before: DeviceStatus, after: DeviceStatus) -> tuple[Rates, ...]:
    """Return the rates at each port between two snapshots of a device; zeros if no time has passed."""
    seconds = after.time - before.time
    if seconds <= 0:
        return (Rates(),) * len(after.ports)
    return tuple(
        _per_second(new.total - old.total, seconds)
        for old, new in zip(before.ports, after.ports, strict=True)
    )


def _per_second(traffic: Traffic, seconds: float) -> Rates:
    return Rates(traffic.to_device / seconds, traffic.from_device / seconds, traffic.commands / seconds)
