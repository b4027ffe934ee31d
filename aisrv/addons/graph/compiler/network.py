"""The network of a text: nodes, IOs and scripts, with the arcs between them numbered."""

from dataclasses import dataclass, field

from aisrv.addons.graph.platform.values import IoManifest, NodeManifest
from aisrv.addons.graph.text.grammar import SCRIPT_NODE_NAME
from aisrv.addons.graph.text.sections import TextSection


@dataclass(slots=True)
class Connection:
    """An arc of a node: the number of the arc, and the format on the node's side."""

    arc: int
    format: int


@dataclass(slots=True)
class NodeUse:
    """A node of the text with its manifest; `arcs` by the node's own numbers."""

    text: TextSection
    manifest: NodeManifest
    instance: int
    arcs_in: int
    arcs_out: int
    arcs: dict[int, Connection] = field(default_factory=dict)

    @property
    def is_script(self) -> bool:
        return self.manifest.name == SCRIPT_NODE_NAME

    @property
    def name(self) -> str:
        """Name and instance, as scripts have it."""
        return f"{self.text.prefix}{self.manifest.name}_{self.instance}"


@dataclass(slots=True)
class IoUse:
    """An IO of the text with its manifest; `arc` is None until it is connected."""

    text: TextSection
    number: int
    index: int
    hwid: int
    manifest: IoManifest
    arc: int | None = None
    copy: int = 0


@dataclass(slots=True)
class ArcUse:
    """An arc. For one of a script, `code` is the section with the code; ends name the joined nodes."""

    text: TextSection
    producer: str = ""
    consumer: str = ""
    producer_format: int = 0
    consumer_format: int = 0
    io: IoUse | None = None
    code: TextSection | None = None


@dataclass(slots=True)
class Network:
    """The nodes in text order, IOs in text order, scripts by number, arcs by id."""

    nodes: list[NodeUse] = field(default_factory=list)
    ios: list[IoUse] = field(default_factory=list)
    scripts: list[TextSection] = field(default_factory=list)
    script_arcs: dict[int, int] = field(default_factory=dict)
    arcs: list[ArcUse] = field(default_factory=list)
