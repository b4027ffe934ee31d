"""Groups of commands that answer errors in JSON, too, if --json is among the arguments."""

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

import click

from aisrv.terminal.command_group import INTERRUPTED, CommandGroup, Group, os_error_text

JSON: Final = "--json"

_WANTED: Final = f"{__name__}.wanted"
"""Key of the contexts' shared values: whether answers are wanted in JSON."""


class JsonErrors(Group):
    """A command: with --json each error is an object on standard output, besides its line elsewhere."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        """Read the arguments before the subcommand, and whether JSON is wanted."""
        wanted = self.wants_json(list(takewhile("--".__ne__, args)))
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            if wanted:
                self.answer_error(error, error.exit_code)
            raise
        context.meta[_WANTED] = wanted
        return context

    def wants_json(self, words: Sequence[str]) -> bool:
        """Check whether --json is among the arguments, and the subcommand takes it."""
        if JSON not in words:
            return False
        command: click.Command = self
        for word in words:
            if word.startswith("-") or not isinstance(command, click.Group):
                continue
            found = command.get_command(click.Context(command), word)
            if found is None:
                return True
            command = found
        return any(JSON in parameter.opts for parameter in command.params)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if json_wanted(ctx):
                self.answer_error(error, error.exit_code)
            raise
        except OSError as error:
            if json_wanted(ctx) and error.filename is not None:  # else it is standard output that failed
                self.answer_error(error, 1)
            raise

    def answer_error(self, error: Exception, code: int) -> None:
        """Print an error as an object, with the process's exit code."""
        if isinstance(error, click.ClickException):
            kind = "UsageError" if isinstance(error, click.UsageError) else "Error"
            _print_error(kind, error.format_message(), code)
        else:
            message = os_error_text(error) if isinstance(error, OSError) else str(error)
            _print_error(type(error).__name__, message, code, self.error_details(error))

    def error_details(self, _error: Exception) -> Mapping[str, object]:
        """Return more fields of an error's object."""
        return {}

    def show_interrupt(self, context: click.Context) -> None:
        if json_wanted(context):
            _print_error("Interrupted", "interrupted", INTERRUPTED)


class JsonGroup(JsonErrors, CommandGroup):
    """A command whose subcommands all take --json, which may also stand before them."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        _accept_json(cmd)
        super().add_command(cmd, name)

    def wants_json(self, words: Sequence[str]) -> bool:
        return JSON in words

    def show_error(self, context: click.Context, error: Exception, code: int) -> None:
        if json_wanted(context):
            self.answer_error(error, code)
        super().show_error(context, error, code)


def json_wanted(context: click.Context) -> bool:
    """Check whether --json is among the arguments, before the subcommand or after it."""
    return bool(context.meta.get(_WANTED))


def _accept_json(command: click.Command) -> None:
    """Let a command, and those below it, take --json; the group has read it already."""
    help_text = "Answer in JSON; also before the subcommand."
    command.params.append(click.Option([JSON], is_flag=True, expose_value=False, help=help_text))
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _accept_json(each)


def _print_error(kind: str, message: str, code: int, details: Mapping[str, object] | None = None) -> None:
    answer = {"kind": kind, "message": " ".join(message.split()), "exit_code": code, **(details or {})}
    click.echo(json.dumps({"error": answer}))
