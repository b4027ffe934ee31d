"""The scripts of a graph with their machines, and the services that `callsys` asks of the graph."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from aisrv.addons.graph.binary.model import Node, ScriptArc
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.arcs import ArcBuffer
from aisrv.addons.graph.run.commands import Command
from aisrv.addons.graph.run.state import GraphState
from aisrv.addons.graph.script.machine import ScriptMachine
from aisrv.addons.graph.script.state import ScriptFault

_TAG_SHIFT: Final = 8
_SETTINGS_BYTES: Final = 12


class ScriptHost(Protocol):
    """The interpreter of the scripts."""

    @property
    def state(self) -> GraphState: ...

    @property
    def log(self) -> Callable[[str], None]: ...

    @property
    def callbacks(self) -> Mapping[int, Callable[[int, int, int], None]]:
        """Functions of the application, by number."""

    @property
    def clock(self) -> Callable[[], float]: ...

    def set_parameter(self, word: int, tag: int, data: bytes) -> None: ...

    def read_parameter(self, word: int, tag: int) -> bytes: ...


@dataclass(slots=True)
class ScriptCounts:
    """Counters of a graph's scripts since RESET."""

    runs: int = 0
    faults: int = 0
    last_fault: str = ""
    written: int = 0
    """Bytes that scripts have put into arcs."""


class GraphServices:
    """Runs the services of scripts on the graph of an interpreter."""

    def __init__(self, interpreter: ScriptHost, counts: ScriptCounts) -> None:
        self._interpreter = interpreter
        self._counts = counts

    def node(self, address: int, command: int, data: memoryview) -> int:
        """Give a parameter to the node at a word of the graph, or read one; return the bytes moved."""
        tag = command >> _TAG_SHIFT & 0xFF
        try:
            if command & 0xF == Command.SET_PARAMETER:
                self._interpreter.set_parameter(address, tag, bytes(data))
                return len(data)
            if command & 0xF == Command.READ_PARAMETER:
                value = self._interpreter.read_parameter(address, tag)[: len(data)]
                data[: len(value)] = value
                return len(value)
        except GraphError as error:
            raise ScriptFault("service", str(error)) from None
        raise ScriptFault("service", f"node command {command & 0xF}: scripts may use 2 and 3")

    def arc(self, arc: int, command: int, data: memoryview) -> int:
        """Write data to an arc (8) or read it (9); return the bytes moved, as many as fit or are there."""
        buffer = self._arc(arc)
        if command == _ARC_WRITE:
            size = min(len(data), buffer.free)
            buffer.writable()[:size] = np.frombuffer(data[:size], np.uint8)
            buffer.produce(size)
            self._counts.written += size
            return size
        if command == _ARC_READ:
            size = min(len(data), buffer.filled)
            data[:size] = buffer.readable()[:size].tobytes()
            buffer.consume(size)
            return size
        raise ScriptFault("service", f"arc command {command}: they are {_ARC_WRITE} and {_ARC_READ}")

    def application(self, number: int, *parameters: int) -> None:
        callback = self._interpreter.callbacks.get(number)
        if callback is None:
            raise ScriptFault("service", f"the application has no callback {number}")
        first, second, third = (*parameters, 0, 0, 0)[:3]
        callback(first, second, third)

    def io_settings(self, io: int, command: int, data: memoryview) -> int:
        """Set (2) or read (3) the three settings of an IO; return the bytes moved."""
        ports = self._interpreter.state.ports
        if not 0 <= io < len(ports):
            raise ScriptFault("service", f"unknown IO {io}; they are 0 to {len(ports) - 1}")
        port = ports[io]
        settings = b"".join(word.to_bytes(4, "little") for word in port.settings)
        size = min(len(data), _SETTINGS_BYTES)
        if command == Command.READ_PARAMETER:
            data[:size] = settings[:size]
        elif command == Command.SET_PARAMETER:
            settings = bytes(data[:size]) + settings[size:]
            first, second, third = (int.from_bytes(settings[at : at + 4], "little") for at in (0, 4, 8))
            port.settings = first, second, third
        else:
            raise ScriptFault("service", f"IO command {command}: they are 2 and 3")
        return size

    def time(self, time_format: int) -> tuple[int, int]:
        """Return the time in a format 41 to 44: low and high word."""
        ticks = int(self._interpreter.clock() * _TIME_UNITS[time_format])
        bits = 32 if time_format in _SHORT_TIMES else 64
        ticks &= (1 << bits) - 1
        return ticks & 0xFFFFFFFF, ticks >> 32

    def _arc(self, number: int) -> ArcBuffer:
        arcs = self._interpreter.state.arcs
        buffer = arcs[number] if 0 <= number < len(arcs) else None
        if buffer is None:
            raise ScriptFault("service", f"unknown arc {number} with data")
        return buffer


_ARC_WRITE: Final = 8
_ARC_READ: Final = 9
_SHORT_TIMES: Final = frozenset({41, 42})
_TIME_UNITS: Final = {41: 1 << 2, 42: 1 << 15, 43: 1 << 28, 44: 1000}
"""Units of a second: q30.2, q17.15, q32.28 and milliseconds."""


class GraphScripts:
    """The scripts of a graph, those of the table and those that are nodes."""

    def __init__(self, interpreter: ScriptHost) -> None:
        self.counts: Final = ScriptCounts()
        self._log: Callable[[str], None] = interpreter.log
        graph = interpreter.state.graph
        services = GraphServices(interpreter, self.counts)
        self._table: list[ScriptMachine | None] = []
        for script in graph.scripts:
            arc = graph.arcs[script.entry.arc]
            machine = ScriptMachine(script.code, arc, services) if isinstance(arc, ScriptArc) else None
            self._table.append(machine)
        self._nodes: dict[int, ScriptMachine] = {}
        for node in graph.nodes:
            for half in node.arcs[:1] if node.is_script else ():
                arc = graph.arcs[half.arc]
                if isinstance(arc, ScriptArc):
                    self._nodes[half.arc] = ScriptMachine(node.parameters, arc, services)

    def reset(self) -> None:
        """Clear the registers and heaps of all scripts, and the counts."""
        self.counts.runs = self.counts.faults = self.counts.written = 0
        self.counts.last_fault = ""
        for machine in (*self._table, *self._nodes.values()):
            if machine is not None:
                machine.reset()

    def run_script(
        self, number: int, *, flag: bool = False, r0: int | None = None, r1: int | None = None
    ) -> None:
        machine = self._table[number] if number < len(self._table) else None
        if machine is not None:
            self._run(f"script {number}", machine, flag=flag, r0=r0, r1=r1)

    def run_node(self, node: Node) -> None:
        for half in node.arcs[:1]:
            machine = self._nodes.get(half.arc)
            if machine is not None:
                self._run(f"the script node of arc {half.arc}", machine)

    def _run(
        self,
        name: str,
        machine: ScriptMachine,
        *,
        flag: bool = False,
        r0: int | None = None,
        r1: int | None = None,
    ) -> None:
        self.counts.runs += 1
        fault = machine.run(flag=flag, r0=r0, r1=r1)
        if fault is not None:
            self.counts.faults += 1
            self.counts.last_fault = (
                f"{name}, word {fault.at} ({fault.word:#010x}): {fault.kind} fault: {fault.text}"
            )
            self._log(self.counts.last_fault)
