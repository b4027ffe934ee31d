"""Where the time goes, as tables."""

from tests.support.seconds import COLLECTING, Row, Seconds
from tests.support.seconds_table import report

ROWS = [
    Row(COLLECTING, Seconds(9, 7, 0)),
    Row("tests/a/test_one.py::test_x", Seconds(2, 1.5, 0.25)),
    Row("tests/a/deep/test_two.py::test_y", Seconds(40, 0.5, 0.75)),
    Row("tests/b/test_three.py::test_z[1]", Seconds(20, 1, 16)),
    Row(COLLECTING, Seconds(9, 7, 0)),
]


def test_folders_and_tests_by_what_they_take() -> None:
    assert report(ROWS).splitlines() == [
        "CPU seconds by folder:",
        "",
        "| folder | tests | pytest | started programs | clock |",
        "|---|---|---|---|---|",
        "| `tests/b` | 1 | 1 s | 16 s | 20 s |",
        "| collecting, 2 processes |  | 14 s | 0 s | 18 s |",
        "| `tests/a` | 2 | 2 s | 1 s | 42 s |",
        "| all | 3 | 17 s | 17 s | 80 s |",
        "",
        "The most CPU time:",
        "",
        "| test | pytest | started programs | clock |",
        "|---|---|---|---|",
        "| `tests/b/test_three.py::test_z[1]` | 1.0 s | 16.0 s | 20.0 s |",
        "| `tests/a/test_one.py::test_x` | 1.5 s | 0.2 s | 2.0 s |",
        "| `tests/a/deep/test_two.py::test_y` | 0.5 s | 0.8 s | 40.0 s |",
        "",
        "The longest waits:",
        "",
        "| test | pytest | started programs | clock |",
        "|---|---|---|---|",
        "| `tests/a/deep/test_two.py::test_y` | 0.5 s | 0.8 s | 40.0 s |",
        "| `tests/b/test_three.py::test_z[1]` | 1.0 s | 16.0 s | 20.0 s |",
        "| `tests/a/test_one.py::test_x` | 1.5 s | 0.2 s | 2.0 s |",
    ]
