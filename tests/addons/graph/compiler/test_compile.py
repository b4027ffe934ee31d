from itertools import pairwise
from pathlib import Path

import pytest

from aisrv.addons.graph.binary.words import parse_words, read_words, words_of
from aisrv.addons.graph.compiler.compile import Compiled, compile_file, compile_text
from aisrv.addons.graph.compiler.public import PUBLIC
from aisrv.addons.graph.errors import TextError
from aisrv.addons.graph.nodes.registry import STANDARD_NODES, can_run
from aisrv.addons.graph.platform.manifests import Platform, load_platform
from tests.support.oracles.graph_golden import COMPUTER, FOLDER, ODD_PAIRS, PAIRS, SEED, Pair


@pytest.fixture(scope="module")
def computer() -> Platform:
    return load_platform(COMPUTER)


def compiled(text: str, platform: Platform) -> Compiled:
    return compile_text(text, Path("graph.txt"), platform)


def errors(text: str, platform: Platform) -> list[str]:
    with pytest.raises(TextError) as caught:
        compiled(text, platform)
    return [str(message) for message in caught.value.messages]


@pytest.mark.parametrize("pair", [*PAIRS.values(), *ODD_PAIRS.values()], ids=[*PAIRS, *ODD_PAIRS])
def test_compat_gives_the_words_of_the_public_compiler(pair: Pair) -> None:
    words = parse_words(pair.words.read_text(encoding="utf-8"))
    assert compile_file(pair.text, pair.manifest, PUBLIC).words == words


@pytest.mark.parametrize("name", [name for name in ODD_PAIRS if "not_declared" not in name])
def test_what_is_odd_is_not_so_without_compat(name: str) -> None:
    pair = ODD_PAIRS[name]
    words = compile_file(pair.text, pair.manifest).words
    assert words != parse_words(pair.words.read_text(encoding="utf-8"))
    assert words_of(read_words(words)) == words


def test_compat_reports_a_working_segment_that_is_too_large_once(computer: Platform) -> None:
    text = ODD_PAIRS["d8_keys_before_scratch"].text.read_text(encoding="utf-8")
    text = text.replace(
        "node arm_stream_filter 0\n", "node arm_stream_filter 0\nnode_malloc_add 9000000 1\n", 1
    )
    with pytest.raises(TextError) as caught:
        compile_text(text, Path("graph.txt"), computer, PUBLIC)
    assert [str(message) for message in caught.value.messages] == [
        "graph.txt:11: error: node_malloc_add: Segment.size is 9000080: its bit-field takes 0 to 1048575",
        "graph.txt:10: error: the memory bank with VID 0 is full: 9000900 of 95526 bytes are needed",
    ]


def test_compat_refuses_the_position_of_a_node_in_a_script(computer: Platform) -> None:
    text = TWO_IOS + ONE_NODE + "script 0\nscript_code\nset r1 graph arm_stream_filter_0\nreturn\nend\n"
    compiled(text, computer)
    with pytest.raises(TextError, match="the public compiler overwrites another word"):
        compile_text(text, Path("graph.txt"), computer, PUBLIC)


DIFFERENCES = {
    "c1": {},
    "c2": {
        0x04: 0x00000003,  # allowed processors alone
        0x07: 0x000A3000,  # domain analog_in
        0x0B: 0x001D3801,  # domain gpio_out
        0x14: 0x01800050,  # the working segment's own flags
    },
    "c6": {},
    "lp-mspm0l1306": {0x07: 0x000A0000, 0x0B: 0x00211801},
    "computer": {
        0x11: 0x30080014,  # type of a long constant
        0x19: 0x20800000,  # segments of the node
        0x43: 0x38000800,  # set r0 type uint8
        0x46: 0x38000803,  # set r0 type uint32
        0x4A: 0x33333322,  # 0x… in the parameters of the script
        0x4B: 0x44444433,
        0x4C: 0x66665544,
        0x4D: 0x00006666,
        0x65: 0x078000A0,  # 22 bytes of heap are 6 words: what lies behind moves down by 64 bytes
        0x68: 0x00014586,
        0x17: 0x200001B4,
        0x24: 0x200001CC,
        0x26: 0x20000204,
        0x2D: 0x00000224,
        0x6A: 0x0000013C,
        0x70: 0x000001A4,
    },
}


@pytest.mark.parametrize("name", PAIRS)
def test_words_differ_from_the_public_compiler_where_it_is_odd_and_nowhere_else(name: str) -> None:
    pair = PAIRS[name]
    words, wanted = compile_file(pair.text, pair.manifest).words, parse_words(pair.words.read_text())
    assert len(words) == len(wanted)
    assert {i: word for i, word in enumerate(words) if word != wanted[i]} == DIFFERENCES[name]


