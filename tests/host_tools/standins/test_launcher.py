"""Programs that know nothing of this project find the virtual device, and run as under a shell."""

import ast
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import usb

from host_tools.standins.launcher import INJECTION, environment, run_program
from tests.support.paths import ROOT
from tests.support.peers.usbip_peers import echo_device, plugged
from tests.support.programs import new_python, run_process, run_python

FIND = "import usb.core; d = usb.core.find(product='xAISRV'); print(d.manufacturer, hex(d.idProduct))"


@pytest.fixture(scope="module")
def foreign_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interpreter of a virtual environment that has pyusb and nothing else."""
    return new_python(tmp_path_factory.mktemp("foreign"), Path(usb.__file__).parent)


# The environment


def test_environment_of_an_empty_one() -> None:
    assert environment("localhost:3240", {}) == {
        "PYTHONPATH": str(INJECTION),
        "AISRV_USBIP": "localhost:3240",
        "AISRV_DEVICE": "usbip:localhost:3240",
    }


def test_environment_keeps_what_was_there() -> None:
    before = {"PYTHONPATH": "/a:/b", "HOME": "/home/me", "AISRV_DEVICE": "usbip:other:1"}
    assert environment("h:1", before) == {
        "PYTHONPATH": f"{INJECTION}:/a:/b",
        "HOME": "/home/me",
        "AISRV_USBIP": "h:1",
        "AISRV_DEVICE": "usbip:h:1",
    }
    assert before == {"PYTHONPATH": "/a:/b", "HOME": "/home/me", "AISRV_DEVICE": "usbip:other:1"}


def test_environment_of_an_injected_one_names_the_directory_once() -> None:
    once = environment("h:1", {"PYTHONPATH": "/a"})
    assert environment("h:2", once) == {**once, "AISRV_USBIP": "h:2", "AISRV_DEVICE": "usbip:h:2"}


def test_environment_is_that_of_the_process_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING", "else")
    assert environment("h:1")["SOMETHING"] == "else"


def test_environment_for_no_address() -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        environment("localhost", {})


# The injection


def test_foreign_program_finds_the_device(foreign_python: Path, tmp_path: Path) -> None:
    with plugged(echo_device()) as address:
        assert run_python(FIND, foreign_python, environment(address, {}), tmp_path) == "XMOS 0xa15e\n"


def test_program_of_the_same_environment_finds_the_device(tmp_path: Path) -> None:
    with plugged(echo_device()) as address:
        assert run_python(FIND, env=environment(address), cwd=tmp_path) == "XMOS 0xa15e\n"


def test_program_that_asks_for_libusb_gets_the_device(foreign_python: Path, tmp_path: Path) -> None:
    code = (
        "import usb.core\n"
        "from usb.backend.libusb1 import get_backend, LIBUSB_ERROR_PIPE\n"
        "d = usb.core.find(idVendor=0x20B1, backend=get_backend(find_library=lambda name: None))\n"
        "try: d.ctrl_transfer(0xC0, 99, 0, 0, 1)\n"
        "except usb.core.USBError as e: print(e.backend_error_code == LIBUSB_ERROR_PIPE)\n"
        "d.write(1, b'abc'); print(d.read(0x81, 512).tobytes())"
    )
    with plugged(echo_device()) as address:
        assert run_python(code, foreign_python, environment(address, {}), tmp_path) == "True\nb'cba'\n"


def test_grandchild_finds_the_device(foreign_python: Path, tmp_path: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FIND!r}], check=True)"
    with plugged(echo_device()) as address:
        assert run_python(code, foreign_python, environment(address, {}), tmp_path) == "XMOS 0xa15e\n"


def test_no_server_is_no_device(foreign_python: Path, tmp_path: Path) -> None:
    code = "import usb.core; print(usb.core.find())"
    with plugged(echo_device()) as address:
        pass
    free = address.rpartition(":")[0] + ":1"
    assert run_python(code, foreign_python, environment(free, {}), tmp_path) == "None\n"


def test_nothing_else_becomes_importable(foreign_python: Path, tmp_path: Path) -> None:
    code = (
        "import usb.core; d = usb.core.find(product='xAISRV')\n"
        "for name in ('aisrv', 'aisrv.protocol.usbip', 'host_tools',"
        " 'host_tools.standins.pyusb_backend', 'trio'):\n"
        "    try: __import__(name)\n"
        "    except ModuleNotFoundError: print('no', name)"
    )
    with plugged(echo_device()) as address:
        output = run_python(code, foreign_python, environment(address, {}), tmp_path)
    assert output.split("\n")[:-1] == [
        "no aisrv",
        "no aisrv.protocol.usbip",
        "no host_tools",
        "no host_tools.standins.pyusb_backend",
        "no trio",
    ]


def test_program_keeps_its_own_packages_of_the_same_names(foreign_python: Path, tmp_path: Path) -> None:
    for name in ("aisrv", "host_tools"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'program'\n")
    (tmp_path / "aisrv" / "wire.py").write_text("OWNER = 'program'\n")
    code = f"{FIND}\nimport aisrv.wire, host_tools\nprint(aisrv.wire.OWNER, host_tools.OWNER)"
    with plugged(echo_device()) as address:
        output = run_python(code, foreign_python, environment(address, {}), tmp_path)
    assert output == "XMOS 0xa15e\nprogram program\n"


def test_program_without_usb_pays_nothing(foreign_python: Path, tmp_path: Path) -> None:
    code = "import sys; print({'usb', 'socket', 'ctypes', 'typing', 'importlib.util'} & set(sys.modules))"
    assert run_python(code, foreign_python, environment("h:1", {}), tmp_path) == "set()\n"


def test_without_the_variable_pyusb_is_as_it_was(foreign_python: Path, tmp_path: Path) -> None:
    code = "import usb.backend.libusb1 as m; print(m.get_backend.__module__)"
    env = {"PYTHONPATH": str(INJECTION)}
    assert run_python(code, foreign_python, env, tmp_path) == "usb.backend.libusb1\n"


def test_pyusb_module_keeps_its_source(foreign_python: Path, tmp_path: Path) -> None:
    code = (
        "import importlib, inspect, usb.backend.libusb1 as m\n"
        "print('libusb_init' in inspect.getsource(m), m.__spec__.loader is m.__loader__)\n"
        "print(importlib.reload(m).get_backend.__module__)"
    )
    output = run_python(code, foreign_python, environment("h:1", {}), tmp_path)
    assert output == "True True\nsitecustomize\n"


def test_other_sitecustomize_runs(foreign_python: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\n")
    code = (
        "import sys, sitecustomize, usb.backend.libusb1 as m\n"
        "print(sitecustomize.__file__, m.get_backend.__module__, sys.path[1:3])"
    )
    output = run_python(code, foreign_python, environment("h:1", {"PYTHONPATH": str(tmp_path)}), tmp_path)
    expected_path = [str(INJECTION), str(tmp_path)]
    assert output == f"{tmp_path / 'sitecustomize.py'} sitecustomize {expected_path}\n"


def test_failure_of_another_sitecustomize_is_told_and_harmless(foreign_python: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import not_installed\n")
    done = run_process(
        [foreign_python, "-c", "import usb.backend.libusb1 as m; print(m.get_backend.__module__)"],
        env=environment("h:1", {"PYTHONPATH": str(tmp_path)}),
    )
    assert done.stdout == "sitecustomize\n"
    assert "not_installed" in done.stderr


def imported(path: Path) -> set[str]:
    """The modules that a file names in its import statements."""
    statements = list(ast.walk(ast.parse(path.read_text(), feature_version=(3, 10))))
    names = {alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in statements if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize(
    ("standin", "packages"), [("pyusb_backend", {"usb", "msgspec"}), ("spidev", {"msgspec"})]
)
def test_what_foreign_programs_load_suits_old_pythons(standin: str, packages: set[str]) -> None:
    """The syntax of Python 3.10, and besides ours the standard library and the packages that they have."""
    names, seen = {f"host_tools.standins.{standin}"}, set[str]()
    while names:
        name = names.pop()
        seen.add(name)
        if name.startswith(("aisrv.", "host_tools.")):
            path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
            assert "from __future__ import annotations" in path.read_text(), path
            names |= imported(path) - seen
    others = {name.partition(".")[0] for name in seen if not name.startswith(("aisrv.", "host_tools."))}
    assert others <= packages | sys.stdlib_module_names
    assert (
        len(seen & {"aisrv.values.packet", "host_tools.errors", "host_tools.transports.server_address"}) == 3
    )


def test_the_injected_module_tells_an_older_python_what_it_lacks() -> None:
    text = (INJECTION / "sitecustomize.py").read_text()
    assert ast.parse(text, feature_version=(3, 7))


# Running a program


@pytest.mark.parametrize("code", [0, 1, 42, 255])
async def test_exit_code(code: int) -> None:
    assert await run_program([sys.executable, "-c", f"raise SystemExit({code})"], os.environ) == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_program_that_a_signal_ended(number: int) -> None:
    code = f"import os; os.kill(os.getpid(), {int(number)})"
    assert await run_program([sys.executable, "-c", code], os.environ) == 128 + number


async def test_program_that_has_ended_before_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_to_its_end(argv: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(argv, env=environment)
        process.wait()
        return process

    monkeypatch.setattr("host_tools.standins.launcher._start", run_to_its_end)
    # Which task goes on first is for Trio's dice: 20 throws.
    assert [await run_program(["true"], os.environ) for _ in range(20)] == [0] * 20


async def test_program_that_does_not_exist(caplog: pytest.LogCaptureFixture) -> None:
    assert await run_program(["no-such-program-here"], os.environ) == 127
    assert "cannot run no-such-program-here: No such file or directory" in caplog.text


@pytest.mark.parametrize("kind", ["plain file", "directory", "no format"])
async def test_program_that_cannot_be_executed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "program"
    if kind == "directory":
        path.mkdir()
    else:
        path.write_bytes(b"\0\1\2\3")
        path.chmod(0o644 if kind == "plain file" else 0o755)
    assert await run_program([str(path)], os.environ) == 126


async def test_program_sees_the_environment() -> None:
    code = "import os; raise SystemExit(os.environ['ANSWER'] != '42')"
    assert await run_program([sys.executable, "-c", code], {**os.environ, "ANSWER": "42"}) == 0


async def test_program_has_our_streams(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr)"
    await run_program([sys.executable, "-c", code], os.environ)
    assert capfd.readouterr() == ("out\n", "err\n")


def tell(fifo: Path) -> str:
    return f"open({str(fifo)!r}, 'w').write('ready')"


def waiting_program(fifo: Path, number: int) -> list[str]:
    """A program that tells through a pipe that it waits, and exits with 7 at a signal."""
    return [
        sys.executable,
        "-c",
        f"import signal; signal.signal({int(number)}, lambda *_: exit(7)); {tell(fifo)}; signal.pause()",
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_signal_is_passed_on(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a service or a container: no terminal that would send SIGINT to both by itself.
    monkeypatch.setattr("host_tools.standins.launcher._in_foreground", lambda: False)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def send_when_ready() -> None:
        await trio.to_thread.run_sync(fifo.read_text)
        os.kill(os.getpid(), number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_when_ready)
        code = await run_program(waiting_program(fifo, number), os.environ)
    assert code == 7


async def test_interrupt_from_a_terminal_is_not_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("host_tools.standins.launcher._in_foreground", lambda: True)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = (
        "import signal; got = []; signal.signal(2, lambda *_: got.append(2)); "
        "signal.signal(15, lambda *_: exit(len(got))); "
        f"{tell(fifo)}\n"
        "while True: signal.pause()"
    )

    async def send_when_ready() -> None:
        await trio.to_thread.run_sync(fifo.read_text)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_when_ready)
        ended = await run_program([sys.executable, "-c", code], os.environ)
    assert ended == 0


async def test_cancelled_run_ends_the_program(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    end = tmp_path / "end"
    code = (
        f"import signal, pathlib; end = pathlib.Path({str(end)!r})\n"
        "signal.signal(15, lambda *_: exit(end.write_text('terminated')))\n"
        f"{tell(fifo)}; signal.pause()"
    )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_program, [sys.executable, "-c", code], os.environ)
        await trio.to_thread.run_sync(fifo.read_text)
        nursery.cancel_scope.cancel()
    assert end.read_text() == "terminated"


STUBBORN = """
import signal
from pathlib import Path
for number in (1, 2, 15):
    signal.signal(number, signal.SIG_IGN)
{tell}
signal.pause()
"""


def test_program_is_killed_with_the_process_that_runs_it(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    stubborn = STUBBORN.format(tell=f"open({str(fifo)!r}, 'w').write(str(__import__('os').getpid()))")
    parent = (
        "import os, sys, trio; from host_tools.standins.launcher import run_program; "
        f"trio.run(run_program, [sys.executable, '-c', {stubborn!r}], os.environ)"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        program = os.pidfd_open(int(fifo.read_text()))
        process.kill()
    try:
        ended, _, _ = select.select([program], [], [], 20)
    finally:
        os.close(program)
    assert ended


def test_start_of_the_injection_imports_nothing_else(foreign_python: Path) -> None:
    """A start takes as long as its imports, and every Python that runs under `aisrv exec` has this one."""
    code = (
        f"import os, sys; sys.path.insert(0, {str(INJECTION)!r}); before = set(sys.modules)\n"
        "import sitecustomize; print(*sorted(set(sys.modules) - before))"
    )
    done = run_process([foreign_python, "-S", "-c", code], check=True, env={"AISRV_USBIP": "h:1"})
    assert done.stdout.split() == ["__future__", "sitecustomize"]
