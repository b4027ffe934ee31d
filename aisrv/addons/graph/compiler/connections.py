"""Conversion of a text to its network: names are resolved, arcs connected and numbered."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.compiler.formats import mismatches
from aisrv.addons.graph.compiler.network import ArcUse, Connection, IoUse, Network, NodeUse
from aisrv.addons.graph.errors import Messages, Place, nearest, shown
from aisrv.addons.graph.platform.manifests import Platform
from aisrv.addons.graph.platform.options import Options
from aisrv.addons.graph.text.grammar import SCRIPT_NODE_NAME, Section, node_name
from aisrv.addons.graph.text.sections import GraphText, TextSection

MOST_NODES: Final = 100_000
_FREE_ARCS: Final = ("arm_stream_router", "arm_stream_split")
"""Nodes whose number of arcs a text may give."""
_STRIPS_TIME: Final = (SCRIPT_NODE_NAME, "arm_stream_format_converter", "sigp_stream_converter")


def build_network(
    text: GraphText,
    platform: Platform,
    formats: tuple[Format, ...],
    known_formats: frozenset[int],
    messages: Messages,
) -> Network:
    """Resolve names and connect arcs, which may have `known_formats`; errors go to `messages`."""
    return _Builder(text, platform, formats, known_formats, messages).build()


@dataclass(slots=True)
class _Builder:
    text: GraphText
    platform: Platform
    formats: tuple[Format, ...]
    known_formats: frozenset[int]
    messages: Messages
    network: Network = field(default_factory=Network)
    nodes: dict[tuple[str, int], NodeUse] = field(default_factory=dict)
    by_place: dict[Place, NodeUse] = field(default_factory=dict)
    ios: dict[int, IoUse] = field(default_factory=dict)

    def build(self) -> Network:
        sections = [each for each in self.text.order if isinstance(each, TextSection)]
        for number, section in self.text.ios.items():
            self._io(number, section)
        for section in sections:
            if section.kind == Section.NODE:
                self._node(section)
        for section in sections:
            _NUMBERED[section.kind](self, section)
        self._scripts()
        self._check_all_connected()
        return self.network

    def _io(self, number: int, section: TextSection) -> None:
        hwid = section.whole("stream_io_hwid")
        manifest = self.platform.io(hwid, self.messages)
        if manifest is None:
            there = [str(each) for each in self.platform.io_rows]
            self.messages.error(
                section.place_of("stream_io_hwid"), f"the platform has no IO {hwid}, only {', '.join(there)}"
            )
            return
        other = next((each for each in self.network.ios if each.hwid == hwid), None)
        if other is not None:
            self.messages.error(
                section.place_of("stream_io_hwid"),
                f"stream_io {number} and {other.number} are both IO {hwid}",
            )
        use = IoUse(section, number, len(self.network.ios), hwid, manifest)
        self.ios[number] = use
        self.network.ios.append(use)
        self.network.arcs.append(ArcUse(section, io=use))

    def _node(self, section: TextSection) -> None:
        name, instance = node_name(str(section.opening.values[0])), 0
        if len(section.opening.values) > 1:
            instance = int(section.opening.values[1])
        manifest = self.platform.nodes.get(name)
        if manifest is None:
            self.messages.error(
                section.place, f"the platform has no node {shown(name)}{nearest(name, self.platform.nodes)}"
            )
            return
        key = (section.prefix + name, instance)
        if key in self.nodes:
            there = self.nodes[key].text.place
            self.messages.error(section.place, f"node {name} {instance} exists already, at {there}")
        use = NodeUse(section, manifest, instance, manifest.arcs_in, manifest.arcs_out)
        given = section.find("node_nb_arcs")
        if given is not None:
            arcs_in, arcs_out = int(given.values[0]), int(given.values[1])
            if name not in _FREE_ARCS:
                self.messages.error(given.place, f"the manifest of {name} says how many arcs it has")
            elif min(arcs_in, arcs_out) < 0 or arcs_in + arcs_out > 15:
                self.messages.error(given.place, "a node has at most 15 arcs")
            else:
                use.arcs_in, use.arcs_out = arcs_in, arcs_out
        if len(self.network.nodes) >= MOST_NODES:
            self.messages.error(section.place, f"a graph has at most {MOST_NODES} nodes")
            self.messages.check()
        self.nodes[key] = use
        self.by_place[section.place] = use
        self.network.nodes.append(use)

    def _number_node(self, section: TextSection) -> None:
        if node_name(str(section.opening.values[0])) != SCRIPT_NODE_NAME:
            return
        use = self.by_place.get(section.place)
        if use is not None:
            use.arcs[0] = Connection(len(self.network.arcs), 0)
            self.network.arcs.append(ArcUse(section, producer=use.name, code=section))

    def _number_script(self, section: TextSection) -> None:
        number = int(section.opening.values[0])
        self.network.script_arcs[number] = len(self.network.arcs)
        self.network.arcs.append(ArcUse(section, producer=f"script {number}", code=section))

    def _arc(self, section: TextSection) -> None:
        if section.opening.tag != "arc":
            self._io_arc(section)
            return
        first, first_instance, first_arc, first_format = section.opening.values[:4]
        second, second_instance, second_arc, second_format = section.opening.values[4:]
        producer = self._find_node(str(first), int(first_instance), section)
        consumer = self._find_node(str(second), int(second_instance), section)
        arc = ArcUse(section)
        arc.producer_format = self._format(int(first_format), section.place)
        arc.consumer_format = self._format(int(second_format), section.place)
        if producer is not None:
            arc.producer = producer.name
            self._connect(producer, int(first_arc), True, arc.producer_format, section)
        if consumer is not None:
            arc.consumer = consumer.name
            self._connect(consumer, int(second_arc), False, arc.consumer_format, section)
            self._check_time_stamp(arc, consumer, section.place)
        self.network.arcs.append(arc)

    def _io_arc(self, section: TextSection) -> None:
        values = section.opening.values
        is_output = section.opening.tag == "arc_output"
        io = self._find_io(int(values[0]), section.place)
        if len(values) == 7:
            copy = int(values[1])
            io_format, node_format = int(values[2]), int(values[6])
            name, instance, number = values[3:6]
        else:  # the first grammar
            name, instance, number = values[1:4]
            copy = io.manifest.copy if io else 0
            node_format = int(values[4])
            io_format = io.text.whole("stream_io_format", node_format) if io else node_format
        node = self._find_node(str(name), int(instance), section)
        io_format, node_format = (
            self._format(io_format, section.place),
            self._format(node_format, section.place),
        )
        if io is None:
            return
        if io.arc is not None:
            self.messages.error(section.place, f"stream_io {io.number} is connected already")
            return
        if bool(io.manifest.tx) != is_output:
            way = "an output" if io.manifest.tx else "an input"
            self.messages.error(section.place, f"stream_io {io.number} is {way} by its manifest")
        index = io.index
        arc = self.network.arcs[index]
        io.arc, io.copy, arc.text = index, int(copy > 0), section
        _warn_of_options(io.manifest.options, io_format, self.formats, section.place, self.messages)
        arc.producer_format = node_format if is_output else io_format
        arc.consumer_format = io_format if is_output else node_format
        ends = [f"IO {io.hwid}", node.name if node else ""]
        arc.consumer, arc.producer = ends if is_output else ends[::-1]
        if node is not None:
            self._connect(node, int(number), is_output, node_format, section, arc=index)
            if not is_output:
                self._check_time_stamp(arc, node, section.place)

    def _connect(
        self, node: NodeUse, number: int, tx: bool, form: int, section: TextSection, *, arc: int | None = None
    ) -> None:
        place = section.place
        count = node.arcs_in + node.arcs_out
        if node.is_script:
            self.messages.error(place, f"{node.name} has no arc but that of its own memory")
        elif not 0 <= number < count:
            self.messages.error(place, f"{node.name} has arcs 0 to {count - 1}, not {number}")
        elif number in node.arcs:
            self.messages.error(place, f"arc {number} of {node.name} is connected twice")
        elif node.manifest.is_tx(number, node.arcs_in) != tx:
            way = "an input" if tx else "an output"
            self.messages.error(place, f"arc {number} of {node.name} is {way}")
        else:
            node.arcs[number] = Connection(len(self.network.arcs) if arc is None else arc, form)
            if number in node.manifest.arcs:
                options = node.manifest.arcs[number].options
                _warn_of_options(options, form, self.formats, place, self.messages)

    def _find_node(self, name: str, instance: int, section: TextSection) -> NodeUse | None:
        known = section.prefix + node_name(name)
        found = self.nodes.get((known, instance))
        if found is None:
            names = [f"{each} {number}" for each, number in self.nodes]
            wanted = f"{known} {instance}"
            self.messages.error(
                section.place, f"the graph has no node {shown(wanted)}{nearest(wanted, names)}"
            )
        return found

    def _find_io(self, number: int, place: Place) -> IoUse | None:
        found = self.ios.get(number)
        if found is None and number not in self.text.ios:
            self.messages.error(place, f"stream_io {number} is not declared")
        return found

    def _format(self, number: int, place: Place) -> int:
        if number not in self.known_formats:
            declared = ", ".join(map(str, self.text.formats)) or "none"
            self.messages.error(place, f"format {number} is not declared, only {declared}")
        return number if 0 <= number < len(self.formats) else 0

    def _check_time_stamp(self, arc: ArcUse, consumer: NodeUse, place: Place) -> None:
        for number in (arc.producer_format, arc.consumer_format):
            if number >= len(self.formats) or consumer.manifest.name in _STRIPS_TIME:
                continue
            if self.formats[number].time_stamp:
                self.messages.error(
                    place, f"{consumer.name} does not take time-stamps: put a converter before it"
                )
                return

    def _scripts(self) -> None:
        for number, wanted in enumerate(sorted(self.text.scripts)):
            section = self.text.scripts[wanted]
            if number != wanted:
                self.messages.error(section.place, f"script {wanted} comes without script {number}")
                return
            self.network.scripts.append(section)

    def _check_all_connected(self) -> None:
        for io in self.network.ios:
            if io.arc is None:
                self.messages.error(io.text.place, f"stream_io {io.number} is not connected")
        for node in self.network.nodes:
            for number in range(node.arcs_in + node.arcs_out):
                if number not in node.arcs:
                    self.messages.error(node.text.place, f"arc {number} of {node.name} is not connected")
        if len(self.network.arcs) > 2047:
            self.messages.error(
                self.text.graph.place, f"a graph has at most 2047 arcs, not {len(self.network.arcs)}"
            )


def _warn_of_options(
    options: dict[str, Options], form: int, formats: tuple[Format, ...], place: Place, messages: Messages
) -> None:
    if form < len(formats):
        for each in mismatches(formats[form], options):
            messages.warn(place, f"the manifest does not have this format: {each}")


_NUMBERED: Final[dict[Section, Callable[[_Builder, TextSection], None]]] = {
    Section.NODE: _Builder._number_node,
    Section.SCRIPT: _Builder._number_script,
    Section.ARC: _Builder._arc,
}
