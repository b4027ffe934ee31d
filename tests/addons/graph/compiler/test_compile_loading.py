"""The platform that is shipped: its nodes have the public numbers, and compile."""

from pathlib import Path

import pytest

from aisrv.addons.graph.compiler.compile import load_graph
from aisrv.addons.graph.errors import Messages
from aisrv.addons.graph.nodes.registry import BUILT_IN, STANDARD_NODES
from aisrv.addons.graph.platform.manifests import SHIPPED_PLATFORM, read_platform


def platform_names() -> tuple[str, ...]:
    messages = Messages()
    platform = read_platform(SHIPPED_PLATFORM, messages)
    messages.check()
    assert messages.warnings == []
    return tuple(platform.node_names[number] for number in range(len(platform.node_names)))


def test_nodes_have_their_public_numbers() -> None:
    assert platform_names() == STANDARD_NODES


@pytest.mark.parametrize("node", [*BUILT_IN, "aisrv_stream_inference", "arm_stream_mixer"])
def test_text_without_a_platform_is_compiled_for_it(node: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text(
        "format_index 0\nformat_frame_length 64\nstream_io 0\nstream_io_hwid 4\nstream_io 1\n"
        f"stream_io_hwid 6\nnode {node} 0\narc_input 0 1 0 {node} 0 0 0\narc_output 1 1 0 {node} 0 1 0\nend\n"
    )
    graph, names = load_graph(path)
    assert [names[each.head.node_idx] for each in graph.nodes] == [node]
