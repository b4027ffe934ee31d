"""Time to compile graphs as they grow: a chain of filters between an input and an output.

python -m benchmarks.graph_compile

Each figure is the least of five runs, in time of the process. The platform is read once, before.
"""

import time
from pathlib import Path
from typing import Final

from aisrv.addons.graph.binary.words import read_words
from aisrv.addons.graph.compiler.compile import compile_text
from benchmarks.rows import Row
from tests.support.models.hostile_graphs import computer

SIZES: Final = (10, 100, 1000)
RUNS: Final = 5


def chain(nodes: int) -> str:
    """The text of a chain of so many filters, each with two stages, in memory of 256 KB."""
    lines = [
        "graph_memory_bank 4", "format_index 0", "format_frame_length 32",
        "stream_io 0", "stream_io_hwid 1", "stream_io 1", "stream_io_hwid 9",
    ]  # fmt: skip
    for index in range(nodes):
        lines += [
            f"node arm_stream_filter {index}",
            "node_map_hwblock 0 4",
            "node_preset 1",
            "node_parameters 0",
        ]
        lines += [
            "1 u8; 2",
            "1 u8; 1",
            "5 s16; 681 422 681 23853 -15161",
            "5 s16; 681 -1342 681 26261 -15331",
        ]
        lines += ["end", "end"]
    lines += ["arc_input 0 1 0 arm_stream_filter 0 0 0", "arc_map_hwblock 4"]
    for index in range(nodes - 1):
        lines += [f"arc arm_stream_filter {index} 1 0 arm_stream_filter {index + 1} 0 0", "arc_map_hwblock 4"]
    lines += [f"arc_output 1 1 0 arm_stream_filter {nodes - 1} 1 0", "arc_map_hwblock 4", "end"]
    return "\n".join(lines)


def run() -> list[Row]:
    """Compile times, and those of reading the words, by number of nodes."""
    platform = computer()
    rows = []
    for nodes in SIZES:
        text = chain(nodes)
        compiled = compile_text(text, Path("chain.txt"), platform)
        words = compiled.words
        assert len(compiled.graph.nodes) == nodes
        times = [
            _time(lambda text=text: compile_text(text, Path("chain.txt"), platform)) for _ in range(RUNS)
        ]
        reads = [_time(lambda words=words: read_words(words)) for _ in range(RUNS)]
        rows.append(Row(f"compile a graph of {nodes} nodes", 1000 * min(times), "ms"))
        rows.append(Row(f"compile, a node of {nodes}", 1e6 * min(times) / nodes, "us"))
        rows.append(Row(f"read the {len(words)} words of {nodes} nodes", 1000 * min(reads), "ms"))
    return rows


def _time(call: object) -> float:
    assert callable(call)
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
