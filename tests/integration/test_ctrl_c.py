"""Ctrl-C on a terminal ends every command with exit code 130, and without a traceback."""

import fcntl
import json
import os
import pty
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from aisrv import digits
from tests.support.command_tree import commands_of
from tests.support.oracles.interrupted_commands import CTRL_C, read
from tests.support.paths import ROOT
from tests.support.programs import run_process

BIN = Path(sys.executable).parent
# As users start them: `python -m` ends by the signal where Ctrl-C comes while Python reads a module.
AISRV, HOST, FLASH = [BIN / "aisrv"], [BIN / "aisrv-host"], [BIN / "aisrv-flash"]

MODULES = ("aisrv.cli.main", "host_tools.cli", "flash_server.cli")


@pytest.fixture(scope="module")
def interrupted() -> dict[str, dict[str, list[object]]]:
    """How the commands of each program end."""
    done = run_process(
        [sys.executable, "-m", "tests.support.oracles.interrupted_commands", *MODULES], cwd=ROOT
    )
    assert done.stderr == ""
    found: dict[str, dict[str, list[object]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_every_command_ends_with_130_and_without_a_word(
    module: str, interrupted: dict[str, dict[str, list[object]]]
) -> None:
    names = [" ".join(path) for path, _ in commands_of(import_module(module).main)]
    assert interrupted[module] == {name: [130, ""] for name in names}


class Terminal:
    """A command on a terminal of its own, which does not echo what is typed."""

    def __init__(self, process: "subprocess.Popen[bytes]", controller: int) -> None:
        self.process = process
        self.controller = controller

    def wait_for(self, text: str) -> None:
        output = read(self.controller, text.encode())
        assert text.encode() in output, output.decode()

    def wait_for_a_child(self) -> None:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not children.read_text():
            assert self.process.poll() is None

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; return the exit code, and what was printed from then on."""
        os.write(self.controller, CTRL_C)
        output = read(self.controller, None).decode()
        return self.process.wait(), output


@contextmanager
def on_a_terminal(command: Sequence[object]) -> Iterator[Terminal]:
    controller, terminal = pty.openpty()
    without_echo = termios.tcgetattr(terminal)
    without_echo[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, without_echo)
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    try:
        yield Terminal(process, controller)
    finally:
        process.kill()
        process.wait()
        os.close(controller)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    return path


@pytest.mark.parametrize(
    ("command", "begun"),
    [
        ([*AISRV, "run", "--port", "0"], "info\r\n"),
        ([*AISRV, "run", "--port", "0", "--status"], "engine"),
        ([*AISRV, "exec", "--", "sh", "-c", "echo at work; exec sleep 1000"], "at work\r\n"),
    ],
)
def test_a_device_that_runs(command: Sequence[object], begun: str) -> None:
    with on_a_terminal(command) as terminal:
        terminal.wait_for(begun)
        code, output = terminal.interrupt()
    assert (code, "Traceback" in output) == (130, False)


def test_a_program_that_handles_it_keeps_its_exit_code() -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, lambda *_: exit(7)); "
        "print('at work', flush=True); signal.pause()"
    )
    with on_a_terminal([*AISRV, "exec", "--", sys.executable, "-c", program]) as terminal:
        terminal.wait_for("at work\r\n")
        assert terminal.interrupt() == (7, "")


def test_a_demo_that_prints() -> None:
    # More than a terminal holds: the demo cannot end while nobody reads.
    with on_a_terminal([*AISRV, "demo", "--count", "1000"]) as terminal:
        terminal.wait_for("image")
        code, output = terminal.interrupt()
    assert (code, "Traceback" in output, "Aborted" in output) == (130, False, False)


def test_a_measurement_in_a_process_of_its_own(model: Path) -> None:
    with on_a_terminal([*AISRV, "profile", model, "--run", "100000"]) as terminal:
        terminal.wait_for_a_child()
        assert terminal.interrupt() == (130, "")


# Commands that wait for a device, which accepts a connection and never answers.

OTHERS = pytest.mark.long("each kind of connection is waited for every day")


@pytest.mark.parametrize(
    "command",
    [
        lambda address, _: [*HOST, "--device", f"usbip:{address}", "info"],
        pytest.param(
            lambda address, _: [*HOST, "--device", f"usbip:{address}", "--json", "info"], marks=OTHERS
        ),
        pytest.param(
            lambda address, model: [*HOST, "--device", f"usbip:{address}", "load", model], marks=OTHERS
        ),
        lambda address, _: [*HOST, "--device", f"spi:0.0@{address}", "info"],
        lambda address, _: [*HOST, "--device", f"jacdac:{address}", "info"],
        pytest.param(lambda address, _: [*AISRV, "demo", "--device", f"usbip:{address}"], marks=OTHERS),
        lambda address, _: [
            *AISRV,
            "replay",
            ROOT / "tests/recordings/classic.pcapng",
            "--device",
            f"usbip:{address}",
        ],
        lambda address, model: [*FLASH, "read", "--device", address, "--output", model],
    ],
)
def test_a_device_that_does_not_answer(command: Callable[[str, Path], Sequence[object]], model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with on_a_terminal(command(address, model)) as terminal:
            peer, _ = server.accept()
            with peer:
                code, output = terminal.interrupt()
    assert (code, "Traceback" in output) == (130, False)
