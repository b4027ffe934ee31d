"""Pictures of a terminal: text, colors, where they begin and end; and that the manual shows all pictures."""

import os
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.programs import need_package

need_package("pyte", "pyte>=0.8.2")

from docs.generate.pictures.__main__ import IMAGES, PICTURES  # noqa: E402
from docs.generate.pictures.terminal import terminal_picture  # noqa: E402


def texts(svg: str) -> list[str]:
    """The lines of a picture."""
    rows: dict[str, str] = {}
    for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        rows[each.get("y", "")] = rows.get(each.get("y", ""), "") + "".join(each.itertext())
    return [line.replace("\xa0", " ").rstrip() for line in rows.values() if line.strip()]


def shown(folder: Path, script: str, until: str | None = None, last: str | None = None) -> str:
    command = [sys.executable, "-c", script]
    return terminal_picture(command, folder, dict(os.environ), columns=60, until=until, last=last)


def test_a_picture_has_the_command_and_what_it_prints(tmp_path: Path) -> None:
    svg = shown(tmp_path, "print('one'); print('two')")
    assert texts(svg)[1:] == ["one", "two"]
    assert texts(svg)[0].startswith("$ ")


def test_colors_are_those_of_the_program(tmp_path: Path) -> None:
    plain, colored = (shown(tmp_path, f"print({text!r})") for text in ("green", "\x1b[1;32mgreen\x1b[0m"))
    assert texts(plain)[-1] == texts(colored)[-1] == "green"
    assert len(set(re.findall("fill: #[0-9a-f]{6}", colored))) > len(
        set(re.findall("fill: #[0-9a-f]{6}", plain))
    )


def test_what_is_overwritten_does_not_show(tmp_path: Path) -> None:
    assert texts(shown(tmp_path, "print('first', end='\\rsecond\\n')"))[1:] == ["second"]


def test_a_program_that_goes_on_is_ended_at_the_screen_that_is_wanted(tmp_path: Path) -> None:
    script = "import itertools\nfor n in itertools.count(): print('\\r', n, end=' ', flush=True)"
    number = texts(shown(tmp_path, script, until=r"^ *\d\d+ "))[-1]
    assert int(number) >= 10


def test_a_picture_ends_at_the_last_line_that_is_wanted(tmp_path: Path) -> None:
    assert texts(shown(tmp_path, "print('a'); print('b'); print('c')", last="b"))[1:] == ["a", "b"]


def test_a_program_that_fails_makes_no_picture(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        shown(tmp_path, "raise SystemExit(3)")


def test_nothing_is_loaded_from_other_machines(tmp_path: Path) -> None:
    svg = shown(tmp_path, "print('one')")
    assert set(re.findall(r"https?://[\w.]+", svg)) == {"http://www.w3.org", "https://www.textualize.io"}


def test_every_picture_is_there_and_on_a_page() -> None:
    pages = "".join(
        path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    )
    for name in PICTURES:
        assert (IMAGES / name).is_file(), name
        assert f"images/{name})" in pages, name
