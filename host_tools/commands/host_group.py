"""A group of commands that takes --json before and after the subcommand, and answers errors in JSON, too."""

import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final

import click

from aisrv.terminal.command_group import INTERRUPTED, CommandGroup

JSON: Final = "--json"

_WANTED: Final = f"{__name__}.json"
"""Key of the contexts' shared values: whether answers are wanted in JSON."""


class HostGroup(CommandGroup):
    """The command `aisrv-host`: with --json each error is an object on standard output as well."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a subcommand, which takes --json with its own options."""
        _accept_json(cmd)
        super().add_command(cmd, name)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        """Read the arguments before the subcommand, and whether --json is among all of them."""
        wanted = JSON in takewhile("--".__ne__, args)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            if wanted:
                _answer_error(error, error.exit_code)
            raise
        context.meta[_WANTED] = wanted
        return context

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if json_wanted(ctx):
                _answer_error(error, error.exit_code)
            raise

    def show_error(self, context: click.Context, error: Exception, code: int) -> None:
        """Print an error in one line on standard error; with --json as an object on standard output, too."""
        if json_wanted(context):
            _answer_error(error, code)
        super().show_error(context, error, code)

    def show_interrupt(self, context: click.Context) -> None:
        """Say with --json that Ctrl-C ended the command."""
        if json_wanted(context):
            _print_error("Interrupted", "interrupted", INTERRUPTED, {})


def json_wanted(context: click.Context) -> bool:
    """Return whether --json is among the arguments, before the subcommand or after it."""
    return bool(context.meta.get(_WANTED))


def _accept_json(command: click.Command) -> None:
    """Let a command, and those below it, take --json; the group has read it already."""
    help_text = "Answer in JSON; also before the subcommand."
    command.params.append(click.Option([JSON], is_flag=True, expose_value=False, help=help_text))
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _accept_json(each)


def _answer_error(error: Exception, code: int) -> None:
    from host_tools.errors import CommandError

    details: dict[str, object] = {}
    if isinstance(error, CommandError):
        details = {
            "command": error.command,
            "engine": error.engine,
            "tensor": error.tensor,
            "status": [bit.name for bit in error.status],
            "log": error.log.splitlines(),
        }
    message = error.format_message() if isinstance(error, click.ClickException) else str(error)
    kind = click.UsageError if isinstance(error, click.UsageError) else type(error)
    _print_error(kind.__name__, " ".join(message.split()), code, details)


def _print_error(kind: str, message: str, code: int, details: Mapping[str, object]) -> None:
    answer = {"error": {"kind": kind, "message": message, "exit_code": code, **details}}
    click.echo(json.dumps(answer, indent=2))
