import pytest

from aisrv.addons.graph.platform.options import ANY, Options, Range, parse_options


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("17", Options((17,), (), 17)),
        ("{17}", Options((17,), (), 17)),
        ("{1 17}", Options((17,), (), 17)),
        ("{2 16000 48000}", Options((16000, 48000), (), 48000)),
        ("{0}", ANY),
        ("{0 1 2}", ANY),
        ("{-1 1 1 16}", Options((), (Range(1, 1, 16),), 1)),
        ("{-2 0 1 3 10 5 20}", Options((), (Range(0, 1, 3), Range(10, 5, 20)), 10)),
        ("{1 1 2} {-1 4 4 8}", Options((1, 2), (Range(4, 4, 8),), 1)),
        ("", None),
        ("{}", None),
        ("{3 1 2}", None),
        ("{-1 1 2}", None),
        ("{1 x}", None),
    ],
)
def test_options_are_read(text: str, options: Options | None) -> None:
    assert parse_options(text) == options


@pytest.mark.parametrize(("value", "allowed"), [(9, False), (10, True), (12, False), (15, True), (25, False)])
def test_a_range_has_its_steps(value: float, allowed: bool) -> None:
    assert (value in Options((), (Range(10, 5, 20),))) is allowed
    assert value in ANY
