"""Tables of figures, and the page that has all of them."""

import pytest

from benchmarks.rows import Row
from docs.generate.benchmark_results import figures, result_names
from docs.generate.pages import table_names
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/reference/benchmarks.md").read_text(encoding="utf-8")


def test_the_page_has_a_table_for_each_file() -> None:
    named = [name.removeprefix("benchmark-") for name in table_names(PAGE) if name.startswith("benchmark-")]
    assert sorted(named) == result_names()


def test_rows_of_lines_and_columns_are_a_table_with_columns() -> None:
    rows = [Row("a: x", 1, "us"), Row("a: y", 1234.4, ""), Row("b: x", 0.123456, "us"), Row("c", 2.5, "s")]
    rows += [Row("b: y", 5, "")]
    assert figures(rows).splitlines() == [
        "| what | x, µs | y |",
        "| --- | --- | --- |",
        "| a | 1 | 1,234 |",
        "| b | 0.123 | 5 |",
        "",
        "| what | figure |",
        "| --- | --- |",
        "| c | 2.5 s |",
    ]


def test_more_columns_than_lines_go_down() -> None:
    rows = [Row(f"{line}: {column}", number, "ms") for line in "ab" for number, column in enumerate("xyz")]
    assert figures(rows).splitlines()[::2] == ["| what | a | b |", "| x, ms | 0 | 0 |", "| z, ms | 2 | 2 |"]


@pytest.mark.parametrize(
    "names", [("a", "b"), ("a: x", "b: x"), ("a: x", "a: y"), ("a: x", "a: y", "b: z", "b: w")]
)
def test_other_rows_are_a_list(names: tuple[str, ...]) -> None:
    rows = [Row(name, 3, "us") for name in names]
    assert figures(rows).splitlines()[2:] == [f"| {name} | 3 µs |" for name in names]
