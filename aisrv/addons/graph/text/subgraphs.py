"""Subgraphs, put in the place of their `subgraph` tag with their nodes renamed."""

import dataclasses
from pathlib import Path
from typing import Final

from aisrv.addons.graph.errors import Messages, Place
from aisrv.addons.graph.text.grammar import Section
from aisrv.addons.graph.text.parser import parse_file
from aisrv.addons.graph.text.sections import GraphText, Statement, Subgraph, TextSection, Value
from aisrv.addons.graph.text.source import DataReader, read_data

DEEPEST: Final = 8
MOST_SECTIONS: Final = 200_000
"""Nodes, scripts and arcs of a graph with its subgraphs."""
_BANK_TAGS: Final = {"node_map_hwblock": 1, "node_map_swap": 1, "arc_map_hwblock": 0, "script_mem_map": 0}
"""Tags that name a memory bank, with the place of its VID."""


def expand(text: GraphText, messages: Messages, read_parameters: DataReader = read_data) -> GraphText:
    """Put the texts of subgraphs in their places: IOs and VIDs by position, the rest renumbered."""
    order: list[TextSection | Subgraph] = []
    for each in text.order:
        if isinstance(each, Subgraph):
            order += _Subgraph(text, each, messages, read_parameters).sections()
        else:
            order.append(each)
    text.order = order
    return text


@dataclasses.dataclass
class _Subgraph:
    """One subgraph on its way into the graph that has it; `files` and `prefix` are those of its parents."""

    parent: GraphText
    given: Subgraph
    messages: Messages
    read_parameters: DataReader
    files: tuple[Path, ...] = ()
    prefix: str = ""

    def __post_init__(self) -> None:
        self.files = (*self.files, self.given.path.resolve())
        self.prefix += f"{self.given.name}_"

    def sections(self) -> list[TextSection]:
        """Return the subgraph's nodes, scripts and arcs as sections of the graph."""
        given = self.given
        if len(self.files) > DEEPEST or self.files[-1] in self.files[:-1]:
            self.messages.error(
                given.place, f"subgraph {given.name} contains itself, or goes deeper than {DEEPEST}"
            )
            return []
        text = parse_file(given.path, self.messages, self.read_parameters)
        self.messages.check()
        for tag in text.graph.statements:
            if tag != "set_file_path":
                self.messages.warn(text.graph.place_of(tag), f"{tag} has no effect in a subgraph")
        self.formats = {number: self._format(section) for number, section in text.formats.items()}
        self.scripts = {
            number: len(self.parent.scripts) + index for index, number in enumerate(sorted(text.scripts))
        }
        found: list[TextSection] = []
        for each in text.order:
            if isinstance(each, TextSection):
                found.append(self._section(each))
                continue
            inner = dataclasses.replace(
                each,
                ios=tuple(self._io(number, each.place) for number in each.ios),
                banks=tuple(self._bank(vid, each.place) for vid in each.banks),
            )
            found += _Subgraph(
                self.parent, inner, self.messages, self.read_parameters, self.files, self.prefix
            ).sections()
            if len(found) > MOST_SECTIONS:
                self.messages.error(
                    given.place, f"the subgraphs have more than {MOST_SECTIONS} nodes and arcs"
                )
                self.messages.check()
        return found

    def _format(self, section: TextSection) -> int:
        """Return the number of a format in the graph: that of an equal one, or a new one."""
        formats = self.parent.formats
        wanted = _meaning(section)
        for number, other in formats.items():
            if _meaning(other) == wanted:
                return number
        new = max(formats, default=-1) + 1
        formats[new] = section
        return new

    def _section(self, section: TextSection) -> TextSection:
        section.prefix = self.prefix
        section.default_bank = self._bank(0, section.place)
        for tag, index in _BANK_TAGS.items():
            if tag in section.statements:
                section.statements[tag] = [
                    _with_value(each, index, self._bank(int(each.values[index]), each.place))
                    for each in section.statements[tag]
                ]
        script = section.find("node_script")
        if script is not None and int(script.values[0]) in self.scripts:
            number = self.scripts[int(script.values[0])]
            section.statements["node_script"] = [_with_value(script, 0, number)]
        if section.kind == Section.SCRIPT:
            number = self.scripts[int(section.opening.values[0])]
            section.opening = _with_value(section.opening, 0, number)
            self.parent.scripts[number] = section
        elif section.kind == Section.ARC:
            section.opening = self._arc(section.opening)
        return section

    def _arc(self, opening: Statement) -> Statement:
        values = list(opening.values)
        if opening.tag == "arc":
            places: tuple[int, ...] = (3, 7)
        else:
            values[0] = self._io(int(values[0]), opening.place)
            places = (2, 6) if len(values) == 7 else (4,)
        for place in places:
            number = int(values[place])
            if number in self.formats:
                values[place] = self.formats[number]
            else:
                self.messages.error(opening.place, f"format {number} is not declared in the subgraph")
        return Statement(opening.tag, tuple(values), opening.place)

    def _io(self, number: int, place: Place) -> int:
        if 0 <= number < len(self.given.ios):
            return self.given.ios[number]
        count = len(self.given.ios)
        self.messages.error(place, f"subgraph {self.given.name} is given {count} IOs: unknown IO {number}")
        return 0

    def _bank(self, vid: int, place: Place) -> int:
        if not self.given.banks:
            return vid
        if 0 <= vid < len(self.given.banks):
            return self.given.banks[vid]
        count = len(self.given.banks)
        self.messages.error(place, f"subgraph {self.given.name} is given {count} memory banks: no VID {vid}")
        return 0


def _meaning(section: TextSection) -> dict[str, tuple[Value, ...]]:
    return {tag: found[-1].values for tag, found in section.statements.items()}


def _with_value(statement: Statement, index: int, value: Value) -> Statement:
    values = (*statement.values[:index], value, *statement.values[index + 1 :])
    return Statement(statement.tag, values, statement.place)
