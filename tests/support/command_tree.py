"""The commands of a program."""

from collections.abc import Iterator

import click


def commands_of(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The commands of a group and of the groups below it, each with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands_of(command, *path, name)
        else:
            yield (*path, name), command
