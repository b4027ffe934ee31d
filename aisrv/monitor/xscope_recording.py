"""Recordings of what programs send on xscope's probes: lines of JSON, and VCD. Each has a tracer."""

import json
import logging
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from vcd.writer import Variable, VCDPhaseError

from aisrv.xcore.core import Core
from aisrv.xcore.probes import DataType, Probe, ProbeEvent, ProbeKind, Value
from aisrv.xcore.trace import Tracer
from phy.vcd_recording import VcdRecording

logger = logging.getLogger(__name__)

TICK_NS: Final = 10


class XscopeRecording(Protocol):
    """A recording, which a context manager closes."""

    @property
    def tracer(self) -> Tracer:
        """What hears of the records of a node."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""


class XscopeLines(Tracer):
    """A file with a line of JSON for each record: tick, tile, core, probe, event and value; bytes in hex.

    Raises OSError if the file cannot be made. One that cannot be written later ends with an error in the log.
    """

    hears_verbs = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("w", encoding="ascii", buffering=1)  # a line at a time
        self._is_recording = True

    @property
    def tracer(self) -> Tracer:
        """This."""
        return self

    def probed(
        self, core: Core | None, tile: int, probe: Probe, event: ProbeEvent, value: Value, tick: int
    ) -> None:
        """Write a line."""
        line: dict[str, Any] = {"tick": tick, "tile": tile, "core": None if core is None else core.number}
        line |= {"probe": probe.name, "event": event.value}
        if value is not None:
            line["value"] = value.hex() if isinstance(value, bytes) else value
        self._try(lambda: self._file.write(json.dumps(line) + "\n"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._try(self._file.close)

    def _try(self, act: Any) -> None:  # noqa: ANN401 - any call on the file
        if not self._is_recording:
            return
        try:
            act()
        except OSError as error:
            self._is_recording = False
            logger.error("%s: %s; the recording ends here", self._path, error.strerror)
            with suppress(OSError):  # of the rest in its buffer
                self._file.close()


class XscopeVcd(VcdRecording):
    """A VCD file in nanoseconds, with a scope for each tile and a variable for each probe.

    Values of FLOAT are real, others integers, of blocks 1 from start to stop. Records of bytes are not in it.
    A probe that is registered after the first record behind tick 0 is left out, with a warning.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tracer: Final[Tracer] = _VcdTracer(self)
        self._variables: dict[tuple[int, str], Variable[Any]] = {}
        self._last = 0

    def add(self, tile: int, probe: Probe) -> None:
        """Add the variable of a probe."""
        if (tile, probe.name) in self._variables or not probe.is_enabled or not self._recording:
            return
        name = "_".join(probe.name.split())
        try:
            if probe.data_type is DataType.FLOAT:
                made: Variable[Any] = self._writer.register_var(f"tile{tile}", name, "real", 64, init=0.0)
            else:
                size = 1 if probe.kind is ProbeKind.STARTSTOP else 64
                made = self._writer.register_var(f"tile{tile}", name, "integer", size, init=0)
        except (VCDPhaseError, KeyError) as error:
            logger.warning("%s: probe %r of tile %d is left out: %s", self._path, probe.name, tile, error)
            return
        self._variables[tile, probe.name] = made

    def change(self, tile: int, probe: Probe, event: ProbeEvent, value: Value, tick: int) -> None:
        """Draw a record."""
        variable = self._variables.get((tile, probe.name))
        if variable is None or isinstance(value, bytes) or not self._recording:
            return
        if probe.kind is ProbeKind.STARTSTOP:
            value = int(event is ProbeEvent.START)
        elif probe.data_type is DataType.FLOAT:
            value = float(value or 0)
        else:
            value = int(value or 0) & (1 << 64) - 1
        self._last = max(self._last, tick * TICK_NS)
        try:
            self._writer.change(variable, self._last, value)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """End the file."""
        self._end(self._last)


class _VcdTracer(Tracer):
    hears_verbs = False

    def __init__(self, recording: XscopeVcd) -> None:
        self._recording = recording

    def probe_registered(self, tile: int, probe: Probe) -> None:
        """Add a variable."""
        self._recording.add(tile, probe)

    def probed(
        self, _core: Core | None, tile: int, probe: Probe, event: ProbeEvent, value: Value, tick: int
    ) -> None:
        """Draw it."""
        self._recording.change(tile, probe, event, value, tick)


def open_xscope(path: Path) -> XscopeRecording:
    """Make a recording: VCD where the name ends in `.vcd`, else lines of JSON. Raises OSError."""
    return XscopeVcd(path) if path.suffix.lower() == ".vcd" else XscopeLines(path)
