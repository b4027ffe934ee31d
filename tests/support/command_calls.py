"""Calls of a command within this process."""

from dataclasses import dataclass

import click
from click.testing import CliRunner, Result


@dataclass(frozen=True)
class CommandCalls:
    """What a command does with some arguments."""

    command: click.Command

    def call(self, *arguments: object) -> Result:
        return CliRunner().invoke(self.command, [str(argument) for argument in arguments])

    def done(self, *arguments: object) -> str:
        """Return what it prints; it must end well and say nothing on stderr."""
        result = self.call(*arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    def failed(self, code: int, *arguments: object) -> str:
        """Return what it says on stderr; it must end with that code and print nothing."""
        result = self.call(*arguments)
        assert (result.exit_code, result.stdout) == (code, "")
        return result.stderr
