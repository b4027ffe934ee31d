"""The status on a real terminal: what is left on it, log lines, Ctrl-C; and where there is no terminal."""

import os
import re
import select
import socket
import subprocess
import sys
import termios
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from aisrv.cli.options.status import StatusOptions, status_options
from tests.support.programs import AISRV

PATIENCE = 120.0
"""Seconds after which a test gives up: none should need them, however busy the machine."""

PROGRAM = """
import fcntl, logging, signal, sys, termios
import trio
from aisrv.attach.inprocess import InProcessHost
from aisrv.cli.options.status import StatusOptions, show, watch_devices
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.terminal.log_writer import LogWriter

fcntl.ioctl(1, termios.TIOCSCTTY, 0)
logging.basicConfig(handlers=[LogWriter(sys.stderr.fileno())], format="%(name)s: %(message)s")

async def main():
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async with open_device(runner=inline) as device, trio.open_nursery() as nursery:
            options = StatusOptions(status=True)
            with watch_devices([device], [device.usb], {"0.0": device.spi}, options) as watched:
                print("ready", flush=True)
                nursery.start_soon(show, watched)

                async def obey():
                    lines = trio.lowlevel.FdStream(0)
                    async for line in lines:
                        if line == b"ask for the id\\n":
                            host = InProcessHost(watched.usb[0])
                            await host.plug_in()
                            await host.write(bytes((0x10, 0, 0)))
                            await lines.send_all(await host.read(512))
                        else:
                            logging.getLogger("engine").warning("heard %s", line.decode().strip())
                            print("printed", flush=True)

                nursery.start_soon(obey)
                async for _ in signals:
                    nursery.cancel_scope.cancel()

trio.run(main)
print("ended", flush=True)
"""
IDLE = (
    "aiengine 0  select           usb_data, spi_buffer of tile 1",
    "spi_buffer  select           spi_slave of tile 1 or aiengine 0 of tile 0",
    "spi 0.0    0 bytes/s    0 bytes/s        0/s             0",
)
"""What a view of an idle device has, up to its end."""
HIDE, SHOW, ALTERNATE = "\x1b[?25l", "\x1b[?25h", "\x1b[?1049h"


@dataclass
class Screen:
    """Lines of a terminal, by the few sequences that the view may use; any other is an error."""

    rows: int
    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0
    cursor: bool = True

    def write(self, text: str) -> None:
        for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[^\x1b]", text):
            self._put(part)

    def _put(self, part: str) -> None:
        if part == "\r":
            self.column = 0
        elif part == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
        elif part == "\x1b[2K":
            self.lines[self.row] = ""
        elif part == "\x1b[1A":
            self.row = max(self.row - 1, len(self.lines) - self.rows, 0)  # others have scrolled away
        elif part in (HIDE, SHOW):
            self.cursor = part == SHOW
        elif len(part) == 1 or not part.endswith("m"):
            assert part.isprintable(), repr(part)
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + part + line[self.column + 1 :]
            self.column += 1

    @property
    def text(self) -> list[str]:
        """Lines up to the last that is not empty."""
        used = max(row for row, line in enumerate(self.lines) if line.strip() or not row)
        return [line.rstrip() for line in self.lines[: used + 1]]


