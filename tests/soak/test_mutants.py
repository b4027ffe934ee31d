"""The mutants that the long check makes of a module."""

import ast
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from tests.soak import mutants as long_check
from tests.soak.mutants import Copy, Target, copied, living, mutants, run
from tests.support.paths import ROOT

COPIED = pytest.mark.long("a copy of the project runs its tests again and again")

SOURCE = b'''
def smallest(values, least):
    """Return the smallest value that is not less."""
    if values and least < max(values):
        values = [value for value in values if value >= least]
    return min(values)
'''


def test_each_statement_and_condition_is_changed_once() -> None:
    assert [(mutant.line, mutant.change) for mutant in mutants(SOURCE)] == [
        (4, "without if values and least < max(values):"),
        (6, "without return min(values)"),
        (5, "without values = [value for value in values if value >= least]"),
        (4, "not: values and least < max(values)"),
        (4, "without operand values"),
        (4, "without operand least < max(values)"),
        (4, "least <= max(values) for least < max(values)"),
        (5, "value > least for value >= least"),
    ]


def test_a_change_is_undone_before_the_next() -> None:
    whole = ast.dump(ast.parse(SOURCE))
    changed = mutants(SOURCE)
    texts = {ast.dump(mutant.tree) for mutant in changed}
    assert len(texts) == 8
    assert whole not in texts


@pytest.fixture(scope="module")
def copy() -> Iterator[Copy]:
    with copied() as copy:
        yield copy


@COPIED
def test_mutants_are_tried_in_a_copy_with_its_other_processes(copy: Copy) -> None:
    """The test that notices has a process of its own write a file and be killed."""
    target = Target("aisrv/values/whole_file.py", ("tests/values/test_whole_file.py",))
    source = (ROOT / target.path).read_bytes()
    changes = [mutant.change for mutant in mutants(source)]
    tried = list(living(copy, target, [changes.index("without _remove_left(target.parent, _stem(target))")]))
    assert [lives for _, lives in tried] == [False]
    assert (ROOT / target.path).read_bytes() == source


@COPIED
def test_tests_that_fail_without_a_mutant_notice_nothing(copy: Copy) -> None:
    target = Target("aisrv/values/whole_file.py", ("tests/there_is_none.py",))
    with pytest.raises(AssertionError, match="they fail without a mutant"):
        list(living(copy, target, [0]))


def test_logging_is_not_changed() -> None:
    assert list(mutants(b"def f():\n    logger.info('x')\n")) == []


def test_no_mutant_is_no_fault() -> None:
    assert run(0, 1) == {"share": "0.0%"}


@pytest.fixture
def only_whole_file(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have the check try one module, under these tests, in the copy that is there."""
    monkeypatch.setattr(long_check, "copied", lambda: nullcontext(copy))

    def use(tests: str) -> None:
        monkeypatch.setattr(
            long_check, "TARGETS", {"whole_file": Target("aisrv/values/whole_file.py", (tests,))}
        )

    return use


@COPIED
def test_what_lives_is_counted_by_module(only_whole_file: Callable[[str], None]) -> None:
    only_whole_file("tests/values/test_whole_file.py")
    assert run(1, 1) == {"whole_file": "0 of 1 live", "share": "0.0%"}


@COPIED
def test_tests_that_notice_too_little_are_a_fault(only_whole_file: Callable[[str], None]) -> None:
    only_whole_file("tests/values/test_packet.py")
    with pytest.raises(AssertionError, match=r"^100\.0% live:\nwhole_file \d+: .*\nwhole_file \d+: "):
        run(2, 1)