def test_the_sample_of_the_first_grammar_compiles() -> None:
    graph = compile_file(SEED, COMPUTER).graph
    assert [(io.hwid, io.arc, io.copy) for io in graph.ios] == [(0, 0, 0), (7, 1, 0)]
    assert [node.head.node_idx for node in graph.nodes] == [7, 8]
    assert graph.scripts[0].entry.format == 1
    assert graph.scripts[0].code == (0x00012002, 0x0381E810, 0x0000C000)
    filter_ = graph.nodes[0]
    assert (filter_.control.tag, filter_.control.preset) == (0, 1)
    assert filter_.parameters[0] == 9315 << 16 | 1 << 8 | 2
    assert (filter_.segments[1].bank, filter_.segments[1].swap) == (2, 1)
    assert filter_.segments[0].size == 25
    assert filter_.segments[1].size == 80


def test_the_stream_graph_compiles(computer: Platform) -> None:
    text = FOLDER / "streams/filter_detector_gpio/graph_p1.txt"
    graph = compile_text(text.read_text(encoding="utf-8"), text, computer).graph
    assert [each.frame_bytes for each in graph.formats] == [640, 2]


TWO_IOS = """
format_index 0
format_frame_length 64
stream_io 0
stream_io_hwid 1
stream_io 1
stream_io_hwid 9
"""
ONE_NODE = """
node arm_stream_filter 0
end
arc_input  0 1 0 arm_stream_filter 0 0 0
arc_output 1 1 0 arm_stream_filter 0 1 0
"""


def test_a_graph_without_anything_is_eight_words(computer: Platform) -> None:
    assert compiled("", computer).words == [0, 0, 1, 0, 1, 0, 0, 0x3FF]


def test_all_fields_of_a_format(computer: Platform) -> None:
    text = """
format_index 0
format_raw_data FP32
format_frame_length 32
format_nbchan 2
format_interleaving 1
format_time_stamp 1
format_domain audio_in
format_sdomain VRMS
format_sampling_rate 16000
format_audio_mapping 3
"""
    form = compiled(text, computer).graph.formats[0]
    assert form.words() == (32, 104 << 23 | 1 << 16 | 27 << 10 | 1 << 6 | 1 << 5 | 1, 0x467A0000, 3)


@pytest.mark.parametrize(("word", "code"), [("17", 17), ("43", 43), ("TIME64", 43), ("44", 44), ("50", 50)])
def test_numbers_of_raw_types_are_those_of_the_words(word: str, code: int, computer: Platform) -> None:
    assert compiled(f"format_index 0\nformat_raw_data {word}", computer).graph.formats[0].raw == code


def test_the_size_of_an_image_is_its_small_side_and_a_ratio(computer: Platform) -> None:
    text = "format_index 0\nformat_2d_height 480\nformat_2d_width 640\nformat_2d_border 1"
    assert compiled(text, computer).graph.formats[0].mapping == 480 | 2 << 12 | 1 << 16
    portrait = "format_index 0\nformat_2d_height 160\nformat_2d_width 90"
    assert compiled(portrait, computer).graph.formats[0].mapping == 90 | 3 << 12 | 1 << 15


def test_options_of_arcs(computer: Platform) -> None:
    text = (
        TWO_IOS
        + ONE_NODE.strip()
        + "\narc_flow_error 1\narc_jitter_ctrl 1.5\narc_flush 1\narc_map_hwblock 1\n"
    )
    graph = compiled(text, computer).graph
    arc = graph.arcs[1]
    assert (arc.size, arc.offset) == (96, 0)
    assert arc.words()[2] == 1 << 23 | 1 << 22


def test_debug_registers_take_words_by_page(computer: Platform) -> None:
    text = TWO_IOS + ONE_NODE + "arc_debug_cmd 10\narc_debug_reg 3\narc_debug_page 1\n"
    graph = compiled(text, computer).graph
    assert graph.header.arc_debug_words == 64
    assert graph.arc_debug == (0,) * 64
    assert (graph.arcs[1].words()[4] >> 16) == 10 << 11 | 3
    assert [arc.debug_page for arc in graph.nodes[0].arcs] == [0, 1]


def test_split_node_with_arcs_of_the_text(computer: Platform) -> None:
    text = (
        TWO_IOS
        + """
stream_io 2
stream_io_hwid 7
node arm_stream_split 0
node_nb_arcs 1 2
arc_input  0 1 0 arm_stream_split 0 0 0
arc_output 1 1 0 arm_stream_split 0 1 0
arc_output 2 1 0 arm_stream_split 0 2 0
"""
    )
    node = compiled(text, computer).graph.nodes[0]
    assert [(arc.arc, arc.tx) for arc in node.arcs] == [(0, 0), (1, 1), (2, 1)]
    assert [(segment.size, segment.others) for segment in node.segments] == [(0, 0)]


