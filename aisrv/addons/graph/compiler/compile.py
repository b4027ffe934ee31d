"""The compiler: a graph text and the manifests of a platform become the words of the binary."""

import logging
from dataclasses import dataclass
from pathlib import Path

from aisrv.addons.graph.binary.model import Graph
from aisrv.addons.graph.binary.words import parse_words, read_words, words_of
from aisrv.addons.graph.compiler.connections import build_network
from aisrv.addons.graph.compiler.dialect import OURS, Dialect
from aisrv.addons.graph.compiler.formats import read_formats
from aisrv.addons.graph.compiler.layout import Layout
from aisrv.addons.graph.compiler.memory_plan import BankUse, Block, MemoryPlan, split_banks
from aisrv.addons.graph.compiler.network import Network
from aisrv.addons.graph.errors import Message, Messages
from aisrv.addons.graph.nodes.registry import STANDARD_NODES, can_run
from aisrv.addons.graph.platform.manifests import SHIPPED_PLATFORM, Platform, read_platform
from aisrv.addons.graph.script.assembler import Code
from aisrv.addons.graph.text.parser import parse_file, parse_text
from aisrv.addons.graph.text.sections import GraphText
from aisrv.addons.graph.text.source import LARGEST_FILE
from aisrv.addons.graph.text.subgraphs import expand
from aisrv.values.regular_file import read_regular

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled graph: its values, its use of the banks, and the compiler's warnings."""

    graph: Graph
    network: Network
    platform: Platform
    memory: tuple[BankUse, ...]
    blocks: tuple[Block, ...]
    codes: dict[int, Code]
    warnings: tuple[Message, ...]

    @property
    def words(self) -> list[int]:
        """Words of the graph, without the count that leads its text."""
        return words_of(self.graph)


def compile_file(path: Path, manifest: Path, dialect: Dialect = OURS) -> Compiled:
    """Compile the text of a file for the platform of a top manifest. Raises TextError with all errors."""
    messages = Messages()
    platform = read_platform(manifest, messages)
    return _compile(parse_file(path, messages, dialect.read_parameters), platform, messages, dialect)


def compile_text(text: str, path: Path, platform: Platform, dialect: Dialect = OURS) -> Compiled:
    """Compile a text as if it stood in the file `path`."""
    messages = Messages()
    return _compile(parse_text(text, path, messages, dialect.read_parameters), platform, messages, dialect)


def load_graph(path: Path, platform: Path | None = None) -> tuple[Graph, tuple[str, ...]]:
    """Read a graph; return it with the names of nodes by NODE_IDX. Raises GraphError, OSError.

    A text is compiled for `platform`, or for the one that is shipped.
    """
    text = read_regular(path, LARGEST_FILE).decode(errors="replace")
    if _is_words(text):
        return read_words(parse_words(text)), STANDARD_NODES
    compiled = compile_file(path, platform or SHIPPED_PLATFORM)
    for warning in compiled.warnings:
        logger.warning("%s", warning)
    names = compiled.platform.node_names
    return compiled.graph, tuple(names.get(number, f"node {number}") for number in range(max(names) + 1))


def _is_words(text: str) -> bool:
    """Check whether a file holds words: its first line that is not a comment begins with `0x`."""
    for line in text.splitlines():
        code = line.partition("//")[0].strip()
        if code:
            return code[:2].lower() == "0x"
    return False


def _compile(text: GraphText, platform: Platform, messages: Messages, dialect: Dialect) -> Compiled:
    text = expand(text, messages, dialect.read_parameters)
    dialect.prepare(text)
    plan = MemoryPlan(split_banks(platform.banks, text.graph, messages), messages)
    formats = read_formats(text.formats, dialect, messages)
    known = dialect.known_formats(text.formats, len(formats))
    network = build_network(text, platform, formats, known, messages)
    messages.check()
    layout = Layout(text.graph, network, formats, plan, messages, dialect)
    graph = layout.graph()
    _warn_of_strangers(network, messages)
    return Compiled(
        graph,
        network,
        platform,
        tuple(plan.use()),
        tuple(plan.blocks),
        layout.codes,
        tuple(messages.warnings),
    )


def _warn_of_strangers(network: Network, messages: Messages) -> None:
    """Name the nodes that compile and that no interpreter here runs, each kind once."""
    kinds = {use.manifest.name: use for use in reversed(network.nodes)}
    for name, use in reversed(kinds.items()):
        if not can_run(name):
            messages.warn(use.text.place, f"{name} cannot run here, unless a package brings it")
