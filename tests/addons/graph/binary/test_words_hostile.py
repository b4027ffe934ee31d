"""Words with bits changed: an error with its reason, or a graph that runs and ends."""

import io
import random

import pytest

from aisrv.addons.graph.binary.words import read_words, words_of
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.registry import Registry
from aisrv.addons.graph.run.commands import ReturnMode
from aisrv.addons.graph.run.drivers import FileInput, FileOutput
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import GraphState
from tests.support.amounts import amount
from tests.support.models.graphs import golden_audio, golden_graph

MUTANTS = amount(100_000, every_day=300)
"""Mutants of each graph."""


@pytest.mark.in_full
@pytest.mark.parametrize("name", ["c1_filter_only", "c6_filter_detector_copy"])
def test_mutated_words_never_crash_the_interpreter(name: str) -> None:
    words = words_of(golden_graph(name))
    draw = random.Random(name)
    refused = ran = 0
    data = golden_audio()[: 64 * 20]
    for _ in range(MUTANTS):
        mutant = list(words)
        for _ in range(draw.randint(1, 3)):
            mutant[draw.randrange(len(mutant))] ^= 1 << draw.randrange(32)
        try:
            interpreter = Interpreter(GraphState(read_words(mutant)), Registry(), log=lambda _: None)
            interpreter.reset()
        except GraphError:
            refused += 1
            continue
        for port in interpreter.ports:
            file = io.BytesIO(b"" if port.transmits else data)
            port.driver = FileOutput(file) if port.transmits else FileInput(file)
        for _ in range(30):
            interpreter.run(ReturnMode.PASS)
        ran += 1
    assert refused > 100
    assert ran > 100
