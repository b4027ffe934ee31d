"""Pages of the manual: the commands and files on them, and whether output is what a page shows.

What a page can say:

- A block ``console`` has commands, each behind `$ `, its further lines behind `> `, and below each what it
  prints. `...` stands for anything. A command that fails is followed by `$ echo $?`, which shows its code.
- A command that ends in `&` goes on in the background. It has started when it has printed what is shown.
  `kill $!` ends it.
- A block with a title, as in ```python title="host.py"```, is a file of that name.
- A comment `<!-- needs: gcc, python:unicorn, file:/usr/include/x.h, examples -->` names programs, Python
  packages and files that the page cannot do without, and the folder of the examples, which is put beside the
  reader.
- Blocks ``sh`` are for what a test cannot do: installing, becoming root, hardware.
"""

import difflib
import doctest
import importlib.util
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

MASKS: Final = (
    (re.compile(r"\bin [\d.,]+ m?s\b"), "in 1.0 ms"),
    (re.compile(r"\b\d[\d.,]* [MkG]B/s"), "1 MB/s"),
    (re.compile(r"^ *\d+ +\d+\.\d{9} ", re.MULTILINE), "1 0.000000000 "),  # tshark's packets
)
"""What differs from run to run."""
LOGGED: Final = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (.*\n)", re.MULTILINE)
"""A line of a device's log, which comes between the lines of other programs as it happens."""

_TITLE: Final = re.compile(r'title="([^"]+)"')
_NEEDS: Final = re.compile(r"^<!-- needs: (.+) -->$", re.MULTILINE)


class PageError(AssertionError):
    """A page shows something else than what a reader sees."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    line: int
    """The number of its first line, within the fence, from 1."""
    language: str
    title: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command and the output that is shown below it."""

    line: int
    text: str
    shown: str
    end: int
    """The number of the line behind the output."""

    @property
    def background(self) -> bool:
        """Whether the shell does not wait for its end."""
        return self.text.endswith("&")


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its blocks."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> "Page":
        """Read a page of the checkout."""
        return cls(path, path.read_text(encoding="utf-8"))

    def blocks(self) -> Iterator[Block]:
        """Yield the fenced blocks in their order, those in lists too."""
        for token in MarkdownIt().parse(self.text):
            if token.type == "fence" and token.map is not None:
                title = _TITLE.search(token.info)
                language = token.info.partition(" ")[0]
                yield Block(token.map[0] + 2, language, title and title[1], token.content)

    def needs(self) -> list[str]:
        """Return what the page's comment names."""
        found = _NEEDS.search(self.text)
        return [need.strip() for need in found[1].split(",")] if found else []

    def missing(self) -> str | None:
        """Return the first thing that the page needs and this machine lacks."""
        return next((need for need in self.needs() if not _is_there(need)), None)


def commands_of(block: Block) -> Iterator[Command]:
    """Yield the commands of a block ``console``."""
    lines = block.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    if not starts or starts[0]:
        raise PageError(f"line {block.line}: a block `console` begins with a command, behind `$ `")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        typed = [lines[start][2:]]
        for line in lines[start + 1 : end]:
            if not line.startswith("> "):
                break
            typed.append(line[2:])
        shown = lines[start + len(typed) : end]
        yield Command(block.line + start, "\n".join(typed), "\n".join(shown), block.line + end)


def compare(command: Command, output: str) -> None:
    """Raise a PageError with the difference where a command printed something else than shown."""
    if not matches(command, output):
        shown, seen = (_plain(text).splitlines() for text in (command.shown, output))
        difference = "\n".join(difflib.unified_diff(shown, seen, "shown", "seen", lineterm=""))
        raise PageError(f"line {command.line}: `{command.text}` does not print what is shown:\n{difference}")


def matches(command: Command, output: str) -> bool:
    """Whether output is what a page shows, but for what the masks cover and `...` stands for.

    What goes on in the background may print its lines in any order.
    """
    if not command.background:
        return _is_shown(_plain(command.shown), _plain(output))
    left = _plain(output).splitlines(keepends=True)
    for line in _plain(command.shown).splitlines(keepends=True):
        found = next((each for each in left if _is_shown(line, each)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _is_shown(shown: str, output: str) -> bool:
    return doctest.OutputChecker().check_output(shown, output, doctest.ELLIPSIS)


def _plain(text: str) -> str:
    for pattern, sample in MASKS:
        text = pattern.sub(sample, text)
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    logged = sorted(LOGGED.findall(text))
    return LOGGED.sub("", text).strip("\n") + "\n" + "".join(logged)


def updated(page: Page, seen: Iterable[tuple[Command, str]]) -> str:
    """Return a page's text with the output of the commands that printed something else than it shows."""
    lines = page.text.splitlines()
    for command, output in reversed(list(seen)):
        if not matches(command, output):
            start = command.line + command.text.count("\n")
            lines[start : command.end - 1] = [line.rstrip() for line in output.strip("\n").splitlines()]
    return "\n".join(lines) + "\n"


def _is_there(need: str) -> bool:
    kind, _, name = need.rpartition(":")
    if kind == "python":
        return importlib.util.find_spec(name) is not None
    if kind == "file":
        return Path(name).exists()
    return need == "examples" or shutil.which(need) is not None
