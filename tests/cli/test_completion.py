"""Completion, as bash asks for it: the command with the words so far in its environment."""

import os
import sys
from pathlib import Path

import pytest

from aisrv.cli.completion import completion
from tests.support.command_calls import CommandCalls
from tests.support.programs import AISRV, run_process

BIN = Path(sys.executable).parent


def completed(words: str) -> list[str]:
    """Return what bash is offered for the last of some words."""
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    environment = os.environ | variables | {"_AISRV_COMPLETE": "bash_complete"}
    done = run_process(AISRV, env=environment, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "replies"),
    [
        ("aisrv re", ["replay"]),
        ("aisrv run --board c", ["camera", "chained"]),
        ("aisrv exec --engine kernels:n", ["kernels:numpy", "kernels:native"]),
        ("aisrv run --protocol io", ["ioserver"]),
    ],
    ids=["commands", "boards", "kinds of engines", "choices"],
)
def test_words_are_completed(words: str, replies: list[str]) -> None:
    assert completed(words) == replies


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_the_script_names_the_three_programs(shell: str) -> None:
    script = CommandCalls(completion).done(shell)
    for variable in ("_AISRV_COMPLETE", "_AISRV_HOST_COMPLETE", "_AISRV_FLASH_COMPLETE"):
        assert variable in script


def test_bash_accepts_the_script(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(CommandCalls(completion).done("bash"))
    run_process(["bash", "-n", path], check=True)


@pytest.mark.parametrize(
    ("words", "replies"),
    [
        ("aisrv run --engine kernels : n", ["numpy", "native"]),
        ("aisrv run --engine kernels: n", ["numpy", "native"]),
        ("aisrv run --engine tf", ["tflite", "tflm"]),
        ("aisrv-host i", ["i2c", "infer", "info"]),
    ],
)
def test_bash_is_given_what_follows_a_colon(tmp_path: Path, words: str, replies: list[str]) -> None:
    path = tmp_path / "script"
    path.write_text(CommandCalls(completion).done("bash"))
    program = words.split(maxsplit=1)[0]
    script = f"""
        source {path}
        COMP_WORDS=({words}) COMP_CWORD={len(words.split()) - 1}
        _{program.replace("-", "_")}_completion {BIN / program}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert run_process(["bash", "-c", script], check=True).stdout.split() == replies


def test_a_shell_that_is_none_of_them_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    assert CommandCalls(completion).failed(2).endswith("Error: name the shell: bash, fish, zsh\n")
