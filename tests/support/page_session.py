"""A page of the manual, followed as a reader follows it: files are written, commands typed, output compared.

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

All commands of a page share one shell. `python -m tests.support.page_session PAGE ...` writes what commands
print into a page.
"""

import difflib
import doctest
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio
from markdown_it import MarkdownIt

from tests.support.paths import ROOT

SECONDS: Final = 60
"""After so long a command hangs."""
UPDATE_SECONDS: Final = 5
"""The same while a page is updated: what a command in the background has printed by then is all."""
WIDTH: Final = 80
"""Columns of the reader's terminal."""
PORT: Final = 3240
"""The port of `aisrv run` that pages show."""
PORTS: Final = (PORT, 3241, 3242, 8081, 8082)
"""All ports that pages show: USB/IP, SPI, flash programmer, Jacdac. Each test has its own instead of them."""
RUN: Final = {
    "aisrv run": f"aisrv run --port {PORT}",
    "--jacdac": "--jacdac --jacdac-websocket-port 8081 --jacdac-port 8082",
}
"""What a device listens on unless it is told otherwise, as options; no other page's device may be there."""
HOME: Final = "/home/you"
"""The folder, as pages show it."""
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
_MARK: Final = "the command has ended with"
_ENDED: Final = re.compile(rf"{_MARK} (\d+)\n")


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


class Shell:
    """A shell in a folder, which tells what each command printed."""

    def __init__(self, process: trio.Process, folder: Path, ports: Mapping[int, int], seconds: float) -> None:
        self._process = process
        self._folder = folder
        self._ports = ports
        self._seconds = seconds
        self._received = ""

    async def run(self, command: Command) -> tuple[str, int]:
        """Run a command; return its output, and its exit code, or 0 where it goes on in the background."""
        typed = command.text
        if typed.startswith("aisrv run"):
            for words, with_ports in RUN.items():
                typed = re.sub(rf"{words}(?= )", with_ports, typed)
        ending = "\nwait" if typed.startswith("kill $!") else ""
        typed = self.with_own_ports(typed)
        assert self._process.stdin is not None
        script = f'{{ {typed}{ending}\n}} </dev/null; code=$?; echo "{_MARK} $code"; (exit $code)\n'
        await self._process.stdin.send_all(script.encode())
        with trio.move_on_after(self._seconds if command.background else SECONDS):
            while not (ended := _ENDED.search(self._received)):
                await self._receive(command)
            output = self._received[: ended.start()] + self._received[ended.end() :]
            while command.background and not matches(command, self._shown(output)):
                self._received = ""
                await self._receive(command)
                output += self._received
            self._received = ""
            return self._shown(output), 0 if ending else int(ended[1])
        if command.background:
            return self._shown(output), 0
        raise PageError(f"line {command.line}: `{command.text}` takes longer than {SECONDS} s")

    def with_own_ports(self, text: str) -> str:
        """Return a text of a page with the ports that the devices of this shell have."""
        return _replaced(text, self._ports)

    async def jobs(self) -> str:
        """Return the jobs that go on in the background."""
        return (await self.run(Command(0, "jobs -r", "", 0)))[0]

    async def _receive(self, command: Command) -> None:
        assert self._process.stdout is not None
        data = await self._process.stdout.receive_some()
        if not data:
            raise PageError(f"line {command.line}: `{command.text}` ended the shell: {self._received}")
        self._received += data.decode(errors="replace")

    def _shown(self, output: str) -> str:
        shown = _replaced(output, {own: port for port, own in self._ports.items()})
        return shown.replace(f" --port {PORT}", "").replace(str(self._folder), HOME)


def _replaced(text: str, numbers: Mapping[int, int]) -> str:
    """Return a text with some numbers replaced by others."""
    wanted = re.compile(rf"\b({'|'.join(map(str, numbers))})\b")
    return wanted.sub(lambda found: str(numbers[int(found[0])]), text)


@asynccontextmanager
async def open_shell(folder: Path, seconds: float = SECONDS) -> AsyncIterator[Shell]:
    """Open a shell in a folder, with the project's commands; what it has started ends with it."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AISRV", "PYTEST", "COV"))
    }
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "COLUMNS": str(WIDTH),
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
    }
    with ExitStack() as held:
        ports = {port: held.enter_context(free_port()) for port in PORTS}
        process = await trio.lowlevel.open_process(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            yield Shell(process, folder, ports, seconds)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await process.wait()


@contextmanager
def free_port() -> Iterator[int]:
    """Hold a free port: whoever asks for any port does not get it, and who names it does."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


async def follow(
    page: Page, folder: Path, seen: Callable[[Command, str], None], seconds: float = SECONDS
) -> None:
    """Follow a page in an empty folder; each command with what it printed goes to `seen`.

    A PageError tells of a command that fails where the page does not show it, and of one that nothing ends.
    """
    if "examples" in page.needs():
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=without)
    async with open_shell(folder, seconds) as shell:
        for block in page.blocks():
            if block.title:
                path = folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(shell.with_own_ports(block.text), encoding="utf-8")
            elif block.language == "console":
                await _type(block, shell, seen)
        if jobs := await shell.jobs():
            raise PageError(f"these commands still run at the end of the page:\n{jobs}")


async def _type(block: Block, shell: Shell, seen: Callable[[Command, str], None]) -> None:
    commands = list(commands_of(block))
    for command, after in zip(commands, [*commands[1:], None], strict=True):
        output, code = await shell.run(command)
        seen(command, output)
        if code and not (after and after.text == "echo $?"):
            raise PageError(
                f"line {command.line}: `{command.text}` ends with exit code {code}, "
                f"which no `$ echo $?` shows:\n{output}"
            )


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


def _is_there(need: str) -> bool:
    kind, _, name = need.rpartition(":")
    if kind == "python":
        return importlib.util.find_spec(name) is not None
    if kind == "file":
        return Path(name).exists()
    return need == "examples" or shutil.which(need) is not None


def updated(page: Page, seen: Iterable[tuple[Command, str]]) -> str:
    """Return a page's text with the output of the commands that printed something else than it shows."""
    lines = page.text.splitlines()
    for command, output in reversed(list(seen)):
        if not matches(command, output):
            start = command.line + command.text.count("\n")
            lines[start : command.end - 1] = [line.rstrip() for line in output.strip("\n").splitlines()]
    return "\n".join(lines) + "\n"


async def update(path: Path) -> None:
    """Write what the commands of a page print into the page."""
    page = Page.read(path)
    seen: list[tuple[Command, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            await follow(page, Path(folder), lambda *each: seen.append(each), UPDATE_SECONDS)
        finally:
            await trio.Path(path).write_text(updated(page, seen), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        trio.run(update, Path(name))
