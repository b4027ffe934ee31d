"""The list of nodes: each is built once, and gets the addresses of its segments when these are placed."""

from dataclasses import dataclass, replace
from typing import Final

from aisrv.addons.graph.binary.bitfields import words_of_bytes
from aisrv.addons.graph.binary.model import Format, Node, NodeArc, NodeHead, ParameterHead
from aisrv.addons.graph.compiler.dialect import Dialect
from aisrv.addons.graph.compiler.memory_plan import MemoryPlan
from aisrv.addons.graph.compiler.network import Network, NodeUse
from aisrv.addons.graph.compiler.records import check_fields, fields_of
from aisrv.addons.graph.compiler.segments import place_segments, segment_records, segment_uses
from aisrv.addons.graph.errors import Messages
from aisrv.addons.graph.script.assembler import Code
from aisrv.addons.graph.text.grammar import node_name
from aisrv.addons.graph.text.source import Data

HEAD: Final = {
    "processor": "node_map_proc",
    "architecture": "node_map_arch",
    "priority": "node_map_rtos",
    "script": "node_script",
}
CONTROL: Final = {"preset": "node_preset", "trace_id": "node_trace_id"}
_PARAMETERS: Final = {"tag": "node_parameters", "length": "node_parameters"}


@dataclass
class NodeRecords:
    """The nodes of a network, on their way to words."""

    network: Network
    formats: tuple[Format, ...]
    codes: dict[int, Code]
    dialect: Dialect
    messages: Messages

    def __post_init__(self) -> None:
        nodes = self.network.nodes
        self.segments = [segment_uses(node, self.formats, self.dialect, self.messages) for node in nodes]

    def unplaced(self) -> tuple[Node, ...]:
        """Return the nodes with their final numbers of words, without addresses and positions in scripts."""
        return tuple(map(self._node, range(len(self.network.nodes))))

    def resolve(self, positions: tuple[int, ...]) -> None:
        """Write the positions of nodes, indices of their first words, where scripts ask for them."""
        known = dict(zip((node.name for node in self.network.nodes), positions, strict=True))
        for arc, code in self.codes.items():
            for reference in code.nodes:
                name = _first_name(reference.name)
                inner = self.network.arcs[arc].text.prefix + name
                name = inner if inner in known else name
                if name in known:
                    code.words[reference.at] = known[name]
                else:
                    self.messages.error(reference.place, f"the graph has no node {reference.name!r}")

    def place(self, plan: MemoryPlan, *, is_working: bool) -> None:
        for node, uses in zip(self.network.nodes, self.segments, strict=True):
            place_segments(node, uses, plan, is_working=is_working)

    def placed(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        found = []
        for use, uses, node in zip(self.network.nodes, self.segments, nodes, strict=True):
            segments = segment_records(uses)
            for segment in segments:  # the sizes are checked
                check_fields(replace(segment, size=0), use.text, {}, self.messages)
            parameters = tuple(self._code(use)) if use.is_script else node.parameters
            found.append(replace(node, segments=segments, parameters=parameters))
        return tuple(found)

    def _node(self, index: int) -> Node:
        use = self.network.nodes[index]
        text = use.text
        count = use.arcs_in + use.arcs_out
        head = NodeHead(arcs=count, node_idx=use.manifest.index, **fields_of(text, HEAD))
        tag, parameters = self._parameters(use)
        control = ParameterHead(tag=tag, length=len(parameters) + 1, **fields_of(text, CONTROL))
        if not 0 <= head.script < max(len(self.network.scripts), 1):
            self.messages.error(text.place_of("node_script"), f"script {head.script} is not declared")
        check_fields(head, text, HEAD, self.messages)
        check_fields(control, text, CONTROL | _PARAMETERS, self.messages)
        segments = segment_records(self.segments[index])
        for segment in segments:
            check_fields(segment, text, {"size": "node_malloc_add"}, self.messages)
        key = text.find("node_user_key")
        return Node(
            head,
            tuple(self._arc(use, number, key is not None) for number in range(count)),
            segments,
            (int(key.values[0]) & 0xFFFFFFFF, int(key.values[1]) & 0xFFFFFFFF) if key else None,
            control,
            tuple(parameters),
        )

    def _arc(self, node: NodeUse, number: int, has_key: bool) -> NodeArc:
        arc = node.arcs[number].arc
        # The arc of a script node is its memory: the words have it as an input.
        tx = 0 if node.is_script else int(node.manifest.is_tx(number, node.arcs_in))
        page = self.network.arcs[arc].text.whole("arc_debug_page")
        return NodeArc(key=int(has_key and number == 0), debug_page=page, tx=tx, arc=arc)

    def _code(self, node: NodeUse) -> list[int]:
        return self.codes[node.arcs[0].arc].all_words()

    def _parameters(self, node: NodeUse) -> tuple[int, list[int]]:
        """Return the tag and the words of a node's parameters; for a script node, its code."""
        blocks = node.text.blocks
        if node.is_script:
            block = blocks.get("script_parameters")
            return block.tag if block else 0, self._code(node)
        block = blocks.get("node_parameters")
        if block is None:
            return 0, []
        items = [item for item in block.items if isinstance(item, Data)]
        tag = block.tag
        if not block.opening.values and items and len(items[0].value) == 1:
            tag = items.pop(0).value[0]
        return tag, words_of_bytes(b"".join(item.value for item in items))


def _first_name(name: str) -> str:
    """Return the name of a node and its instance, with a name of the first grammar replaced."""
    stem, _, instance = name.rpartition("_")
    return f"{node_name(stem)}_{instance}" if instance.isdigit() else node_name(name) + "_0"
