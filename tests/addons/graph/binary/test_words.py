import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.graph.binary.model import Arc, Graph, Header, IoEntry, ScriptArc, Segment
from aisrv.addons.graph.binary.words import parse_words, read_words, words_of
from aisrv.addons.graph.errors import FieldError, WordsError
from tests.support.amounts import in_ci
from tests.support.oracles.graph_golden import PAIRS


def golden_words(name: str) -> list[int]:
    return parse_words(PAIRS[name].words.read_text(encoding="utf-8"))


def check_read(words: list[int]) -> None:
    """Words are read, and written as they were; or they are refused with the index of a word."""
    place = 0
    try:
        graph = read_words(words)
    except WordsError as error:
        place = error.index
    else:
        assert words_of(graph) == words
    assert 0 <= place <= len(words)


@pytest.mark.parametrize("name", PAIRS)
def test_words_become_values_and_the_same_words_again(name: str) -> None:
    words = golden_words(name)
    assert words_of(read_words(words)) == words


def test_header_of_the_two_commanded_ios() -> None:
    graph = read_words(golden_words("lp-mspm0l1306"))
    assert graph.header == Header(
        location=1, ios=2, formats=2, node_words=21, arcs=3, allowed_processors=1, fill_low=0x85
    )
    assert graph.ios == (
        IoEntry(hwid=2, domain=0, copy=0, servant=0, tx=0, arc=0),
        IoEntry(hwid=8, domain=0, copy=0, servant=1, tx=1, arc=1),
    )


def test_nodes_of_a_graph_with_keys_scripts_and_segments() -> None:
    graph = read_words(golden_words("computer"))
    filter_, detector, script = graph.nodes
    assert graph.node_positions() == (0x15, 0x22, 0x2B)
    assert graph.ram_word == 0x4F
    assert [node.head.node_idx for node in graph.nodes] == [7, 8, 1]
    assert [(arc.arc, arc.tx) for arc in filter_.arcs] == [(0, 0), (4, 1)]
    assert filter_.segments == (Segment(others=1, offset=0x1F4, size=24), Segment(bank=2, size=80))
    assert detector.user_key == (17, 34)
    assert (detector.control.preset, detector.parameters) == (3, ())
    assert script.is_script
    assert len(script.parameters) == 30
    assert graph.scripts[0].code == (0x30448803, 0x30080814, 0xFFFFDCD8, 0x3C33330B, 0x3CC00800)


def test_arcs_of_scripts_are_told_from_buffers() -> None:
    graph = read_words(golden_words("computer"))
    assert graph.arcs[2] == ScriptArc(
        offset=0x9C, code_words=30, size=0xE0, buffer_words=56, registers=11, stack=6
    )
    assert graph.arcs[3] == ScriptArc(
        offset=0x17C, code_words=5, size=0x68, buffer_words=26, registers=7, stack=6
    )
    assert graph.arcs[4] == Arc(offset=0x1E4, size=16, producer_format=1, consumer_format=1)


def test_formats_have_frames_and_raw_types() -> None:
    graph = read_words(golden_words("c2"))
    assert [(each.frame_bytes, each.raw, each.channels) for each in graph.formats] == [
        (32, 17, 1),
        (2, 17, 1),
        (100, 27, 1),
    ]
    assert graph.fill == (0x3355AAFF,) * 3


def test_a_sampling_rate_is_the_upper_bits_of_a_float() -> None:
    words = golden_words("c1")
    words[0x20] = 0x467A0000  # 16000.0
    assert read_words(words).formats[0].sampling_rate == 16000.0


def test_the_smallest_graph() -> None:
    words = words_of(Graph(Header()))
    assert words == [0, 0, 1, 0, 1, 0, 0, 0x3FF]
    assert read_words(words) == Graph(Header())


@pytest.mark.parametrize("name", PAIRS)
def test_words_cut_short_are_refused_with_a_place(name: str) -> None:
    words = golden_words(name)
    kept = len(words) - (3 if name == "c2" else 0)  # the fill pattern may have any length
    for length in range(kept):
        with pytest.raises(WordsError) as caught:
            read_words(words[:length])
        assert 0 <= caught.value.index <= length


@pytest.mark.parametrize(
    ("index", "word", "at", "message"),
    [
        (3, 4, 63, "arc 3 needs words 63 to 68: there are 63"),
        (1, 0x43, 63, "arc 2 needs words 61 to 66"),
        (2, 0, 2, "not even its end"),
        (2, 20, 34, "does not end"),
        (7, 0x43003, 7, "IO 0 has arc 3: there are 3"),
        (15, 0x4007 | 1 << 17, 15, "has script 1: there are 0"),
        (16, 0x08030000, 16, "node 0 has arc 3: there are 3"),
        (21, 0, 21, "0 words of parameters"),
        (49, 0x201, 49, "format 2: there are 2"),
        (47, 0x1000, 47, "reads at 4096, writes at 0 of 32 bytes"),
    ],
)
def test_bad_words_are_named_by_index(index: int, word: int, at: int, message: str) -> None:
    words = golden_words("c6")
    words[index] = word
    with pytest.raises(WordsError, match=message) as caught:
        read_words(words)
    assert caught.value.index == at


def test_a_value_too_large_for_its_field_is_refused() -> None:
    graph = Graph(Header(arcs=2048))
    with pytest.raises(FieldError, match=r"Header\.arcs is 2048: its bit-field takes 0 to 2047"):
        words_of(graph)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no words"),
        ("0x00000002,\n0x00000001,", "says 2 words: there are 1"),
        ("0x00000001,\n0x1FFFFFFFF,", "is not a word such as"),
        ("0x00000001,\nseven", "is not a word such as"),
    ],
)
def test_texts_that_are_no_words(text: str, message: str) -> None:
    with pytest.raises(WordsError, match=message):
        parse_words(text)


def test_numbers_wider_than_words_are_refused() -> None:
    with pytest.raises(WordsError, match="word 1: 4294967296 is not a 32-bit word"):
        read_words([0, 1 << 32])


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=200))
def test_random_words_give_a_graph_or_an_error_with_a_place(words: list[int]) -> None:
    check_read(words)


@pytest.mark.parametrize("name", PAIRS)
def test_mutants_of_words_give_a_graph_or_an_error_with_a_place(name: str) -> None:
    generator = random.Random(name)
    words = golden_words(name)
    for _ in range(in_ci(500, every_day=200)):
        mutant = list(words)
        for _ in range(generator.randint(1, 3)):
            mutant[generator.randrange(len(mutant))] ^= 1 << generator.randrange(32)
        check_read(mutant)


@given(st.integers(0, 31), st.integers(0, 0x3FFFFF))
def test_every_field_has_its_own_bits(command: int, offset: int) -> None:
    arc = Arc(debug_command=command, offset=offset)
    assert Arc.from_words(arc.words()) == arc
    assert dataclasses.replace(arc, debug_command=0, offset=0) == Arc()
