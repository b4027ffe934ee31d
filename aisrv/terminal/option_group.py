"""Groups of command-line options: a command takes each group as one value of a dataclass.

    @dataclass(frozen=True, slots=True)
    class UsbOptions:
        pcap: Path | None = option("--pcap", type=FILE, help="Capture file.")

    @click.command()
    @option_group("usb", UsbOptions)
    def run(usb: UsbOptions) -> None: ...

A field declares its option once: flags, type, default and help. The help of a `GroupedCommand` lists the
options of each group under its title.
"""

from collections.abc import Callable
from dataclasses import field, fields
from enum import Enum
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")

_OPTION: Final = "option"
"""Key of a field's metadata with the decorator of its option."""


def option(*flags: str, default: Any = None, **attributes: Any) -> Any:  # noqa: ANN401 - as click's and dataclass's own
    """Declare a field of an option group; flags and attributes are those of `click.option`."""
    return field(default=default, metadata={_OPTION: (flags, attributes | {"default": default})})


def enum_option(*flags: str, default: Enum, **attributes: Any) -> Any:  # noqa: ANN401 - as `option`
    """Declare a field of an option group that is a member of an enum; users give the member's value."""
    kind = type(default)
    attributes |= {
        "type": click.Choice([member.value for member in kind]),
        "default": default.value,
        "callback": lambda _context, _parameter, value: kind(value),
    }
    return field(default=default, metadata={_OPTION: (flags, attributes)})


class GroupedOption(click.Option):
    """An option with the title of its group."""

    def __init__(self, *arguments: Any, group_title: str, **attributes: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*arguments, **attributes)
        self.group_title: Final = group_title


class GroupedCommand(click.Command):
    """A command whose help lists the options of each group under its title, and those of no group last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        single: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or isinstance(parameter, click.Argument):
                continue  # the usage and the text have the arguments
            if isinstance(parameter, GroupedOption):
                sections.setdefault(parameter.group_title, []).append(record)
            else:
                single.append(record)
        for title, records in (*sections.items(), ("Options", single)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def option_group(
    parameter: str, group: type[Any], title: str | None = None
) -> Callable[[Callable[P, R]], Callable[..., R]]:
    """Add the options of a dataclass to a command, which gets their values as one argument of that class.

    The help lists them under `title` in the order of the fields. Fields without an option keep defaults.
    """
    options = {each.name: each.metadata[_OPTION] for each in fields(group) if _OPTION in each.metadata}

    def add_options(function: Callable[P, R]) -> Callable[..., R]:
        @wraps(function)
        def command(*arguments: Any, **values: Any) -> R:  # noqa: ANN401 - whatever click passes
            values[parameter] = group(**{name: values.pop(name) for name in options})
            return function(*arguments, **values)

        for name, (flags, attributes) in reversed(options.items()):
            own = title or f"{parameter.capitalize()} options"
            click.option(*flags, name, cls=GroupedOption, group_title=own, **attributes)(command)
        return command

    return add_options
