"""Errors with --json: an object on standard output, of every command that takes the option."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from aisrv.cli.main import main as aisrv
from tests.support.command_tree import commands_of
from tests.support.main_commands import MAINS

COMMANDS: Final = [
    (program, *names)
    for program, main in MAINS.items()
    for names, command in commands_of(main)
    if any("--json" in parameter.opts for parameter in command.params)
]


def error(*words: object) -> tuple[dict[str, Any], str]:
    """Return the object of an error and its line on standard error; its exit code is the process's."""
    name, *arguments = map(str, words)
    result = CliRunner().invoke(MAINS[name], arguments)
    answer = json.loads(result.stdout)["error"]
    assert result.exit_code == answer["exit_code"]
    return answer, result.stderr.splitlines()[-1]


def test_all_three_programs_have_such_commands() -> None:
    assert {names[0] for names in COMMANDS} == set(MAINS)
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_a_usage_error_is_an_object(names: tuple[str, ...]) -> None:
    answer, line = error(*names, "--json", "--no-such-option-at-all")
    assert (answer["kind"], answer["exit_code"]) == ("UsageError", 2)
    assert "--no-such-option-at-all" in answer["message"]
    assert line == f"Error: {answer['message']}"


@pytest.mark.parametrize("before", [("--json", "inspect"), ("inspect", "--json")])
def test_errors_of_the_packager(before: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(100))
    answer, line = error("aisrv-flash", *before, path)
    assert answer["kind"] == "NoImageError"
    assert line == f"aisrv-flash: {answer['message']}"
    assert answer["message"].startswith(f"{path}: ")


@pytest.mark.parametrize(
    "words",
    [
        ("model", "plan", "{file}", "--json"),
        ("profile", "{file}", "--json"),
        ("model", "diff", "{file}", "--json"),
        ("demo", "--device", "usbip:127.0.0.1:1", "--json"),
        ("boards", "nosuch", "--json"),
        ("replay", "{file}", "--json"),
        ("graph", "run", "{file}", "--json"),
        ("run", "--model", "{file}", "--port", "0", "--json"),
        ("run", "--flash", "{file}", "--port", "0", "--json"),
    ],
    ids=" ".join,
)
def test_errors_of_aisrv(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no model, no graph, no capture")
    answer, line = error("aisrv", *(word.format(file=path) for word in words))
    assert answer["kind"] in ("Error", "UsageError")
    assert line == f"Error: {answer['message']}"


def test_without_json_an_error_is_a_line() -> None:
    result = CliRunner().invoke(aisrv, ["boards", "nosuch"])
    assert (result.exit_code, result.stdout) == (2, "")


def test_the_option_of_a_program_that_is_run_is_the_programs() -> None:
    result = CliRunner().invoke(aisrv, ["exec", "--engine", "nosuch", "--", "tool", "--json"])
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_misspelled_command_is_an_object() -> None:
    answer, _ = error("aisrv", "bords", "--json")
    assert answer["message"] == "No such command 'bords'. Did you mean 'boards'?"
