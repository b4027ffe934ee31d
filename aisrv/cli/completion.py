"""`aisrv completion`: what makes a shell complete the three commands and the values of their options."""

import os
from pathlib import Path
from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from aisrv.cli.main import main

SHELLS: Final[dict[str, type[ShellComplete]]] = {
    "bash": BashComplete,
    "fish": FishComplete,
    "zsh": ZshComplete,
}

PROGRAMS: Final = ("aisrv", "aisrv-host", "aisrv-flash")


def completion_script(shell: str) -> str:
    """Return a script for a shell; when a word is completed, it asks the command itself."""
    kind = SHELLS[shell]
    return "\n".join(
        kind(main, {}, program, f"_{program.replace('-', '_').upper()}_COMPLETE").source()
        for program in PROGRAMS
    )


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)), required=False)
def completion(shell: str | None) -> None:
    """Print the script that makes SHELL complete commands, options and their values.

    Without SHELL it is the one that $SHELL names.

    \b
    Examples:
      eval "$(aisrv completion bash)"                   in ~/.bashrc
      eval "$(aisrv completion zsh)"                    in ~/.zshrc
      aisrv completion fish > ~/.config/fish/completions/aisrv.fish
    """
    if shell is None:
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in SHELLS:
            raise click.UsageError(f"name the shell: {', '.join(SHELLS)}")
    click.echo(completion_script(shell))
