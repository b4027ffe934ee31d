"""The mutants that the long check makes of a module."""

import ast

from tests.soak.mutants import mutants

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
