"""Groups of commands: suggestions for misspelled names, errors in one line, exit codes."""

import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

import click

from aisrv.values.printable import printable, printable_lines

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells have it."""

UNWRITABLE: Final = 1
"""Exit code where standard output takes no more."""


class Group(click.Group):
    """A command with subcommands.

    A closed standard output ends the command quietly, a full disk with one line, Ctrl-C with exit code
    INTERRUPTED.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,  # noqa: ANN401 - click's
    ) -> Any:  # noqa: ANN401
        """Run the command, and end the process."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        _show_any_character(sys.stdout)
        try:
            try:
                super().main(args, prog_name, complete_var, **extra)
            finally:
                sys.stdout.flush()  # or Python does at its end, with a traceback
                if args is None:
                    _end_at_once_by_ctrl_c()
                    gc.freeze()  # what the process leaves goes with it: no search of all modules for cycles
        except BrokenPipeError:
            _end_without_output()
        except OSError as error:
            click.echo(f"{self.name or 'command'}: {os_error_text(error)}", err=True)
            _end_without_output()

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = printable_lines(error.message)  # type: ignore[misc]  # which click means to be set
            raise
        except (KeyboardInterrupt, BaseExceptionGroup) as error:
            if ctx.parent is not None or not _is_interrupt(error):
                raise
            self.show_interrupt(ctx)
            ctx.exit(INTERRUPTED)

    def show_interrupt(self, _context: click.Context) -> None:
        """Say nothing after Ctrl-C: whoever pressed it knows."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; an unknown name is refused with the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0][:100], self.list_commands(ctx), 1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None
            raise


def _show_any_character(stream: TextIO) -> None:
    """Let a stream escape what it cannot encode, such as names of files that are no UTF-8."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
        stream.reconfigure(errors="backslashreplace")


def _is_interrupt(error: BaseException) -> bool:
    """Check whether Ctrl-C is among the errors; errors of the tasks that it ended come of it."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt) is not None
    )


def _end_at_once_by_ctrl_c() -> None:
    """Let Ctrl-C end a process that is ending already, in which Python would print a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end_without_output() -> NoReturn:
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(UNWRITABLE)


def os_error_text(error: OSError) -> str:
    """Describe an error of the operating system by the file that it is about."""
    if error.strerror is None:
        return str(error)
    return printable(f"{error.filename or 'standard output'}: {error.strerror}")


class CommandGroup(Group):
    """A command with subcommands; of `exit_codes` the first kind that fits an error counts."""

    exit_codes: Mapping[type[Exception], int] = {}

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except tuple(self.exit_codes) as error:
            code = next(code for kind, code in self.exit_codes.items() if isinstance(error, kind))
            self.show_error(ctx, error, code)
            ctx.exit(code)

    def show_error(self, _context: click.Context, error: Exception, _code: int) -> None:
        click.echo(f"{self.name}: {printable(' '.join(str(error).split()))}", err=True)


class LazyGroup(Group):
    """Loads a subcommand's module when the subcommand is used, from `places`: `module:name` and its help."""

    places: Mapping[str, tuple[str, str]] = {}
    former_places: Mapping[str, str] = {}
    """`module:name` by former names of subcommands, which work and are not listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        _ = ctx
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        _ = ctx
        place = self.places[cmd_name][0] if cmd_name in self.places else self.former_places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        if module not in sys.modules:
            with _without_collector():
                importlib.import_module(module)
        command: click.Command = getattr(sys.modules[module], attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without loading them."""
        _ = ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.places.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete the subcommands without loading them, and the options."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=line)
            for name, (_, line) in self.places.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the garbage collector from looking through modules, as they load and later: they leave none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def examples(*lines: str) -> str:
    """Return the end of a help text: commands to copy, kept as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
