from pathlib import Path

import pytest

from aisrv.addons.graph.compiler.compile import Compiled, compile_text
from aisrv.addons.graph.errors import TextError
from tests.support.models.hostile_graphs import computer

PLATFORM = computer()
MAIN = """
set_file_path 1 parts
format_index 0
format_frame_length 32
stream_io 0
stream_io_hwid 1
stream_io 1
stream_io_hwid 9
script 0
script_code
return
end
subgraph front
1 front.txt
2 i16: 0 1
2 i16: 1 5
end
"""
FRONT = """
format_index 0
format_frame_length 64
format_index 1
format_frame_length 32
script 0
script_code
set r1 graph arm_stream_filter_0
return
end
node arm_stream_filter 0
node_map_hwblock 1 1
node_script 0
end
node arm_stream_filter 1
end
arc_input  0 1 1 arm_stream_filter 0 0 0
arc_output 1 1 1 arm_stream_filter 1 1 0
arc arm_stream_filter 0 1 0 arm_stream_filter 1 0 1
"""


def compiled(folder: Path, main: str = MAIN, front: str = FRONT) -> Compiled:
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "parts/front.txt").write_text(front, encoding="utf-8")
    return compile_text(main, folder / "main.txt", PLATFORM)


def test_nodes_of_a_subgraph_have_its_name_in_front(tmp_path: Path) -> None:
    names = [node.name for node in compiled(tmp_path).network.nodes]
    assert names == ["front_arm_stream_filter_0", "front_arm_stream_filter_1"]


def test_formats_are_renumbered_and_equal_ones_shared(tmp_path: Path) -> None:
    graph = compiled(tmp_path).graph
    assert [form.frame_bytes for form in graph.formats] == [32, 64]
    arc = graph.arcs[0].words()[4]
    assert (arc & 0xFF, arc >> 8) == (0, 1)


def test_banks_are_those_of_the_list_by_position(tmp_path: Path) -> None:
    result = compiled(tmp_path)
    used = {use.bank.vid: (use.static, use.working) for use in result.memory if use.used}
    assert used[5] == (0, 80)
    assert used[1] == (3 * 64 + 4 * 26 + 2 * 24, 80)  # arcs, the memory of the script, segments


def test_scripts_are_renumbered_and_name_the_nodes_of_their_subgraph(tmp_path: Path) -> None:
    graph = compiled(tmp_path).graph
    assert [node.head.script for node in graph.nodes] == [1, 0]
    assert graph.scripts[1].code[1] == graph.node_positions()[0]


def test_two_subgraphs_of_one_text(tmp_path: Path) -> None:
    main = MAIN.replace("end\n", "stream_io 2\nstream_io_hwid 0\nstream_io 3\nstream_io_hwid 7\n", 1)
    main = main.replace("subgraph front", "end\nsubgraph front", 1).replace(
        "script 0\nscript_code\nreturn\n", "", 1
    )
    main = main.rpartition("end")[0] + "subgraph back\n1 front.txt\n2 i16; 2 3\n2 i16; 1 5\nend\n"
    main = main.replace("\nend\nsubgraph front", "\nsubgraph front")
    names = [node.name for node in compiled(tmp_path, main).network.nodes]
    assert names[2:] == ["back_arm_stream_filter_0", "back_arm_stream_filter_1"]


@pytest.mark.parametrize(
    ("main", "front", "message"),
    [
        (MAIN.replace("2 i16: 0 1", "1 i16: 0"), FRONT, "subgraph front is given 1 IOs: unknown IO 1"),
        (MAIN.replace("2 i16: 1 5", "1 i16: 1"), FRONT, "is given 1 memory banks: no VID 1"),
        (MAIN.replace("front.txt", "none.txt"), FRONT, "no such file"),
        (MAIN.replace("2 i16: 0 1", "0 and 1"), FRONT, "are given as `n i16: …`"),
        (MAIN, FRONT + "arc a 0 1 9 b 0 0 0", "format 9 is not declared in the subgraph"),
        (
            MAIN,
            "set_file_path 1 ./\nsubgraph again\n1 front.txt\n2 i16: 0 1\n1 i16: 0\n",
            "subgraph again contains itself",
        ),
    ],
)
def test_errors_of_subgraphs(main: str, front: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TextError) as caught:
        compiled(tmp_path, main, front)
    assert message in str(caught.value)


SPLIT = """
memory_mapping 1 30 1024 512
memory_mapping 1 31 2048 64
format_index 0
format_frame_length 16
stream_io 0
stream_io_hwid 1
stream_io 1
stream_io_hwid 9
node arm_stream_filter 0
end
arc_input  0 1 0 arm_stream_filter 0 0 0
arc_map_hwblock 31
arc_output 1 1 0 arm_stream_filter 0 1 0
arc_map_hwblock 30
"""


def test_a_piece_of_a_bank_starts_where_it_is_split() -> None:
    result = compile_text(SPLIT, Path("graph.txt"), PLATFORM)
    assert [arc.offset for arc in result.graph.arcs] == [2048, 1024]
    sizes = {use.bank.vid: use.bank.size for use in result.memory}
    assert (sizes[1], sizes[30], sizes[31]) == (1024, 512, 64)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("memory_mapping 1 32 1500 100", "VID 32 overlaps another piece of VID 1"),
        ("memory_mapping 1 30 4096 100", "VID 30 exists already"),
        ("memory_mapping 6 32 0 100", "unknown memory bank VID 6"),
        ("memory_mapping 1 32 65528 100", "VID 1 has 65526 bytes"),
    ],
)
def test_errors_of_split_banks(line: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        compile_text(SPLIT + line, Path("graph.txt"), PLATFORM)
