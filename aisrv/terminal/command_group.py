"""A group of commands that turns a library's errors into one line on stderr and an exit code."""

from collections.abc import Mapping
from typing import Final

import click

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells have it."""


class CommandGroup(click.Group):
    """A command with subcommands; of `exit_codes` the first kind that fits an error counts."""

    exit_codes: Mapping[type[Exception], int] = {}

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except tuple(self.exit_codes) as error:
            code = next(code for kind, code in self.exit_codes.items() if isinstance(error, kind))
            self.show_error(ctx, error, code)
            ctx.exit(code)
        except KeyboardInterrupt:
            self.show_interrupt(ctx)
            ctx.exit(INTERRUPTED)

    def show_error(self, _context: click.Context, error: Exception, _code: int) -> None:
        """Print an error in one line on standard error."""
        click.echo(f"{self.name}: {' '.join(str(error).split())}", err=True)

    def show_interrupt(self, _context: click.Context) -> None:
        """Say nothing after Ctrl-C: whoever pressed it knows."""


def examples(*lines: str) -> str:
    """Return the end of a help text: commands to copy, kept as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