def test_words_of_a_compiled_graph_read_back(computer: Platform) -> None:
    result = compiled(TWO_IOS + ONE_NODE, computer)
    assert read_words(result.words) == result.graph


def test_a_dead_lock_is_warned_of_with_a_factor_that_is_enough(computer: Platform) -> None:
    text = TWO_IOS + "format_index 1\nformat_frame_length 48\n" + ONE_NODE.replace("0 1 0\n", "0 1 1\n", 1)
    warnings = [str(each) for each in compiled(text, computer).warnings if "dead-lock" in each.text]
    assert warnings == [
        (
            "graph.txt:14: warning: arc 1 can come to a dead-lock: frames of 48 and 64 bytes need a buffer of"
            " 96, not 64; arc_jitter_ctrl 1.5 is enough"
        )
    ]
    assert not [w for w in compiled(text + "arc_jitter_ctrl 1.5", computer).warnings if "dead" in w.text]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("formats_index 0", "graph.txt:1: error: unknown tag 'formats_index'; did you mean format_index?"),
        ("format_index", "graph.txt:1: error: format_index has 1 fields: 0 are given"),
        ("format_index a", "graph.txt:1: error: field 1 of format_index is a whole number, not 'a'"),
        ("format_index 31", "graph.txt:1: error: a graph has formats 0 to 30, not 31"),
        ("format_nbchan 2", "graph.txt:1: error: format_nbchan is outside of format_index"),
        (
            "format_index 0\nformat_nbchan 33",
            "graph.txt:2: error: format_nbchan: Format.other_channels is 32: its bit-field takes 0 to 31",
        ),
        (
            "format_index 0\nformat_raw_data S17",
            "graph.txt:2: error: unknown raw type 'S17'; did you mean S1?",
        ),
        ("format_index 0\nformat_raw_data 51", "graph.txt:2: error: a raw type is 0 to 50, not 51"),
        (
            "format_index 0\nformat_frame_length 4194304",
            "graph.txt:2: error: a frame has 1 to 4194303 bytes, not 4194304",
        ),
        (
            "node arm_stream_filtr 0",
            (
                "graph.txt:1: error: the platform has no node 'arm_stream_filtr'; did you mean"
                " arm_stream_filter?"
            ),
        ),
        ("1 u8; 0", "graph.txt:1: error: data outside of a block of parameters or code"),
        (
            TWO_IOS + "node arm_stream_filter 0\nnode_parameters 0\n2 u8; 1",
            "graph.txt:10: error: the line announces 2 values and has 1",
        ),
        (TWO_IOS + ONE_NODE + "end\nanything", ""),
        (
            TWO_IOS.replace("hwid 9", "hwid 1"),
            "graph.txt:7: error: stream_io 1 and 0 are both IO 1",
        ),
        (
            TWO_IOS.replace("hwid 9", "hwid 77"),
            "graph.txt:7: error: the platform has no IO 77, only 0, 1, 2, 3, 4, 5, 6, 7, 8, 9",
        ),
        (TWO_IOS, "graph.txt:4: error: stream_io 0 is not connected"),
        (
            TWO_IOS.partition("stream_io 1")[0]
            + "node arm_stream_filter 0\narc_input 0 1 0 arm_stream_filter 0 0 0\n",
            "graph.txt:6: error: arc 1 of arm_stream_filter_0 is not connected",
        ),
        (
            TWO_IOS + ONE_NODE.replace("0 1 0\n", "0 0 0\n"),
            "graph.txt:12: error: arc 0 of arm_stream_filter_0 is connected twice",
        ),
        (
            TWO_IOS + ONE_NODE.replace("arc_input  0", "arc_output 0"),
            "graph.txt:11: error: stream_io 0 is an input by its manifest",
        ),
        (
            TWO_IOS + ONE_NODE.replace("filter 0 0 0", "filter 0 1 0"),
            "graph.txt:11: error: arc 1 of arm_stream_filter_0 is an output",
        ),
        (
            TWO_IOS + ONE_NODE.replace("filter 0 1 0", "filter 1 1 0"),
            (
                "graph.txt:12: error: the graph has no node 'arm_stream_filter 1'; did you mean"
                " arm_stream_filter 0?"
            ),
        ),
        (
            TWO_IOS + ONE_NODE.replace("1 1 0", "1 1 7"),
            "graph.txt:12: error: format 7 is not declared, only 0",
        ),
        (
            TWO_IOS + ONE_NODE + "arc_map_hwblock 6",
            "graph.txt:13: error: unknown memory bank VID 6, only 0, 1, 2, 3, 4, 5, 10, 20, 8",
        ),
        (
            TWO_IOS + ONE_NODE + "arc_jitter_ctrl 2000",
            "graph.txt:12: error: the memory bank with VID 0 is full: 128224 of 95526 bytes are needed",
        ),
        (
            TWO_IOS + ONE_NODE.replace("end", "node_script 1\nend"),
            "graph.txt:10: error: script 1 is not declared",
        ),
        (
            TWO_IOS + ONE_NODE.replace("end", "node_preset 16\nend"),
            "graph.txt:10: error: node_preset: ParameterHead.preset is 16: its bit-field takes 0 to 15",
        ),
        (
            TWO_IOS + ONE_NODE.replace("end", "node_memory_clear 2\nend"),
            "graph.txt:10: error: arm_stream_filter has memory segments 0 to 1, not 2",
        ),
        ("scheduler_return 4", "graph.txt:1: error: scheduler_return is 1, 2 or 3"),
        ("include 3 more.txt", "graph.txt:1: error: no set_file_path 3 comes before"),
        (
            "script 0\nscript_code\njump AAB\nlabel AAA\nend",
            "graph.txt:3: error: no label 'AAB' in the code; did you mean AAA?",
        ),
        (
            "script 0\nscript_code\nr1 = adds r1 1\nend",
            "graph.txt:3: error: unknown operation 'adds'; did you mean add?",
        ),
        (
            "script 0\nscript_code\nset r1 graph arm_stream_mixer_0\nreturn\nend",
            "graph.txt:3: error: the graph has no node 'arm_stream_mixer_0'",
        ),
        ("script 1\nscript_code\nreturn\nend", "graph.txt:1: error: script 1 comes without script 0"),
    ],
)
def test_errors_have_a_place_and_the_nearest_name(text: str, wanted: str, computer: Platform) -> None:
    if not wanted:
        compiled(text, computer)
    else:
        assert errors(text, computer)[0] == wanted


