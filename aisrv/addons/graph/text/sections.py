"""Graph texts as values: sections with their statements by tag, blocks of data or code, subgraphs."""

from dataclasses import dataclass, field
from pathlib import Path

from aisrv.addons.graph.errors import Place
from aisrv.addons.graph.text.grammar import Section
from aisrv.addons.graph.text.source import Data, Line

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Statement:
    """A tag with its values."""

    tag: str
    values: tuple[Value, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Label:
    """`label X` in code, parameters or heap."""

    place: Place
    name: str


@dataclass(slots=True)
class DataBlock:
    """The lines of parameters, code or a heap. Code is kept as lines."""

    opening: Statement
    items: list[Data | Label | Line] = field(default_factory=list)

    @property
    def tag(self) -> int:
        """Number behind the tag that opens the block."""
        return int(self.opening.values[0]) if self.opening.values else 0


@dataclass(slots=True)
class TextSection:
    """The graph itself, a format, an IO, a node, a script or an arc, with its statements by tag."""

    kind: Section
    opening: Statement
    statements: dict[str, list[Statement]] = field(default_factory=dict)
    blocks: dict[str, DataBlock] = field(default_factory=dict)
    prefix: str = ""
    """Prefix of a subgraph for the names of its nodes."""
    default_bank: int = 0
    """VID if the text names none."""

    @property
    def place(self) -> Place:
        return self.opening.place

    def find(self, tag: str) -> Statement | None:
        """Return the last statement with a tag."""
        return self.statements[tag][-1] if tag in self.statements else None

    def every(self, tag: str) -> list[Statement]:
        return self.statements.get(tag, [])

    def whole(self, tag: str, default: int = 0) -> int:
        """Return the first value of a tag, or a default."""
        found = self.find(tag)
        return int(found.values[0]) if found else default

    def real(self, tag: str, default: float) -> float:
        """Return the first value of a tag as a real number, or a default."""
        found = self.find(tag)
        return float(found.values[0]) if found else default

    def place_of(self, tag: str) -> Place:
        """Return the place of a tag, or else of the section's start."""
        found = self.find(tag)
        return found.place if found else self.place


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A subgraph: its name, the file, and the IOs and memory banks that it is given."""

    name: str
    place: Place
    path: Path
    ios: tuple[int, ...]
    banks: tuple[int, ...]


@dataclass(slots=True)
class GraphText:
    """A parsed text; `order` is every section that takes arcs or names, in order of appearance."""

    graph: TextSection
    formats: dict[int, TextSection] = field(default_factory=dict)
    ios: dict[int, TextSection] = field(default_factory=dict)
    scripts: dict[int, TextSection] = field(default_factory=dict)
    order: list[TextSection | Subgraph] = field(default_factory=list)
