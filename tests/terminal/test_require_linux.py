"""Commands that need Linux: one line elsewhere, their help everywhere."""

import sys

import click
import pytest
from click.testing import CliRunner

from aisrv.cli.main import main
from aisrv.terminal.require_linux import require_linux, requires_linux
from tests.support.command_tree import commands_of


@click.command()
@require_linux("draw")
@click.option("--size", default=1)
def draw(size: int) -> None:
    click.echo(f"drawn {size}")


def test_it_runs_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert CliRunner().invoke(draw, ["--size", "3"]).output == "drawn 3\n"


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_elsewhere_it_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    done = CliRunner().invoke(draw)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "Error: aisrv draw needs Linux\n")
    assert CliRunner().invoke(draw, ["--help"]).exit_code == 0


def test_which_commands_need_it() -> None:
    found = {words: command for words, command in commands_of(main) if requires_linux(command)}
    assert {" ".join(words) for words in found} == {
        "attach",
        "demo",
        "exec",
        "firmware run",
        "model diff",
        "replay",
        "run",
    }


def test_each_says_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    for words, command in commands_of(main):
        if requires_linux(command):
            assert command.callback is not None
            with pytest.raises(click.ClickException, match=f"^aisrv {' '.join(words)} needs Linux$"):
                command.callback()
