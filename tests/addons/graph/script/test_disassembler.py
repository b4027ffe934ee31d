import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.graph.binary.words import parse_words, read_words
from aisrv.addons.graph.script.disassembler import disassemble
from aisrv.addons.graph.script.line import LineAssembler
from aisrv.addons.graph.script.public_line import PublicLine
from tests.addons.graph.script.scripts import code_of
from tests.addons.graph.script.test_assembler import ENCODED
from tests.support.amounts import in_ci
from tests.support.oracles.graph_golden import PAIRS


def assembled_again(words: list[int], line: type[LineAssembler] = LineAssembler) -> list[int]:
    text = disassemble(words, heap_bytes=32, nodes={0x22: "sigp_stream_detector_0"}, line=line)
    code = code_of("\n".join(text.lines()[1:]), line)
    for reference in code.nodes:
        assert reference.name == "sigp_stream_detector_0"
        code.words[reference.at] = 0x22
    return code.all_words()


@pytest.mark.parametrize("line", ENCODED)
def test_each_instruction_comes_back(line: str) -> None:
    words = [*ENCODED[line], 0x3CC00800]
    assert assembled_again(words) == words
    assert not [line for _, line in disassemble(words).code if line[0].isdigit()]


@pytest.mark.parametrize(
    "line", ["test_gt r1 sub r2 r3", "test_leq r1 norm r2 r3", "test_lt sp0 or r2 #uint8 7"]
)
def test_a_test_with_an_operation_comes_back(line: str) -> None:
    assert disassemble([*code_of(line).words, 0x3CC00800]).code[0] == (0, line)


def test_lines_of_the_golden_script_node() -> None:
    graph = read_words(parse_words(PAIRS["computer"].words.read_text(encoding="utf-8")))
    words = list(graph.nodes[2].parameters)
    assert assembled_again(words, PublicLine) == words
    text = disassemble(words, heap_bytes=22, nodes={0x22: "sigp_stream_detector_0"}, line=PublicLine)
    lines = [line for _, line in text.code]
    assert lines[:5] == [
        "r5 = 255", "r3 | 1 10 | = r5", "r4 = r3 | 3 5 |", "set r2 graph sigp_stream_detector_0", "r0 = 1042",
    ]  # fmt: skip
    assert "label L10" in lines
    assert "if_no jump L10" in lines
    assert text.parameters[1:3] == ["label P1", "8 u8; 0 0 0 0 0 0 0 0"]


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=30))
def test_random_words_come_back(words: list[int]) -> None:
    assert assembled_again(words) == words


@pytest.mark.parametrize("line", [LineAssembler, PublicLine])
def test_random_instructions_come_back(line: type[LineAssembler]) -> None:
    generator = random.Random(7)
    for _ in range(in_ci(300, every_day=80)):
        words = [
            generator.choice((0, 1, 2)) << 30 | generator.randrange(48, 64) << 24 | generator.getrandbits(24)
            for _ in range(12)
        ]
        words += [0x3CC00800, 1, 2]
        assert assembled_again(words, line) == words