class Terminal:
    """A program on a pseudo-terminal of 100 columns, and a socket on which it takes lines."""

    def __init__(self, rows: int, command: Sequence[str] = (sys.executable, "-c", PROGRAM)) -> None:
        self.master, slave = os.openpty()
        termios.tcsetwinsize(self.master, (rows, 100))
        self._rows = rows
        self.before = termios.tcgetattr(self.master)
        self.written = ""
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(20)
        environment = os.environ | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
        for variable in ("COLUMNS", "LINES"):  # they override its size, and pytest-xdist's workers have them
            environment.pop(variable, None)
        self.process = subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        os.close(slave)

    @property
    def after(self) -> object:
        return termios.tcgetattr(self.master)

    @property
    def screen(self) -> Screen:
        screen = Screen(self._rows)
        screen.write(self.written)
        return screen

    def read_until(self, *wanted: str, more: bool = False) -> None:
        """Read until each of `wanted` is in some line on the screen; with `more` something new at least."""
        end = time.monotonic() + PATIENCE
        if more:
            assert select.select([self.master], [], [], PATIENCE)[0], self.written
            self.written += os.read(self.master, 65536).decode()
        while not all(any(each in line for line in self.screen.text) for each in wanted):
            assert select.select([self.master], [], [], max(0, end - time.monotonic()))[0], self.written
            try:
                self.written += os.read(self.master, 65536).decode()
            except OSError:  # nobody has the terminal open any more
                pytest.fail(f"the program has ended: {self.written}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()
        os.close(self.master)


@pytest.fixture(scope="module")
def idle() -> Iterator[Terminal]:
    """One for all tests that only look."""
    with closing(Terminal(rows=30)) as opened:
        opened.read_until(*IDLE)
        yield opened


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with closing(Terminal(rows=30)) as opened:
        opened.read_until(*IDLE)
        yield opened


def test_view_comes_after_the_ready_line_and_stays_on_the_screen(idle: Terminal) -> None:
    assert idle.screen.text[:4] == [
        "ready",
        "Device 1-1",
        "tile  core  task        call             waits for",
        "0     0     aiengine 0  select           usb_data, spi_buffer of tile 1",
    ]
    assert ALTERNATE not in idle.written


def test_log_lines_and_output_go_above_the_view_whole(terminal: Terminal) -> None:
    view = terminal.screen.text[1:]
    above = ["ready"]
    for word in ("one", "two"):
        terminal.socket.send(f"{word}\n".encode())
        terminal.read_until(f"heard {word}", "printed", *IDLE)
        above += ["printed", f"engine: heard {word}"]  # output at once, log lines with the next drawing
        assert terminal.screen.text == [*above, *view]


def test_ctrl_c_ends_it_and_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    assert not terminal.screen.cursor
    os.write(terminal.master, b"\x03")
    terminal.read_until("ended")
    assert terminal.process.wait(60) == 0
    assert terminal.screen.text == ["ready", "ended"]
    assert terminal.screen.cursor
    assert terminal.after == terminal.before


def test_it_falls_silent_while_nothing_changes(idle: Terminal) -> None:
    writes = 0
    while writes < 5 and select.select([idle.master], [], [], 0.6)[0]:  # more than two refreshes
        os.read(idle.master, 65536)
        writes += 1
    assert writes <= 2


def test_device_answers_while_the_terminal_takes_nothing(terminal: Terminal) -> None:
    os.write(terminal.master, b"\x13")  # Ctrl-S
    for _ in range(2):
        terminal.socket.send(b"ask for the id\n")
        assert terminal.socket.recv(512) == bytes.fromhex("78563412")
        time.sleep(0.6)  # the view would be drawn again, as the counts have changed
    os.write(terminal.master, b"\x03")
    terminal.read_until("ended")
    assert terminal.process.wait(60) == 0


LOWER = pytest.mark.long("the lowest is wiped every day")


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        pytest.param(8, "1-1", marks=LOWER),
        pytest.param(3, "1-1", marks=LOWER),
        (2, "..."),
    ],
)
def test_view_of_a_low_terminal_is_wiped_off_too(rows: int, shown: str) -> None:
    with closing(Terminal(rows)) as terminal:
        terminal.read_until(shown)
        os.write(terminal.master, b"\x03")
        terminal.read_until("ended")
        assert terminal.screen.text == ["ready", "ended"]


def test_camera_classifies_by_itself_and_shows_classes_by_name(digits_file: Path) -> None:
    with zipfile.ZipFile(digits_file, "a") as archive:
        archive.writestr("labels.txt", "".join(f"digit-{number}\n" for number in range(10)))
    words = ("run", "--board", "camera", "--port", "0", "--model", str(digits_file), "--status")
    with closing(Terminal(40, (*AISRV, *words))) as terminal:
        terminal.read_until("digit-")
        lines = [each for each in terminal.screen.text if "digit-" in each]
        counts = {int(lines[0].split()[4].replace(",", ""))}
        while len(counts) < 3:  # it goes on, without a host
            terminal.read_until("digit-", more=True)
            (line,) = (each for each in terminal.screen.text if "digit-" in each)
            counts.add(int(line.split()[4].replace(",", "")))
    assert re.search(r"  digit-\d: -?\d+  digit-\d: -?\d+", line)


def test_many_devices_have_a_line_each() -> None:
    with closing(Terminal(12, (*AISRV, "run", "--port", "0", "--devices", "30", "--status"))) as terminal:
        terminal.read_until("more devices are not shown")
        lines = terminal.screen.text
    first = next(number for number, line in enumerate(lines) if line.startswith("device "))
    assert lines[first] == ("device       models  inferences  commands/s  from device  classes  state")
    assert lines[first + 1] == ("1-1 AISRV-1  0 of 1           0           0    0 bytes/s  -        ok")
    assert lines[first + 8].startswith("1-8 AISRV-8 ")
    assert lines[first + 9] == "22 more devices are not shown"


@click.command()
@status_options
def command(status: StatusOptions) -> None:
    """Show the options."""
    click.echo(repr(status))


def test_status_without_a_terminal_is_a_usage_error() -> None:
    said = CliRunner().invoke(command, ["--status"])
    assert said.exit_code == 2
    assert said.output.endswith(
        "Error: --status needs a terminal, and standard output is not one that it can draw on\n"
    )


def test_options_are_values() -> None:
    said = CliRunner().invoke(command, ["--gpio-vcd", "leds.vcd", "-vv", "--dump-tensors", "folder"])
    values = "gpio_vcd=PosixPath('leds.vcd'), tensor_folder=PosixPath('folder'), verbose=2"
    trace = "trace=None, trace_level='runs', trace_ring=None, trace_limit=None, xscope=None"
    assert said.output == f"StatusOptions({trace}, status=False, json=False, {values})\n"
