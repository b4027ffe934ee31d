"""Classes of nodes by their number in the top manifest; nodes of your own come from entry points."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Final

from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.amplifier import Amplifier
from aisrv.addons.graph.nodes.bypass import Bypass
from aisrv.addons.graph.nodes.converter import Converter
from aisrv.addons.graph.nodes.detector import Detector
from aisrv.addons.graph.nodes.filter import Filter
from aisrv.addons.graph.nodes.inference import NAME as INFERENCE
from aisrv.addons.graph.nodes.node import StreamNode
from aisrv.addons.graph.nodes.rescaler import Rescaler
from aisrv.addons.graph.nodes.router import Router
from aisrv.addons.graph.nodes.split import Split
from aisrv.addons.graph.text.grammar import SCRIPT_NODE_NAME

GROUP: Final = "aisrv.graph_nodes"
"""Entry points of nodes: the name is that of the node's manifest, the object makes a StreamNode."""

STANDARD_NODES: Final = (
    "by-pass", "arm_stream_script", "arm_stream_format_converter", "arm_stream_router",
    "sigp_stream_converter", "arm_stream_amplifier", "arm_stream_mixer", "arm_stream_filter",
    "sigp_stream_detector", "arm_stream_rescaler", "sigp_stream_compressor", "sigp_stream_decompressor",
    "arm_stream_modulator", "arm_stream_demodulator", "sigp_stream_resampler", "arm_stream_qos",
    "arm_stream_split", "sigp_stream_detector2D", "arm_stream_filter2D", "arm_stream_analysis",
    "bitbank_JPEGENC", "TjpgDec", "aisrv_stream_inference",
)  # fmt: skip
"""Names of nodes by NODE_IDX, as in the top manifest that is shipped."""

NodeFactory = Callable[[], StreamNode]


class Registry:
    """The nodes of a platform: `names` by NODE_IDX, `idx`, and their factories."""

    def __init__(
        self, names: Sequence[str] = STANDARD_NODES, factories: Mapping[str, NodeFactory] | None = None
    ) -> None:
        """Take the names in the order of the top manifest, and `factories` besides those that are shipped."""
        self._names = tuple(names)
        self._factories = {**BUILT_IN, **(factories or {})}

    def name(self, idx: int) -> str:
        """Return the name of a node."""
        return self._names[idx] if idx < len(self._names) else f"node {idx}"

    def create(self, idx: int) -> StreamNode:
        """Create a node. Raises GraphError for an unknown number, or one that is not built."""
        name = self.name(idx)
        factory = self._factories.get(name) or _installed(name)
        if factory is None:
            raise GraphError(
                f"{name} cannot run here: unknown node; a package adds one by an entry point "
                f"{name!r} of the group {GROUP}"
            )
        return factory()


def can_run(name: str) -> bool:
    """Check whether a node of this `name` runs here: built in, of the device, or of a package."""
    return name in BUILT_IN or name in _OF_THE_DEVICE or bool(entry_points(group=GROUP, name=name))


def _installed(name: str) -> NodeFactory | None:
    """Find a node among the entry points of the packages that are installed."""
    for point in entry_points(group=GROUP, name=name):
        factory: NodeFactory = point.load()
        return factory
    return None


_OF_THE_DEVICE: Final = frozenset({SCRIPT_NODE_NAME, INFERENCE})
BUILT_IN: Final[Mapping[str, NodeFactory]] = {
    "by-pass": Bypass,
    "arm_stream_format_converter": Converter,
    "arm_stream_router": Router,
    "sigp_stream_converter": Converter,
    "arm_stream_amplifier": Amplifier,
    "arm_stream_filter": Filter,
    "sigp_stream_detector": Detector,
    "arm_stream_rescaler": Rescaler,
    "arm_stream_split": Split,
}
