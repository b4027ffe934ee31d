"""`aisrv completion`: shell scripts that complete the three commands and the values of their options."""

import os
from pathlib import Path
from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from aisrv.cli.main import main

_BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n'
    local word before= type value prefix
    local -a words=()
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 0 && ( $word == :* || $before == *: ) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        before=$word
    done
    prefix=${words[-1]%%"${words[-1]##*:}"}
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$prefix"}") ;;
        esac
    done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class ColonBash(BashComplete):
    """The script for bash, which takes `kernels:numpy` for three words: they are put together again."""

    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """Leave it to the shell that reads the script."""


SHELLS: Final[dict[str, type[ShellComplete]]] = {
    "bash": ColonBash,
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

    Without SHELL, the variable $SHELL names it.

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
