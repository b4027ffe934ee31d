from pathlib import Path

import pytest

from aisrv.addons.graph.binary.words import parse_words, read_words
from aisrv.addons.graph.compiler.compile import compile_file, compile_text
from aisrv.addons.graph.compiler.decompile import DecompileError, decompile
from aisrv.addons.graph.compiler.dialect import OURS, Dialect
from aisrv.addons.graph.compiler.listing import memory_text, words_text
from aisrv.addons.graph.compiler.public import PUBLIC
from aisrv.addons.graph.platform.manifests import load_platform
from tests.support.oracles.graph_golden import COMPUTER, PAIRS, SEED


@pytest.mark.parametrize("dialect", [OURS, PUBLIC], ids=["ours", "public"])
@pytest.mark.parametrize("name", PAIRS)
def test_the_text_of_words_compiles_to_the_same_words(name: str, dialect: Dialect) -> None:
    pair = PAIRS[name]
    platform = load_platform(pair.manifest)
    words = compile_file(pair.text, pair.manifest, dialect).words
    text = decompile(read_words(words), platform, dialect)
    assert compile_text(text, Path("again.txt"), platform, dialect).words == words


def test_the_sample_of_the_first_grammar_comes_back_but_for_its_swap() -> None:
    platform = load_platform(COMPUTER)
    words = compile_file(SEED, COMPUTER).words
    text = decompile(read_words(words), platform)
    assert "2 h16; 2002 0001" in text
    assert compile_text(text, Path("again.txt"), platform).words == words


def test_words_of_another_platform_are_refused() -> None:
    pair = PAIRS["c1"]
    graph = read_words(compile_file(pair.text, pair.manifest).words)
    platform = load_platform(COMPUTER)
    platform.nodes.clear()
    with pytest.raises(DecompileError, match="the platform has no node 7"):
        decompile(graph, platform)


@pytest.mark.parametrize("name", PAIRS)
def test_a_listing_reads_back_and_says_what_each_word_is(name: str) -> None:
    pair = PAIRS[name]
    compiled = compile_file(pair.text, pair.manifest)
    text = words_text(compiled.graph, compiled.platform.node_names)
    assert parse_words(text) == compiled.words
    assert "arm_stream_filter with 2 arcs" in text
    assert all(" // " in line for line in text.splitlines())


def test_the_memory_report_has_a_line_for_each_bank() -> None:
    pair = PAIRS["lp-mspm0l1306"]
    lines = memory_text(compile_file(pair.text, pair.manifest).memory).splitlines()
    assert lines[1].split() == ["//", "0", "540", "284", "80", "176"]
