"""A page of the manual, followed as a reader follows it: files are written, commands typed, output compared.

All commands of a page share one shell. `python -m tests.support.page_session PAGE ...` writes what commands
print into a page; `manual_page.py` says what a page may contain.
"""

import codecs
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from tests.support.manual_page import Block, Command, Page, PageError, commands_of, matches, updated
from tests.support.paths import ROOT

SECONDS: Final = 60
"""After so long a command hangs."""
UPDATE_SECONDS: Final = 5
"""The same while a page is updated: what a command in the background has printed by then is all."""
WIDTH: Final = 80
"""Columns of the reader's terminal."""
PORT: Final = 3240
"""The port of `aisrv run` that pages show."""
PORTS: Final = (PORT, 3241, 3242, 8081, 8082, 8786, 8787)
"""All ports that pages show: USB/IP, SPI, flash programmer, Jacdac, Dask. Each test has its own instead."""
RUN: Final = {
    "aisrv run": f"aisrv run --port {PORT}",
    "aisrv fleet up 2": "aisrv fleet up 2 --port 8786 --dashboard-port 8787",
    "--jacdac": "--jacdac --jacdac-websocket-port 8081 --jacdac-port 8082",
}
"""What devices and clusters listen on unless they are told otherwise; no other page's may be there."""
HOME: Final = "/home/you"
"""The folder, as pages show it."""

_MARK: Final = "the command has ended with"
_ENDED: Final = re.compile(rf"{_MARK} (\d+)\n")


class Shell:
    """A shell in a folder, which tells what each command printed."""

    def __init__(self, process: trio.Process, folder: Path, ports: Mapping[int, int], seconds: float) -> None:
        self._process = process
        self._folder = folder
        self._ports = ports
        self._seconds = seconds
        self._received = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    async def run(self, command: Command) -> tuple[str, int]:
        """Run a command; return its output, and its exit code, or 0 where it goes on in the background."""
        typed = command.text
        if typed.startswith(("aisrv run", "aisrv fleet")):
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
        self._received += self._decode(data)

    def _shown(self, output: str) -> str:
        of_page = {own: port for port, own in self._ports.items()}
        return _replaced(output, of_page, before=":").replace(str(self._folder), HOME)


def _replaced(text: str, numbers: Mapping[int, int], before: str = "") -> str:
    """Return a text with some numbers replaced by others, where they stand behind `before`."""
    wanted = re.compile(rf"(?<={before})\b({'|'.join(map(str, numbers))})\b")
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
            with suppress(ProcessLookupError):
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