def test_nodes_that_cannot_run_here_are_named(computer: Platform) -> None:
    first, second = [each for each in STANDARD_NODES if each.startswith("arm_") and not can_run(each)][:2]
    names = [f"{first} 0", "arm_stream_filter 0", f"{first} 1", f"{second} 0"]
    lines = TWO_IOS.strip().splitlines()
    lines += [f"node {name}" for name in names]
    lines += [f"arc {a} 1 0 {b} 0 0" for a, b in pairwise(names)]
    lines += [f"arc_input 0 1 0 {names[0]} 0 0", f"arc_output 1 1 0 {names[-1]} 1 0"]
    warnings = [
        str(each) for each in compiled("\n".join(lines), computer).warnings if "cannot run" in each.text
    ]
    assert warnings == [
        f"graph.txt:7: warning: {first} cannot run here, unless a package brings it",
        f"graph.txt:10: warning: {second} cannot run here, unless a package brings it",
    ]


@pytest.mark.parametrize(("given", "added"), [("20", 20), ("20.0", 20), ("20.5", 21)])
def test_memory_of_the_first_grammar_is_a_number(given: str, added: int, computer: Platform) -> None:
    def size(lines: str) -> int:
        return (
            compiled(TWO_IOS + ONE_NODE.replace("end", lines + "end"), computer)
            .graph.nodes[0]
            .segments[0]
            .size
        )

    assert size(f"node_malloc_E {given}\n") - size("") == added


def test_a_run_reports_twenty_errors(computer: Platform) -> None:
    assert errors("wrong\n" * 100, computer) == [
        f"graph.txt:{line}: error: unknown tag 'wrong'" for line in range(1, 21)
    ]


def test_an_include_that_includes_itself_is_an_error(computer: Platform, tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("set_file_path 1 ./\ninclude 1 graph.txt\n")
    with pytest.raises(TextError, match=r"graph\.txt:2: error: .*graph\.txt includes itself"):
        compile_text(path.read_text(), path, computer)


def test_parameters_may_be_included(computer: Platform, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/parameters.txt").write_text("2 u8; 7 8\n")
    node = ONE_NODE.replace("end", "node_parameters 3\n1 u16; 0x506\ninclude 2 parameters.txt\nend\nend")
    text = "set_file_path 2 sub" + TWO_IOS + node
    graph = compile_text(text, tmp_path / "graph.txt", computer).graph
    assert graph.nodes[0].parameters == (0x08070506,)
    assert graph.nodes[0].control.tag == 3
