"""Golden data of graphs: texts, manifests, and the words that the public compiler made of them.

Texts, manifests and words are in `tests/golden/graph`, with their origin and license. Larger data, such as
streams and traces, are looked for in the folder that AISRV_GOLDEN_GRAPH names, else in
`../shared/golden/graph` beside the checkout.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.paths import ROOT

VARIABLE: Final = "AISRV_GOLDEN_GRAPH"
FOLDER: Final = ROOT / "tests/golden/graph"
PLATFORMS: Final = FOLDER / "p1/stream_platform"
COMPUTER: Final = PLATFORMS / "computer/manifest/top_manifest_computer.txt"
MSPM0: Final = PLATFORMS / "lp-mspm0l1306/manifest/top_manifest_lp-mspm0l1306.txt"


class Pair(NamedTuple):
    """A text, the manifest of its platform, and its words."""

    text: Path
    manifest: Path
    words: Path


PAIRS: Final = {
    "computer": Pair(
        PLATFORMS / "computer/graph_computer.txt", COMPUTER, PLATFORMS / "computer/graph_computer_bin.txt"
    ),
    "lp-mspm0l1306": Pair(
        PLATFORMS / "lp-mspm0l1306/graph_lp-mspm0l1306.txt",
        MSPM0,
        PLATFORMS / "lp-mspm0l1306/graph_lp-mspm0l1306_bin.txt",
    ),
    **{
        name[:2]: Pair(
            FOLDER / f"oracle/graphs/{name}.txt", COMPUTER, FOLDER / f"oracle/words/{name}_bin.txt"
        )
        for name in ("c1_filter_only", "c2_filter_detector", "c6_filter_detector_copy")
    },
}
ODD_PAIRS: Final = {
    path.stem: Pair(path, COMPUTER, FOLDER / f"oracle/words/{path.stem}_bin.txt")
    for path in sorted((FOLDER / "oracle/graphs").glob("d*.txt"))
}
"""Texts in which the public compiler does something odd, each for a rule of `compat`."""
SEED: Final = FOLDER / "seed/graph_sample.txt"


def file(name: str) -> Path:
    """The path of a larger file; the test that asks is skipped where it is missing."""
    beside = ROOT / "../shared/golden/graph"
    path = Path(os.environ.get(VARIABLE, beside)).resolve() / name
    if not path.exists():
        pytest.skip(f"no {name} in the golden data of graphs at {path.parent}; set {VARIABLE}")
    return path
