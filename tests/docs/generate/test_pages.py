"""The tables on the pages: they are those of the code, and their places are marked whole."""

import pytest

from docs.generate.pages import PAGES, PageError, filled, table_names
from docs.generate.tables import TABLES

FILLED = [page for page in PAGES if table_names(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", FILLED, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_code(page: object) -> None:
    text = page.read_text(encoding="utf-8")  # type: ignore[attr-defined]
    assert filled(text, TABLES) == text, "the code has other tables; write them with `make reference`"


def test_every_table_is_on_a_page() -> None:
    assert sorted(
        name for page in FILLED for name in table_names(page.read_text(encoding="utf-8"))
    ) == sorted(TABLES)


def test_a_table_gets_to_its_place() -> None:
    text = "a\n<!-- table: one -->\nold\n<!-- end of table -->\nb\n"
    assert filled(text, {"one": lambda: "new\n"}) == (
        "a\n<!-- table: one -->\n\nnew\n\n<!-- end of table -->\nb\n"
    )


def test_what_is_filled_stays_so() -> None:
    text = filled("<!-- table: one -->\n<!-- end of table -->\n", {"one": lambda: "new"})
    assert filled(text, {"one": lambda: "new"}) == text


def test_a_name_that_no_table_has_is_refused() -> None:
    with pytest.raises(PageError, match="there is no table 'two'; there are one"):
        filled("<!-- table: two -->\n<!-- end of table -->\n", {"one": str})


def test_a_table_without_its_end_is_refused() -> None:
    with pytest.raises(PageError, match="a table has no end; write <!-- end of table --> after it"):
        filled("<!-- table: one -->\n", {"one": str})
