"""Hostile texts, manifests and words: a small share of those in `benchmarks.hostile_graphs`."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.addons.graph.compiler.compile import compile_text
from aisrv.addons.graph.errors import TextError
from aisrv.addons.graph.platform.manifests import Platform
from aisrv.addons.graph.text.grammar import EVERY_TAG
from tests.support.amounts import in_ci
from tests.support.models.hostile_graphs import PIECES, computer, try_manifest, try_text, try_words

PLATFORM = computer()


@pytest.fixture(scope="module")
def platform() -> Platform:
    return PLATFORM


def test_mutants_of_texts(platform: Platform) -> None:
    outcomes = Counter(try_text(number, platform) for number in range(in_ci(300, every_day=120)))
    assert min(outcomes["compiled"], outcomes["refused"]) > 20


def test_mutants_of_words(platform: Platform) -> None:
    outcomes = Counter(try_words(number, platform) for number in range(in_ci(500, every_day=200)))
    assert min(outcomes["read"] + outcomes["compiled again"], outcomes["refused"]) > 20


def test_mutants_of_manifests(tmp_path: Path) -> None:
    outcomes = Counter(try_manifest(number, tmp_path) for number in range(in_ci(150, every_day=60)))
    assert min(outcomes["compiled"], outcomes["refused"]) > 10


WORDS = st.sampled_from([*EVERY_TAG, *PIECES, "arm_stream_filter", "r1", "=", "add"])


@settings(deadline=None)
@given(st.lists(st.lists(WORDS, min_size=1, max_size=7).map(" ".join), max_size=20).map("\n".join))
def test_random_texts_compile_or_are_refused_with_a_place(text: str) -> None:
    line = 1
    try:
        compile_text(text, Path("graph.txt"), PLATFORM)
    except TextError as error:
        line = min(message.place.line for message in error.messages)
    assert line >= 1
