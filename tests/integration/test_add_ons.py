"""Add-ons: what they name is there, little of them loads at a start, and packages of others bring some."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest

from aisrv.board import Part
from aisrv.device.parts import RunningPart
from aisrv.values.addons import NAMES, AddOn, load, ours
from tests.support.paths import ROOT
from tests.support.programs import run_process

MODULES_OF_RUN = 235
MODULES_OF_HELP = 35
OWN = "('aisrv', 'flash_server', 'host_tools', 'phy')"


def places(value: object) -> Iterator[str]:
    """All places and modules that an add-on names, whatever its fields are."""
    if isinstance(value, str) and re.fullmatch(r"aisrv\.[\w.]+(:\w+)?", value):
        yield value
    elif isinstance(value, Mapping):
        yield from places(tuple(value.values()))
    elif isinstance(value, tuple):
        for each in value:
            yield from places(each)


@pytest.mark.parametrize(("name", "add_on"), [*zip(NAMES, ours(), strict=True)])
def test_every_place_of_an_add_on_is_there(name: str, add_on: AddOn) -> None:
    assert list(places(add_on)), f"{name} brings nothing"
    for place in places(add_on):
        found = load(place) if ":" in place else import_module(place)
        if isinstance(found, type) and issubclass(found, Part):
            assert issubclass(load(found.opens), RunningPart)


def modules_after(*words: str) -> list[str]:
    script = (
        "import atexit, sys; from aisrv.cli.main import main\n"
        f"try: main({list(words)})\n"
        f"finally: print('loaded', *(name for name in sys.modules if name.split('.')[0] in {OWN}))"
    )
    done = run_process([sys.executable, "-c", script], check=True)
    return done.stdout.splitlines()[-1].split()[1:]


def test_run_loads_little_of_add_ons() -> None:
    assert 150 < len(modules_after("run", "--port", "0", "--until-eof")) <= MODULES_OF_RUN


def test_help_loads_of_add_ons_their_names_alone() -> None:
    loaded = modules_after("--help")
    assert len(loaded) <= MODULES_OF_HELP
    inner = [name for name in loaded if name.startswith("aisrv.addons.") and name.count(".") > 2]
    assert sorted(inner) == [f"aisrv.addons.{name}.addon" for name in NAMES]


@pytest.fixture
def with_heartbeat(tmp_path: Path) -> dict[str, str]:
    """An environment in which the example is installed."""
    info = tmp_path / "heartbeat-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: heartbeat\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[aisrv.addons]\nheartbeat = heartbeat.addon:ADD_ON\n")
    return os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'examples'}"}


def aisrv(environment: dict[str, str], *words: object) -> "tuple[int, str, str]":
    command = [sys.executable, "-c", "from aisrv.cli.main import main; main()", *words]
    done = run_process(command, env=environment)
    return done.returncode, done.stdout, done.stderr


def test_the_example_s_heart_beats(with_heartbeat: dict[str, str], tmp_path: Path) -> None:
    board = tmp_path / "board.toml"
    board.write_text("[heartbeat]\nrate = 50.0\n")
    code, output, errors = aisrv(with_heartbeat, "beat", board)
    assert (code, output.split()[1:]) == (0, ["beats"]), errors
    assert 0 < int(output.split()[0]) <= 25


def test_a_wrong_key_of_the_example_is_refused_with_its_line(
    with_heartbeat: dict[str, str], tmp_path: Path
) -> None:
    board = tmp_path / "board.toml"
    board.write_text("[heartbeat]\nrat = 50.0\n")
    code, _, errors = aisrv(with_heartbeat, "run", "--board", board)
    assert code == 2
    assert f"{board}:2: heartbeat.rat: 'rat' is not known here; did you mean rate?" in errors


def test_help_lists_the_command_of_the_example_apart(with_heartbeat: dict[str, str]) -> None:
    _, output, _ = aisrv(with_heartbeat, "--help")
    assert output.endswith("Commands of other packages:\n  beat  Say how often a board's heart beats.\n"), (
        output[-300:]
    )
