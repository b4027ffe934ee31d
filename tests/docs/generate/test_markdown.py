"""Markdown of tables and of texts."""

from docs.generate.markdown import plain, table


def test_a_table() -> None:
    assert table(("a", "b"), [("1", ""), ("x|y", "two\nlines")]) == (
        "| a | b |\n| --- | --- |\n| 1 | |\n| x&#124;y | two lines |"
    )


def test_text_is_one_line_without_tags() -> None:
    assert plain("N <model>\n    of\n  1 < 2") == "N &lt;model> of 1 < 2"
