"""`aisrv fleet`: a cluster that ends with its process, whatever ends it; and what a run takes."""

import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisrv import digits
from aisrv.addons.evaluate.certificate import find_certificate
from aisrv.cli.main import main
from tests.support.peers.dask_cluster import descendants_of, free_port
from tests.support.programs import AISRV, Started, missing, run_process, start_process

for package in ("distributed", "cryptography"):
    if find_spec(package) is None:
        missing(f"{package} is not installed: it comes with the extra fleet")

END_SECONDS = 10.0
NOBODY = 65534
LONG = "it starts clusters; one with one worker does every day"


@contextmanager
def fleet(workers: int, port: int = 0) -> Iterator[tuple[Started, str, str]]:
    """Run a cluster: its process, the scheduler's address, and that of the dashboard."""
    process = start_process([*AISRV, "fleet", "up", workers, "--port", port, "--dashboard-port", free_port()])
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        scheduler, _, dashboard = line.removeprefix("aisrv: ready at ").strip().partition(", dashboard ")
        yield process, scheduler, dashboard
    finally:
        process.kill()
        process.communicate()


def alive(processes: list[int]) -> list[int]:
    """Those that are neither gone nor waiting for their parent to see that they are."""
    found = []
    for each in processes:
        try:
            state = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(each)
    return found


def until_gone(processes: list[int]) -> None:
    end = time.monotonic() + END_SECONDS
    while alive(processes):
        assert time.monotonic() < end, alive(processes)
        time.sleep(0.05)


@pytest.mark.long(LONG)
def test_a_killed_fleet_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    with fleet(2) as (process, scheduler, dashboard):
        host, _, port = dashboard.removeprefix("http://").removesuffix("/status").partition(":")
        assert host == "127.0.0.1"
        with socket.create_connection((host, int(port)), 10):
            pass
        words = ["digits", "--shard", "100", "--check", "0", "--out", "run", "--dask", scheduler]
        done = run_process([*AISRV, "evaluate", "digits.tflite", *words], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "accuracy         99.24 %" in done.stdout
        processes = descendants_of(process.pid)
        assert len([each for each in processes if b"spawn_main" in command(each)]) == 2
        process.kill()
        process.wait()
        until_gone(processes)


def command(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 0, marks=pytest.mark.long(LONG))],
)
def test_a_signal_ends_it_without_a_word(number: signal.Signals, code: int) -> None:
    with fleet(1) as (process, scheduler, _):
        processes = descendants_of(process.pid)
        port = scheduler.rpartition(":")[2]
        certificate = find_certificate(int(port))
        assert certificate is not None
        assert answer_of(int(port), context_of(certificate)) != b""
        strangers(int(port), certificate)
        if os.geteuid() == 0:
            as_nobody(strangers, int(port), certificate)
        if number == signal.SIGTERM:
            taken = run_process([*AISRV, "fleet", "up", "1", "--port", port])
            assert taken.returncode == 1
            assert taken.stderr == f"Error: 127.0.0.1:{port}: Address already in use\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == code
        assert errors == f"aisrv: try aisrv evaluate MODEL DATA --dask {scheduler}\n"
        until_gone(processes)
        assert not certificate.parent.exists()


def strangers(port: int, certificate: Path) -> None:
    """Nobody is let in who has no certificate."""
    for without in (None, context_of(None)):
        assert answer_of(port, without) == b""
    if os.geteuid() == NOBODY:
        assert find_certificate(port) is None
        with pytest.raises(PermissionError):
            context_of(certificate)


def as_nobody(check: Callable[[int, Path], None], port: int, certificate: Path) -> None:
    """Check as another user of the machine."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            check(port, certificate)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def context_of(certificate: Path | None) -> ssl.SSLContext:
    """How a client connects: with a certificate, or with none, and to whomever."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def answer_of(port: int, context: ssl.SSLContext | None) -> bytes:
    """What the scheduler says first to whom it lets in; nothing where it closes the connection."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as plain:
        if context is None:
            plain.sendall(bytes(8))  # no greeting of TLS
            return plain.recv(64)
        with context.wrap_socket(plain) as connection:
            return connection.recv(64)
    return b""


@pytest.mark.long(LONG)
def test_a_certificate_that_was_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    words = ["digits", "--limit", "6", "--check", "0", "--wait", "30"]
    with fleet(1) as (process, first, _):
        port = int(first.rpartition(":")[2])
        left = find_certificate(port)
        assert left is not None
        process.kill()
        process.wait()
        gone = run_process(
            [*AISRV, "evaluate", "digits.tflite", *words[:-1], "0", "--dask", first], cwd=tmp_path
        )
        assert gone.returncode == 3
        assert "there is no certificate of an aisrv fleet up of yours" in gone.stderr
    with fleet(1, port) as (_, second, _):
        assert second == first
        assert not left.exists()
        done = run_process([*AISRV, "evaluate", "digits.tflite", *words, "--dask", second], cwd=tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.long(
    "it measures a run and the tasks of a cluster; what is computed of that is tested every day"
)
def test_a_plan_is_based_on_what_is_measured(tmp_path: Path) -> None:
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    words = ["--examples", "1000000000", "--machines", "2", "--cores", "4", "--engine", "tflm", "--json"]
    done = run_process([*AISRV, "fleet", "plan", "digits.tflite", "digits", *words], cwd=tmp_path, check=True)
    found = json.loads(done.stdout)
    measured, computed = found["measured"], found["computed"]
    assert measured["example_bytes"] == 64
    assert 8 < measured["part_bytes"] < 40
    assert 0.001 < measured["run_ms"] <= 2 * measured["example_ms"]
    assert measured["task_ms"] > 0.1
    assert computed["read_bytes"] == 64e9
    assert computed["shard"] * measured["example_ms"] == pytest.approx(5000, rel=0.06)
    assert computed["scheduler_s"] == pytest.approx(computed["tasks"] * measured["task_ms"] / 1000)


def test_a_plan_of_data_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    done = CliRunner().invoke(main, ["fleet", "plan", str(tmp_path / "digits.tflite"), "nowhere"])
    assert (done.exit_code, done.stderr) == (2, "Error: nowhere: No such file or directory\n")
