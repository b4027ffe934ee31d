"""Reading a graph to run it: its words as text, or its text, which is compiled first."""

import logging
from pathlib import Path
from typing import Final

from aisrv.graph.compile import compile_file
from aisrv.graph.model import Graph
from aisrv.graph.nodes.registry import STANDARD_NODES
from aisrv.graph.words import parse_words, read_words
from aisrv.regular_file import read_regular

logger = logging.getLogger(__name__)

SHIPPED_PLATFORM: Final = Path(__file__).parent / "platform" / "top_manifest.txt"
"""The platform of graphs that name none: a tile's memory, ten IOs, the nodes by their public numbers."""

LARGEST_FILE: Final = 16 << 20
"""Bytes."""


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
    """Whether a file holds words: its first line that is not a comment begins with `0x`."""
    for line in text.splitlines():
        code = line.partition("//")[0].strip()
        if code:
            return code[:2].lower() == "0x"
    return False
