"""The scheduler: visits the IOs and the nodes of a graph, in an order that depends on nothing but the data.

It is synchronous and does no I/O: drivers answer through `IoPort.acknowledge`, and between two RUNs whatever
else there is may enter. Several interpreters share a graph, each on a core, with its IOs.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from aisrv.addons.graph.binary.model import Node
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.arcs import jitter_for_size
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup, StreamNode
from aisrv.addons.graph.nodes.registry import Registry
from aisrv.addons.graph.run.commands import Command, DebugEvent, Identity, ReturnMode
from aisrv.addons.graph.run.io import Driver
from aisrv.addons.graph.run.node_entry import NodeEntry
from aisrv.addons.graph.run.scripts import GraphScripts, ScriptCounts
from aisrv.addons.graph.run.state import GraphState

logger = logging.getLogger(__name__)

MOST_PASSES: Final = 100_000
"""Passes of one RUN, if nodes feed each other without end."""
MAIN: Final = Identity()
"""Interpreter of a graph that has only one."""


class Scripts(Protocol):
    """Runs the scripts of a graph. It counts faults and raises nothing."""

    @property
    def counts(self) -> ScriptCounts:
        """Counters since RESET."""

    def reset(self) -> None:
        """Clear the registers and heaps of all scripts."""

    def run_script(
        self, number: int, *, flag: bool = False, r0: int | None = None, r1: int | None = None
    ) -> None:
        """Run the script with this number in the table, with the flag and r0 and r1 set before."""

    def run_node(self, node: Node) -> None:
        """Run a script node."""


class Interpreter:
    """Runs a graph, or its part of one, on a core.

    `log` gets the lines of the graph's log. `tag` and `data` of a parameter are its number and bytes; `hwid`
    is the platform's number of an IO.
    """

    def __init__(
        self,
        state: GraphState,
        registry: Registry,
        *,
        identity: Identity = MAIN,
        ios: Collection[int] | None = None,
        log: Callable[[str], None] = logger.info,
        scripts: Callable[["Interpreter"], Scripts] = GraphScripts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the nodes of a graph. Raises GraphError if one is unknown, or this core may not run it.

        `ios` are the numbers of its own IOs, by default all. `clock` gives seconds to scripts.
        """
        graph = state.graph
        if not graph.header.allowed_processors >> (identity.processor - 1) & 1:
            raise GraphError(
                f"the graph allows processors {graph.header.allowed_processors:#04x}, "
                f"not {identity.processor}"
            )
        self.state: Final = state
        self.identity: Final = identity
        self.log: Final = log
        self.clock: Final = clock
        self.callbacks: Final[dict[int, Callable[[int, int, int], None]]] = {}
        """Functions of the application that scripts and arcs call, by number."""
        self.ports: Final = tuple(port for port in state.ports if ios is None or port.number in ios)
        mode = graph.header.scheduler_return
        self.mode = ReturnMode(mode) if mode in (1, 2, 3) else ReturnMode.STARVED
        self.runs = 0
        self.passes = 0
        self.visits = 0
        self._next = 0
        self._moved_in_pass = False
        self._fields = DebugEvent(graph.header.debug_script_fields & 31)
        self._me = identity.byte
        self.entries: Final = self._entries(registry)
        self._by_word = {entry.word: entry for entry in self.entries}
        self._scripts = scripts(self) if state.graph.scripts or _has_script_nodes(self.entries) else None
        self._commands: Final[dict[Command, Callable[[object], object]]] = {
            Command.RESET: lambda data: self.reset(warm_boot=bool(data)),
            Command.RUN: lambda _: self.run(),
            Command.STOP: lambda _: self.stop(),
            Command.UPDATE_RELOCATABLE: lambda _: None,  # nodes keep views of memory that does not move
        }

    def __call__(self, command: Command, data: object = None) -> object:
        """Run a command; for RESET, `data` says whether the boot is warm."""
        if command not in self._commands:
            raise GraphError(f"{command.name} goes to a node: see set_parameter and read_parameter")
        return self._commands[command](data)

    @property
    def script_counts(self) -> ScriptCounts:
        """Counters of its scripts since RESET."""
        return ScriptCounts() if self._scripts is None else self._scripts.counts

    @property
    def link(self) -> int:
        """Words from the first node to that where the next RUN begins."""
        return self.entries[self._next].word - self.state.graph.node_list_word if self.entries else 0

    def entry_at(self, word: int) -> NodeEntry:
        """Return the node at an index in the words. Raises GraphError."""
        try:
            return self._by_word[word]
        except KeyError:
            raise GraphError(f"no node begins at word {word}") from None

    def attach(self, hwid: int, driver: Driver) -> None:
        """Give an IO its driver. Raises GraphError if the graph does not use that IO."""
        ports = [port for port in self.ports if port.hwid == hwid]
        if not ports:
            used = ", ".join(str(port.hwid) for port in self.ports) or "none"
            raise GraphError(f"the graph does not use IO {hwid}; it uses {used}")
        for port in ports:
            port.driver = driver

    # Commands.

    def reset(self, *, warm_boot: bool = False) -> None:
        """Begin anew: empty the arcs, reset each node in order, and give it its parameters.

        Raises GraphError with the name of a node that refuses. `warm_boot` keeps what nodes retain in memory.
        """
        self._next = self.runs = self.passes = self.visits = 0
        self._check_scripts()
        self.state.watch_arcs(self.callbacks, self.clock)
        for arc in self.state.arcs:
            if arc is not None:
                arc.reset()
        for port in self.ports:
            port.reset()
        if self._scripts is not None:
            self._scripts.reset()
        for entry in self.entries:
            entry.failed = False
            entry.counts.calls = entry.counts.consumed = entry.counts.produced = entry.counts.errors = 0
            if entry.node is not None:
                self._reset_node(entry, entry.node, warm_boot=warm_boot)
        for warning in self.dead_locks():
            self.log(f"warning: {warning}")

    def run(self, mode: ReturnMode | None = None) -> bool:
        """Run until the return mode says; return whether a node has moved a byte."""
        self.runs += 1
        fields = self._fields
        if fields & DebugEvent.RUN_ENTERED:
            self._debug(DebugEvent.RUN_ENTERED, 0)
        mode = mode or self.mode
        moved = False
        if not self.entries:
            for port in self.ports:
                port.visit()
        elif mode is ReturnMode.NODE:
            moved = self._run_node()
        else:
            moved = self._run_pass()
            passes = 1
            while mode is ReturnMode.STARVED and self._moved_in_pass:
                if passes == MOST_PASSES:
                    self.log(f"a RUN ended after {passes} passes: nodes still move data")
                    break
                self._run_pass()
                passes += 1
        if fields & DebugEvent.RUN_LEFT:
            self._debug(DebugEvent.RUN_LEFT, 0)
        return moved

    def stop(self) -> None:
        """Stop all nodes, in order."""
        for entry in self.entries:
            if entry.node is not None:
                entry.node.stop()

    def set_parameter(self, word: int, tag: int, data: bytes) -> None:
        """Give parameters to the node at an index in the words. Raises GraphError."""
        self._node_at(word).set_parameter(tag, data)

    def read_parameter(self, word: int, tag: int) -> bytes:
        """Read a parameter of the node at an index in the words. Raises GraphError."""
        return self._node_at(word).read_parameter(tag)

    def _node_at(self, word: int) -> StreamNode:
        node = self.entry_at(word).node
        if node is None:
            raise GraphError(f"the node at word {word} is a script")
        return node

    def dead_locks(self) -> list[str]:
        """Describe the arcs that are too small for some order of writes and reads."""
        warnings = []
        lent = {port.arc.number for port in self.state.ports if not port.copies}
        for arc in self.state.arcs:
            if arc is None or arc.number in lent:
                continue
            factor = jitter_for_size(arc.size, arc.producer_frame, arc.consumer_frame)
            if factor is not None:
                warnings.append(
                    f"arc {arc.number} of {arc.size} bytes can dead-lock between frames of "
                    f"{arc.producer_frame} "
                    f"and {arc.consumer_frame}: arc_jitter_ctrl {factor} is enough"
                )
        return warnings

    # Parts of the above.

    def _entries(self, registry: Registry) -> tuple[NodeEntry, ...]:
        entries: list[NodeEntry] = []
        graph = self.state.graph
        instances: dict[str, int] = {}
        for model, word in zip(graph.nodes, graph.node_positions(), strict=True):
            name = registry.name(model.head.node_idx)
            instance = instances.get(name, 0)
            instances[name] = instance + 1
            ours = self.identity.may_run(model)
            node = None if model.is_script else registry.create(model.head.node_idx)
            entries.append(NodeEntry(name, instance, word, model, node, self.state, ours=ours))
        return tuple(entries)

    def _check_scripts(self) -> None:
        graph = self.state.graph
        for number, script in enumerate(graph.scripts):
            if script.entry.format:
                raise GraphError(f"script {number} is of 16-bit codes, which no machine runs")

    def _reset_node(self, entry: NodeEntry, node: StreamNode, *, warm_boot: bool) -> None:
        model, state = entry.model, self.state
        inputs = state.formats(model, outputs=False)
        if not node.takes_time_stamps and any(form.time_stamp for form in inputs):
            raise GraphError(f"{entry.title}: its input has time-stamps: put a converter before it")
        setup = NodeSetup(
            inputs=inputs,
            outputs=state.formats(model, outputs=True),
            segments=state.segments(model),
            preset=model.control.preset,
            user_key=model.user_key,
            warm_boot=warm_boot,
            log=self.log,
        )
        try:
            node.reset(setup)
            if model.parameters:
                data = b"".join(word.to_bytes(4, "little") for word in model.parameters)
                node.set_parameter(model.control.tag, data)
        except NodeError as error:
            raise GraphError(f"{entry.title}: {error}") from error

    def _run_node(self) -> bool:
        """Examine nodes until one was examined, at most all of them once."""
        for _ in range(len(self.entries)):
            moved = self._examine(self.entries[self._next])
            self._next += 1
            if self._next == len(self.entries):
                self._next = 0
                self._end_pass()
            if moved is not None:
                return bool(moved)
        return False

    def _run_pass(self) -> bool:
        moved = 0
        entries = self.entries
        for index in range(self._next, len(entries)):
            entry = entries[index]
            result = self._examine(entry)
            if result and entry.node is not None:
                moved += result
        self._next = 0
        self._end_pass()
        self._moved_in_pass = moved > 0
        return moved > 0

    def _end_pass(self) -> None:
        self.passes += 1
        if self._fields & DebugEvent.END_OF_PASS:
            self._debug(DebugEvent.END_OF_PASS, 0)

    def _examine(self, entry: NodeEntry) -> int | None:
        """Visit the IOs and a node; return the bytes that it moved, None if it was not examined."""
        for port in self.ports:
            port.visit()
        if not entry.ours:
            return None
        lock = entry.lock
        if lock is not None:
            if lock.collision:
                return None
            lock.collision = self._me
            if lock.collision != self._me:
                return None
        try:
            self.visits += 1
            if not entry.ready:
                return 0
            return self._call(entry)
        finally:
            if lock is not None:
                lock.collision = 0

    def _call(self, entry: NodeEntry) -> int:
        fields = self._fields
        if fields & DebugEvent.BEFORE_NODE:
            self._debug(DebugEvent.BEFORE_NODE, entry.word)
        script = entry.model.head.script
        if script:
            self._run_script(script, flag=True)
        node = entry.node
        if node is not None:
            moved = entry.call(node, self.log)
        else:
            moved = 0
            entry.counts.calls += 1
            if self._scripts is not None:
                self._scripts.run_node(entry.model)
        if script:
            self._run_script(script, flag=False)
        if fields & DebugEvent.AFTER_NODE:
            self._debug(DebugEvent.AFTER_NODE, entry.word)
        return moved

    def _run_script(self, number: int, *, flag: bool) -> None:
        if self._scripts is not None:
            self._scripts.run_script(number, flag=flag)

    def _debug(self, event: DebugEvent, word: int) -> None:
        if self._scripts is not None and self.state.graph.scripts:
            self._scripts.run_script(0, r0=int(event), r1=word)


def _has_script_nodes(entries: Iterable[NodeEntry]) -> bool:
    return any(entry.node is None for entry in entries)
