import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisrv.addons.graph.binary.words import parse_words
from aisrv.cli.main import main
from tests.support.oracles.graph_golden import COMPUTER, MSPM0, PAIRS


def aisrv_graph(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["graph", *map(str, arguments)])


@pytest.mark.parametrize("name", PAIRS)
def test_compile_with_compat_gives_the_golden_words(name: str) -> None:
    pair = PAIRS[name]
    result = aisrv_graph("compile", pair.text, "--platform", pair.manifest, "--compat")
    assert result.exit_code == 0
    assert parse_words(result.stdout) == parse_words(pair.words.read_text(encoding="utf-8"))


def test_compile_writes_a_file_that_list_and_decompile_read(tmp_path: Path) -> None:
    pair, words = PAIRS["computer"], tmp_path / "graph_bin.txt"
    assert aisrv_graph("compile", pair.text, "--platform", pair.manifest, "-o", words).stdout == ""
    listing = aisrv_graph("list", words)
    assert "callsys 15 r2 r3 r4" in listing.stdout
    assert parse_words(listing.stdout) == parse_words(words.read_text())
    text = aisrv_graph("decompile", words, "--platform", pair.manifest)
    assert "node sigp_stream_detector 0" in text.stdout
    again = tmp_path / "again.txt"
    again.write_text(text.stdout)
    result = aisrv_graph("compile", again, "--platform", pair.manifest)
    assert parse_words(result.stdout) == parse_words(words.read_text())


def test_compile_as_json_has_words_memory_and_arcs() -> None:
    pair = PAIRS["lp-mspm0l1306"]
    result = aisrv_graph("compile", pair.text, "--platform", MSPM0, "--json")
    values = json.loads(result.stdout)
    assert len(values["words"]) == 63
    assert values["memory"] == [{"vid": 0, "size": 540, "static": 284, "working": 80, "free": 176}]
    assert values["arcs"][2] == {"producer": "arm_stream_filter_0", "consumer": "sigp_stream_detector_0"}


def test_check_says_what_the_graph_takes() -> None:
    result = aisrv_graph("check", PAIRS["c1"].text, "--platform", COMPUTER)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{PAIRS['c1'].text}: 1 nodes, 2 arcs, 46 words",
        "VID 0: 336 static and 80 working of 95526 bytes",
    ]


def test_errors_go_to_stderr_and_the_code_is_1(tmp_path: Path) -> None:
    text = tmp_path / "graph.txt"
    text.write_text("format_index 0\nformat_frame_lenght 8\n")
    result = aisrv_graph("check", text, "--platform", COMPUTER)
    assert result.exit_code == 1
    assert result.stderr == (
        f"{text}:2: error: unknown tag 'format_frame_lenght'; did you mean format_frame_length?\n"
    )
    result = aisrv_graph("check", text, "--platform", COMPUTER, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["errors"][0]["line"] == 2


def test_bad_words_are_named_with_their_index(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("0x00000001,\n0x00000000,\n")
    result = aisrv_graph("list", words)
    assert result.exit_code == 1
    assert "word 1: the header needs words 0 to 6: there are 1" in result.stderr


def test_draw_gives_a_picture_with_nodes_arcs_and_memory(tmp_path: Path) -> None:
    picture = tmp_path / "graph.svg"
    result = aisrv_graph("draw", PAIRS["c2"].text, "--platform", COMPUTER, "--svg", picture)
    assert result.exit_code == 0
    root = ET.fromstring(picture.read_text(encoding="utf-8"))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:3] == ["0: S16, 32 B", "1: S16, 2 B", "2: FP32, 100 B to S16, 32 B"]
    assert {"IO 2", "arm_stream_filter_0", "sigp_stream_detector_0", "IO 7"} <= set(texts)
    assert "VID 5: 80 of 8,192 bytes used (1.0 %), 0 static and 80 working" in texts
    assert texts[-3:] == ["static", "working", "free"]
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "graph: 276 bytes from 0" in titles


def test_the_memory_of_a_drawing_is_in_proportion_to_the_bank(tmp_path: Path) -> None:
    picture = tmp_path / "graph.svg"
    aisrv_graph("draw", PAIRS["c2"].text, "--platform", COMPUTER, "--svg", picture)
    root = ET.fromstring(picture.read_text(encoding="utf-8"))
    bars = [element.attrib for element in root.iter("{http://www.w3.org/2000/svg}rect") if not list(element)]
    whole, static, working = (float(bar["width"]) for bar in bars[-6:-3])  # of VID 5; behind it the legend
    assert (whole, static, working) == (620, 0, 6.1)  # 80 of 8,192 bytes
    pieces = [
        float(element.attrib["width"])
        for element in root.iter("{http://www.w3.org/2000/svg}rect")
        if list(element)
    ]
    banks = sum(
        (element.text or "").startswith("VID ") for element in root.iter("{http://www.w3.org/2000/svg}text")
    )
    assert sum(pieces) == pytest.approx(620 * banks, abs=1)  # all are small, and so magnified
