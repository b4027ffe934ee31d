"""Pictures of a terminal: what a program shows on a pseudo-terminal, as SVG."""

import io
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from fcntl import ioctl
from itertools import groupby
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Final

import pyte
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROWS: Final = 200
"""Rows of the terminal: more than any picture has."""
FONTS: Final = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)
SVG_FORMAT: Final = FONTS.sub("", CONSOLE_SVG_FORMAT).replace(
    "Fira Code", "DejaVu Sans Mono, Menlo, Consolas"
)
"""Rich's SVG without the fonts that it would load from other machines."""
COLORS: Final = {"brown": "yellow", "default": "default"}


def terminal_picture(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    columns: int,
    until: str | None = None,
    last: str | None = None,
) -> str:
    """Run a command in a folder and return its screen as SVG, below the command as it is typed.

    With `until`, the picture is that of the first screen that this pattern matches, and the command is ended.
    `last` matches the last line of the picture: below it are figures of the machine that makes it.
    """
    screen = _run(command, folder, environment, columns, until)
    lines = [Text(f"$ {shlex.join(command)}", Style(bold=True)), *_lines(screen)]
    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop", crop=True)
        if last is not None and re.match(last, line.plain):
            break
    return console.export_svg(title="", code_format=SVG_FORMAT, unique_id="terminal")


def _run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], columns: int, until: str | None
) -> pyte.Screen:
    screen = pyte.Screen(columns, ROWS)
    stream = pyte.ByteStream(screen)
    master, slave = pty.openpty()
    ioctl(slave, TIOCSWINSZ, struct.pack("4H", ROWS, columns, 0, 0))
    variables = {**environment, "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=variables, start_new_session=True
    ) as process:
        os.close(slave)
        try:
            for data in _received(master):
                stream.feed(data)
                if until is not None and re.search(until, "\n".join(screen.display)):
                    break
        finally:
            os.close(master)
            if process.poll() is None and until is not None:
                process.send_signal(signal.SIGTERM)
    if until is None and process.returncode:
        raise RuntimeError(f"{shlex.join(command)} ended with {process.returncode}")
    return screen


def _received(terminal: int) -> Iterator[bytes]:
    """Yield what comes to a terminal until nobody has its other side."""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # EIO: the other side is closed
            return
        if not data:
            return
        yield data


def _lines(screen: pyte.Screen) -> list[Text]:
    """Return the rows of a screen down to the last one with something in it."""
    lines = []
    for row in range(screen.lines):
        cells = [screen.buffer[row][column] for column in range(screen.columns)]
        line = Text()
        for style, run in groupby(cells, _style):
            line.append("".join(cell.data for cell in run), style)
        line.rstrip()
        lines.append(line)
    while lines and not lines[-1].plain:
        lines.pop()
    return lines


def _style(cell: pyte.screens.Char) -> Style:
    return Style(
        color=_color(cell.fg),
        bgcolor=_color(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _color(name: str) -> str | None:
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    name = COLORS.get(name, name).replace("bright", "bright_")
    return None if name == "default" else name
