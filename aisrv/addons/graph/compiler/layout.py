"""A graph of a network: sizes first, then addresses, then words; no word depends on what comes later."""

from dataclasses import dataclass, field, replace
from typing import Final

from aisrv.addons.graph.binary.model import (
    IDLE,
    TRANSFER_RUNS,
    Format,
    Graph,
    Header,
    IoEntry,
    Script,
    ScriptEntry,
)
from aisrv.addons.graph.binary.tables import domain_code
from aisrv.addons.graph.compiler.arc_records import ArcRecords
from aisrv.addons.graph.compiler.dialect import Dialect
from aisrv.addons.graph.compiler.memory_plan import Address, MemoryPlan
from aisrv.addons.graph.compiler.network import Network
from aisrv.addons.graph.compiler.node_records import NodeRecords
from aisrv.addons.graph.compiler.records import check_fields, fields_of
from aisrv.addons.graph.errors import Messages
from aisrv.addons.graph.script.assembler import Code, assemble
from aisrv.addons.graph.text.grammar import Section
from aisrv.addons.graph.text.sections import TextSection

MOST_FILL_WORDS: Final = 65536
DEBUG_PAGE_WORDS: Final = 32
_HEADER: Final = {"debug_script_fields": "debug_script_fields", "scheduler_return": "scheduler_return"}


@dataclass(slots=True)
class Layout:
    """Lays out one graph; its errors go to `messages`."""

    control: TextSection
    network: Network
    formats: tuple[Format, ...]
    plan: MemoryPlan
    messages: Messages
    dialect: Dialect
    codes: dict[int, Code] = field(default_factory=dict)

    def graph(self) -> Graph:
        network, plan, codes = self.network, self.plan, self.codes
        for index, arc in enumerate(network.arcs):
            if arc.code is not None:
                codes[index] = assemble(arc.code.blocks, arc.text.place, self.messages, self.dialect.line)
                if arc.text.kind is Section.SCRIPT:
                    self.dialect.check_script(codes[index], self.messages)
        node_records = NodeRecords(network, self.formats, codes, self.dialect, self.messages)
        arc_records = ArcRecords(network, self.formats, codes, plan, self.dialect, self.messages)
        fill = self._fill()
        debug_words = DEBUG_PAGE_WORDS * arc_records.debug_pages()
        self.messages.check()
        nodes = node_records.unplaced()
        graph = Graph(
            header=self._header(debug_words, 1 + sum(node.word_count for node in nodes)),
            ios=(IoEntry(),) * len(network.ios),
            nodes=nodes,
            ongoing=bytes([IDLE] * len(network.ios) + [TRANSFER_RUNS] * (-len(network.ios) % 4)),
            arc_debug=(0,) * debug_words,
            formats=self.formats,
            fill=fill,
        )
        node_records.resolve(graph.node_positions())
        start = self._place_graph(graph.loaded_bytes)
        arc_records.place()
        node_records.place(plan, is_working=False)
        arc_records.place_shared()
        node_records.place(plan, is_working=True)
        nodes = node_records.placed(nodes)
        header = replace(
            graph.header,
            destination=start.offset_id << 22 | start.byte,
            fill_low=int.from_bytes(plan.fill()[:4], "little"),
            fill_high=int.from_bytes(plan.fill()[4:], "little"),
        )
        self._check(header)
        ios, scripts = self._ios(), self._scripts()
        self.messages.check()
        graph = replace(
            graph, header=header, ios=ios, scripts=scripts, nodes=nodes, arcs=tuple(arc_records.arcs)
        )
        return self.dialect.finish(
            graph, [[use.is_working for use in uses] for uses in node_records.segments]
        )

    def _header(self, debug_words: int, node_words: int) -> Header:
        """Return the header without the results of the memory plan."""
        control, network = self.control, self.network
        location = control.whole("graph_location")
        return Header(
            location=2 if location == 3 else location,
            script_words=sum(1 + len(self.codes[arc].all_words()) for arc in network.script_arcs.values()),
            ios=len(network.ios),
            formats=len(self.formats),
            arc_debug_words=debug_words,
            node_words=node_words,
            arcs=len(network.arcs),
            allowed_processors=control.whole("allowed_processors", 1),
            **fields_of(control, _HEADER),
        )

    def _check(self, header: Header) -> None:
        control = self.control
        if not 0 <= header.scheduler_return <= 3:
            self.messages.error(control.place_of("scheduler_return"), "scheduler_return is 1, 2 or 3")
        if not 0 <= header.location <= 3:
            self.messages.error(control.place_of("graph_location"), "graph_location is 0 to 3")
        tags = _HEADER | {"allowed_processors": "allowed_processors"}
        check_fields(header, control, tags, self.messages)

    def _place_graph(self, size: int) -> Address:
        offset = self.control.whole("graph_location_offset")
        if not 0 <= offset < 1 << 22:
            place = self.control.place_of("graph_location_offset")
            self.messages.error(place, "the offset is 0 to 4194303 bytes")
            offset = 0
        return self.dialect.place_graph(self.plan, self.control, offset, size)

    def _fill(self) -> tuple[int, ...]:
        words: list[int] = []
        for statement in self.control.every("mem_fill_pattern"):
            count, pattern = int(statement.values[0]), int(statement.values[1])
            if not 0 <= count <= MOST_FILL_WORDS - len(words):
                self.messages.error(
                    statement.place, f"a graph has 0 to {MOST_FILL_WORDS} words of fill pattern"
                )
            elif pattern > 0xFFFFFFFF:
                self.messages.error(statement.place, f"{pattern:#x} is not a 32-bit word")
            else:
                words += [pattern] * count
        return tuple(words)

    def _ios(self) -> tuple[IoEntry, ...]:
        entries = []
        for index, io in enumerate(self.network.ios):
            statement = io.text.find("stream_io_setting")
            settings = [int(value) & 0xFFFFFFFF for value in statement.values] if statement else []
            entry = IoEntry(
                hwid=io.hwid,
                domain=domain_code(io.manifest.domain),
                copy=io.copy,
                servant=io.manifest.servant,
                tx=io.manifest.tx,
                arc=index,
                **{f"setting{number}": setting for number, setting in enumerate(settings, 1)},
            )
            entry = self.dialect.io(entry, io.number)
            check_fields(entry, io.text, {"hwid": "stream_io_hwid"}, self.messages)
            entries.append(entry)
        return tuple(entries)

    def _scripts(self) -> tuple[Script, ...]:
        scripts = []
        offset = len(self.network.scripts)
        for number, text in enumerate(self.network.scripts):
            arc = self.network.script_arcs[number]
            code = self.codes[arc]
            words = tuple(code.all_words())
            shared = int(text.whole("script_mem_shared") > 0)
            entry = ScriptEntry(arc=arc, format=code.format, shared=shared, offset=offset)
            check_fields(entry, text, {}, self.messages)
            scripts.append(Script(entry, words))
            offset += len(words)
        return tuple(scripts)
