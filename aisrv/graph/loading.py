"""Reading a graph to run it: its words as text, or its text, which is compiled first."""

from pathlib import Path
from typing import Final

from aisrv.graph.errors import GraphError
from aisrv.graph.model import Graph
from aisrv.graph.nodes.registry import STANDARD_NODES
from aisrv.graph.words import parse_words, read_words

LARGEST_FILE: Final = 16 << 20
"""Bytes."""


def load_graph(path: Path, platform: Path | None = None) -> tuple[Graph, tuple[str, ...]]:
    """Read a graph; return it with the names of nodes by NODE_IDX. Raises GraphError, OSError."""
    if path.stat().st_size > LARGEST_FILE:
        raise GraphError(f"above the {LARGEST_FILE} bytes allowed")
    text = path.read_text(encoding="utf-8", errors="replace")
    if platform is not None or not _is_words(text):
        raise GraphError("only words can be run: compile the text first")
    return read_words(parse_words(text)), STANDARD_NODES


def _is_words(text: str) -> bool:
    """Whether a file holds words: its first line that is no comment begins with `0x`."""
    for line in text.splitlines():
        code = line.partition("//")[0].strip()
        if code:
            return code[:2].lower() == "0x"
    return False
