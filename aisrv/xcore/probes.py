"""xscope's probes: what programs record for their developers, and who hears of it: the tracers of the node.

Source: XMOS XTC tools, "xSCOPE target library" and "xSCOPE config file".
"""

import enum
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from aisrv.xcore.core import Core, current_core
from aisrv.xcore.traps import Trap, TrapKind

logger = logging.getLogger(__name__)

MOST_PROBES: Final = 255
"""Probes of a tile: their numbers are bytes, and 255 is -1, that of a probe that a config file disables."""
LONGEST_NAME: Final = 255
"""Characters of a probe's name, or of its unit."""
LARGEST_RECORD: Final = 1 << 16
"""Bytes of one `xscope_bytes`. A decision."""


class ProbeKind(enum.IntEnum):
    """The meaning of a probe's records; numbered as in `xscope.h`."""

    STARTSTOP = 1
    CONTINUOUS = 2
    DISCRETE = 3
    STATEMACHINE = 4
    HISTOGRAM = 5


class DataType(enum.IntEnum):
    """The type of a probe's values; numbered as in `xscope.h`."""

    NONE = 0
    UINT = 1
    INT = 2
    FLOAT = 3


class ProbeEvent(enum.Enum):
    """One record of a probe."""

    VALUE = "value"
    START = "start"
    STOP = "stop"


class Probe(Struct, frozen=True):
    """One probe."""

    name: str
    kind: ProbeKind
    data_type: DataType
    unit: str = ""
    is_enabled: bool = True


PING: Final = Probe("ping", ProbeKind.CONTINUOUS, DataType.NONE)
"""The probe that `xscope_ping` records on."""

Value = int | float | bytes | None
"""The value of a record: a number, bytes, or nothing."""


class ProbeTracer(Protocol):
    """A listener to records."""

    def probe_registered(self, tile: int, probe: Probe) -> None:
        """Hear of a probe of a tile."""

    def probed(
        self, core: Core | None, tile: int, probe: Probe, event: ProbeEvent, value: Value, tick: int
    ) -> None:
        """Hear of a record."""


class ProbedNode(Protocol):
    """The node whose programs record."""

    @property
    def tracer(self) -> ProbeTracer | None:
        """The listener to records; None where there is none."""

    @property
    def tiles(self) -> int:
        """The number of its tiles."""

    def tick_of(self, core: Core | None) -> int:
        """Return the tick at which a core is."""


class Xscope:
    """The probes of a node's tiles, and what is recorded on them."""

    def __init__(self, node: ProbedNode) -> None:
        self._node = node
        self._is_configured = False
        self._probes: dict[int, tuple[Probe, ...]] = {}
        self._disabled: set[int] = set()
        self._unknown: set[tuple[int, int]] = set()

    def configure(self, probes: Sequence[Probe]) -> None:
        """Give all tiles the `probes` of a config file; what programs register does not count then."""
        self._is_configured = True
        for tile in range(self._node.tiles):
            self._set(tile, probes)

    def register(self, tile: int, probes: Sequence[Probe]) -> None:
        """Give a tile its `probes`, numbered from 0, where no config file has (`xscope_register`).

        More than MOST_PROBES, and names longer than LONGEST_NAME, trap with ECALL.
        """
        if self._is_configured:
            return
        if len(probes) > MOST_PROBES:
            raise _refused(f"xscope_register: {len(probes)} probes are more than {MOST_PROBES}")
        for probe in probes:
            if max(len(probe.name), len(probe.unit)) > LONGEST_NAME:
                raise _refused(f"xscope_register: a name is longer than {LONGEST_NAME} characters")
        self._set(tile, probes)

    def number_of(self, name: str, tile: int = 0) -> int:
        """Return the number of a tile's probe by its name. Traps with ECALL where there is none."""
        for number, probe in enumerate(self._probes.get(tile, ())):
            if probe.name == name:
                return number
        raise _refused(f"tile {tile} has no probe {name!r}")

    def enable(self, tile: int, *, is_on: bool = True) -> None:
        """Record what a tile's programs send from now on, or nothing (`xscope_enable`, `xscope_disable`)."""
        self._disabled.discard(tile) if is_on else self._disabled.add(tile)

    def record(self, tile: int, number: int, event: ProbeEvent, value: Value = None, bits: int = 32) -> None:
        """Record on a probe of a tile, by number, for the running core.

        A whole number is unsigned, of so many `bits`; that of a probe of type INT becomes a signed one.

        A number that no probe has is logged once, and its records are lost, as those of a disabled probe are.
        """
        tracer = self._node.tracer
        if tracer is None or tile in self._disabled:
            return
        probes = self._probes.get(tile, ())
        if number >= len(probes):
            if number < MOST_PROBES and (tile, number) not in self._unknown:
                self._unknown.add((tile, number))
                logger.warning("tile %d records on probe %d, and has %d", tile, number, len(probes))
            return
        probe = probes[number]
        if not probe.is_enabled:
            return
        if probe.data_type is DataType.INT and isinstance(value, int) and value >> bits - 1:
            value -= 1 << bits
        self._tell(tracer, tile, probe, event, value)

    def ping(self, tile: int) -> None:
        """Record that a program pings (`xscope_ping`)."""
        tracer = self._node.tracer
        if tracer is not None and tile not in self._disabled:
            self._tell(tracer, tile, PING, ProbeEvent.VALUE, None)

    def _set(self, tile: int, probes: Sequence[Probe]) -> None:
        self._probes[tile] = tuple(probes)
        if self._node.tracer is not None:
            for probe in probes:
                self._node.tracer.probe_registered(tile, probe)

    def _tell(self, tracer: ProbeTracer, tile: int, probe: Probe, event: ProbeEvent, value: Value) -> None:
        core = current_core()
        tracer.probed(core, tile, probe, event, value, self._node.tick_of(core))


def _refused(reason: str) -> Trap:
    return Trap(TrapKind.ECALL, reason, "xscope")
