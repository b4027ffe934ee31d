"""Parts of a platform, and the needs of its nodes and IOs, as their manifests say."""

from dataclasses import dataclass, field
from pathlib import Path

from aisrv.addons.graph.errors import Place
from aisrv.addons.graph.platform.options import Options


@dataclass(frozen=True, slots=True)
class Bank:
    """A memory bank: a row of the procmap. Addresses in it count bytes from 0."""

    offset_id: int
    vid: int
    speed: int
    kind: int
    """0 static, 1 working, 2 retention."""
    private: int
    dma: int
    program: int
    size: int
    offset: int
    base: int = 0
    """Start of a piece of a split bank in the bank, in bytes."""


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """A memory segment that a node asks for: alloc + factor * property of an arc's format, each in bytes."""

    place: Place
    alloc: int = 0
    channels: tuple[float, int] = (0, 0)
    sampling_rate: tuple[float, int] = (0, 0)
    frame_size: tuple[float, int] = (0, 0)
    alignment: int = 4
    type: int = 0
    """0 static, 1 working, 2 retention, 3 static until done."""
    speed: int = 0
    relocatable: int = 0
    program: int = 0


@dataclass(slots=True)
class ArcSpec:
    """Requirements on an arc of a node; options that the manifest does not state are absent."""

    place: Place
    tx: int | None = None
    options: dict[str, Options] = field(default_factory=dict)


@dataclass(slots=True)
class NodeManifest:
    """A node's manifest. `index` is its NODE_IDX, the row in the top manifest."""

    place: Place
    index: int
    name: str = ""
    arcs_in: int = 1
    arcs_out: int = 1
    segments: list[MemorySpec] = field(default_factory=list)
    arcs: dict[int, ArcSpec] = field(default_factory=dict)

    def is_tx(self, arc: int, arcs_in: int) -> bool:
        """Check whether an arc of the node is an output, for that many inputs."""
        spec = self.arcs.get(arc)
        return arc >= arcs_in if spec is None or spec.tx is None else bool(spec.tx)


@dataclass(slots=True)
class IoManifest:
    """An IO's manifest. `others` are tags specific to the IO's domain, unparsed."""

    place: Place
    name: str = ""
    domain: str = "general"
    servant: int = 1
    copy: int = 0
    tx: int = 0
    options: dict[str, Options] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IoRow:
    """A row of the top manifest's IOs."""

    place: Place
    path: Path
    hwid: int
    processors: int
    clock: int
