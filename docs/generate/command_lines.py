"""The commands and their options, from the programs themselves."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from aisrv.terminal.option_group import GroupedCommand, GroupedOption
from aisrv.terminal.require_linux import requires_linux
from docs.generate.markdown import code, plain, table

_NUMBERS: Final = {"INTEGER RANGE": "N", "FLOAT RANGE": "X", "INTEGER": "N", "FLOAT": "X"}
"""What the pages call the values of options that click names by their types."""
_EXTRA: Final = re.compile(r"\s*\[([^\[\]]*)\]$")
"""What a help text ends with: the default, the variable, the range."""
_RANGES: Final = (
    (re.compile(r"([\d.]+)<=x<=([\d.]+)"), "{} to {}."),
    (re.compile(r"([\d.]+)<x<=([\d.]+)"), "Above {}, up to {}."),
    (re.compile(r"x>=([\d.]+)"), "{} or more."),
    (re.compile(r"x>([\d.]+)"), "Above {}."),
)
"""The ranges of numbers as click writes them, and in words."""
_VERBATIM: Final = "\b"
"""Begins a paragraph that click keeps as it is, and so do these pages."""


def program(main: click.Command, name: str) -> str:
    """Return the reference of a program: each of its commands with usage, text, arguments and options."""
    return "\n\n".join(block for path, command in _commands(main, name) for block in _section(path, command))


def linux_commands(main: click.Command, name: str) -> str:
    """Return the commands of a program that need Linux, with what they do."""
    rows = [
        (code(path), plain(command.get_short_help_str(limit=200)))
        for path, command in _commands(main, name)
        if requires_linux(command)
    ]
    return table(("needs Linux", "does"), rows)


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _commands(inner, f"{path} {name}")


def _section(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"## `{path}`"
    yield f"```\n{path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    if isinstance(command, click.Group):
        inner = [each for each in _commands(command, path) if each[0].count(" ") == path.count(" ") + 1]
        rows = [
            (f"[`{each}`](#{each.replace(' ', '-')})", plain(found.get_short_help_str(limit=200)))
            for each, found in inner
        ]
        yield table(("command", "does"), rows)
    for title, options in _groups(command).items():
        yield table((title, "meaning", "default"), [_row(each, context) for each in options])
    yield from _paragraphs(command.epilog or "")


def _groups(command: click.Command) -> dict[str, list[click.Option]]:
    """The options by the titles under which the help lists them; those of no group last."""
    titled: dict[str, list[click.Option]] = {}
    single: list[click.Option] = []
    for option in command.params:
        if isinstance(command, GroupedCommand) and isinstance(option, GroupedOption):
            titled.setdefault(option.group_title, []).append(option)
        elif isinstance(option, click.Option):
            single.append(option)
    return titled | ({"Options": single} if single else {})


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    flags, text = option.get_help_record(context) or ("", "")
    for long, short in _NUMBERS.items():
        flags = flags.replace(f" {long}", f" {short}")
    facts: list[str] = []
    while extra := _EXTRA.search(text):
        text = text[: extra.start()]
        facts += extra[1].split("; ")
    default = "; ".join(fact.removeprefix("default: ") for fact in facts if _note(fact) is None)
    notes = filter(None, map(_note, facts))
    return code(flags), plain(" ".join((text, *notes))), plain(default.replace("required", "must be given"))


def _note(fact: str) -> str | None:
    """Return a range or a variable in words; None for a default."""
    if fact.startswith("env var: "):
        return f"The variable `{fact.removeprefix('env var: ')}` gives it, too."
    for pattern, words in _RANGES:
        if bounds := pattern.fullmatch(fact):
            return words.format(*(f"{float(bound):g}" for bound in bounds.groups()))
    return None


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help text; what click keeps as it is becomes a block of code."""
    for paragraph in re.split(r"\n\s*\n", re.sub(r"\f.*", "", text, flags=re.DOTALL).strip()):
        if not paragraph.lstrip(" ").startswith(_VERBATIM):
            if paragraph:
                yield plain(paragraph)
            continue
        lines = paragraph.replace(_VERBATIM, "").strip("\n").splitlines()
        if lines and not lines[0].startswith("  ") and lines[0].endswith(":"):
            yield lines.pop(0)
        if any(line.startswith("  ") for line in lines):
            yield "```\n" + "\n".join(line.removeprefix("  ") for line in lines) + "\n```"
        else:
            yield plain(" ".join(lines))
