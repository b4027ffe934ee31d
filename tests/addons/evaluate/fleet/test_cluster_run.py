"""Runs on real schedulers and workers: the same parts as on one machine, whoever dies on the way."""

import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from aisrv import digits
from aisrv.cli.main import main
from tests.support.amounts import amount, in_ci, is_in_full, some
from tests.support.peers.dask_cluster import SLOW_ENGINE, Cluster, children_of, cluster, kill, shuffled
from tests.support.programs import AISRV, missing, run_process

if find_spec("distributed") is None:
    missing('distributed is not installed: pip install "distributed>=2024.8"')

EXAMPLES: Final = amount(397, every_day=in_ci(180, every_day=60))
WORKERS: Final = in_ci(2, every_day=1)
SHARD: Final = ("--shard", "15", "--limit", str(EXAMPLES), "--check", "0")
SLOW: Final = ("--engine", "slow_engine:Slow")
RUN_SECONDS: Final = 240.0
OWN_CLUSTER: Final = "it starts a cluster of its own"
SAME_CLUSTER: Final = "two more evaluations; one on the same cluster runs every day"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "digits.tflite").write_bytes(digits.model_bytes())
    (folder / "slow_engine.py").write_text(SLOW_ENGINE)
    return folder


@pytest.fixture(scope="module")
def workers(work: Path) -> Iterator[Cluster]:
    """A cluster that nobody kills."""
    with cluster(work / "cluster", WORKERS, modules=work) as found:
        yield found


@pytest.fixture(scope="module")
def expected(work: Path) -> dict[str, bytes]:
    """The parts as this machine makes them."""
    run(work, "digits", "--out", "expected", *SHARD, *SLOW)
    return parts(work / "expected")


def run(work: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    # Without -P it finds the engine in its folder.
    return run_process([sys.executable, "-m", "aisrv", "evaluate", "digits.tflite", *words], cwd=work)


def parts(folder: Path) -> dict[str, bytes]:
    """All that is in the folder of parts, but their hashes."""
    there = (folder / "parts").iterdir() if (folder / "parts").is_dir() else []
    return {each.name: each.read_bytes() for each in there if each.suffix != ".sha256"}


def count_of_parts(folder: Path) -> int:
    """How many parts are whole by now."""
    return len(list((folder / "parts").glob("[0-9]*.parquet")))


def is_clean(folder: Path) -> bool:
    """Whether nothing is left of writers that were killed."""
    return not (folder / "pieces").exists() and not list(folder.rglob("*.part"))


def test_the_parts_are_those_of_one_machine(work: Path, workers: Cluster, expected: dict[str, bytes]) -> None:
    words = ("digits", "--out", "run", *SHARD, *SLOW, "--dask", workers.address)
    done = run(work, *words)
    assert done.returncode == 0, done.stderr
    assert parts(work / "run") == expected
    assert is_clean(work / "run")
    before = (work / "run" / "times" / "000001.json").stat().st_mtime_ns
    path = work / "run" / "parts" / "000003.parquet"
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2"))
    again = run(work, *words)
    assert again.returncode == 0
    said = "run/parts/000003.parquet is not as it was written: it is made again"
    assert again.stderr.count(said) == 1
    assert parts(work / "run") == expected
    assert (work / "run" / "times" / "000001.json").stat().st_mtime_ns == before
    assert run_process([*AISRV, "evaluate", "--verify", work / "run"]).returncode == 0
    times = json.loads((work / "run" / "times" / "000000.json").read_text())
    assert set(times) == {"worker", "seconds", "attempts", "histogram", "sha256"}


@pytest.mark.long(SAME_CLUSTER)
def test_devices_run_on_workers_too(work: Path, workers: Cluster) -> None:
    words = ("digits", "--limit", "8", "--shard", "4")
    assert run(work, *words, "--out", "on", "--on", "virtual", "--dask", workers.address).returncode == 0
    assert run(work, *words, "--out", "off", "--check", "0").returncode == 0
    assert parts(work / "on") == parts(work / "off")


@pytest.mark.long(SAME_CLUSTER)
def test_arrays_are_run_from_their_file(work: Path, workers: Cluster) -> None:
    images = np.array([np.frombuffer(each.image, np.int8) for each in digits.test_images()])
    labels = np.array([each.label for each in digits.test_images()])
    np.savez(work / "data.npz", x=images, y=labels)
    words = ("data.npz", "--shard", "150", "--limit", "390", "--check", "0")
    assert run(work, *words, "--out", "npz", "--dask", workers.address).returncode == 0
    assert run(work, *words, "--out", "npz_here").returncode == 0
    assert len(parts(work / "npz")) == 3
    assert parts(work / "npz") == parts(work / "npz_here")


@pytest.mark.long(SAME_CLUSTER)
def test_pictures_in_an_archive_are_read_by_their_addresses(work: Path, workers: Cluster) -> None:
    for index, digit in enumerate(digits.test_images()[:9]):
        pixels = np.frombuffer(digits.pixels_of(digit.image), np.uint8).reshape(8, 8)
        path = work / "photos" / str(digit.label) / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels * 15).save(path)
    shutil.make_archive(str(work / "photos"), "zip", work, "photos")
    words = (f"zip://photos::{work}/photos.zip", "--shard", "4", "--check", "0")
    assert run(work, *words, "--out", "packed", "--dask", workers.address).returncode == 0
    assert run(work, "photos", *words[1:], "--out", "unpacked").returncode == 0
    assert len(parts(work / "packed")) == 3
    assert parts(work / "packed") == parts(work / "unpacked")


@pytest.mark.long(OWN_CLUSTER)
def test_workers_with_another_version_refuse(work: Path, tmp_path: Path) -> None:
    other = tmp_path / "modules" / "pyarrow-99.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: pyarrow\nVersion: 99.0.1\n")
    words = ("digits", "--limit", "6", "--check", "0", "--out", "refused")
    with cluster(tmp_path / "dask", 1, modules=tmp_path / "modules") as found:
        refused = run(work, *words, "--dask", found.address)
    assert refused.returncode == 2
    host, here = platform.node(), version("pyarrow")
    assert refused.stderr == f"Error: the worker on {host}: pyarrow 99.0.1 here, the plan has {here}\n"
    assert parts(work / "refused") == {}


def test_without_a_cluster(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    words = ("digits", "--limit", "3", "--check", "0", "--out", "none")
    gone = run(work, *words, "--dask", "tcp://127.0.0.1:1", "--wait", "0")
    assert gone.returncode == 3
    assert "tcp://127.0.0.1:1: no scheduler for 0 s" in gone.stderr
    assert "Traceback" not in gone.stderr
    strange = run(work, *words, "--dask", "tls://127.0.0.1:1", "--wait", "0")
    assert strange.returncode == 3
    assert "no scheduler for 0 s (there is no certificate of an aisrv fleet up of yours)" in strange.stderr
    for words_of_it, message in (
        (("--dask", "127.0.0.1:8786"), "write it as tcp://HOST:PORT or tls://HOST:PORT"),
        (("--dask", "tls://192.0.2.1:1"), "give --tls-ca, --tls-cert and --tls-key"),
        (
            ("--dask", "tls://127.0.0.1:1", "--tls-ca", "digits.tflite"),
            "give --tls-ca, --tls-cert and --tls-key",
        ),
        (("--dask", "tcp://127.0.0.1:1", "--no-parts"), "a cluster writes parts"),
        (("--dask", "tcp://127.0.0.1:1", "--on", "usb"), "--on usb is a device of this machine"),
        (("--tls-key", "digits.tflite"), "are for --dask tls://"),
    ):
        refused = CliRunner().invoke(main, ["evaluate", "digits.tflite", *words, *words_of_it])
        assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr


def certificates(folder: Path) -> Path:
    """Make a certificate and who vouches for it, which is itself."""
    if shutil.which("openssl") is None:
        missing("openssl is not installed")
    folder.mkdir()
    words = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    run_process(
        ["openssl", "req", *words, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True
    )
    shutil.copy(folder / "cert.pem", folder / "ca.pem")
    return folder


@pytest.mark.long(OWN_CLUSTER)
def test_a_cluster_with_tls_takes_those_with_a_certificate(work: Path, tmp_path: Path) -> None:
    own, other = certificates(tmp_path / "own"), certificates(tmp_path / "other")
    words = ("digits", "--limit", "6", "--shard", "3", "--check", "0", "--wait", "20")

    def files(place: Path) -> tuple[str, ...]:
        pairs = (("--tls-ca", "ca"), ("--tls-cert", "cert"), ("--tls-key", "key"))
        return tuple(word for option, name in pairs for word in (option, str(place / f"{name}.pem")))

    with cluster(tmp_path / "dask", 1, tls=own) as found:
        done = run(work, *words, "--out", "tls", "--dask", found.address, *files(own))
        assert done.returncode == 0, done.stderr
        assert len(parts(work / "tls")) == 2
        quick = ("--wait", "1", "--out", "no_tls", "--dask")
        refused = run(work, *words, *quick, found.address, *files(other))
        assert (refused.returncode, "no scheduler for 1 s" in refused.stderr) == (3, True), refused.stderr
        plain = run(work, *words, *quick, found.address.replace("tls", "tcp"))
        assert (plain.returncode, "Traceback" in plain.stderr) == (3, False), plain.stderr


def started(work: Path, out: str, address: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*AISRV, "evaluate", "digits.tflite", "digits", *SHARD, *SLOW, "--out", out, "--dask", address],
        cwd=work,
        env=os.environ | {"PYTHONPATH": str(work)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until_parts(folder: Path, count: int, process: "subprocess.Popen[str]") -> None:
    while count_of_parts(folder) < count:
        assert process.poll() is None
        time.sleep(0.02)


@pytest.mark.long(SAME_CLUSTER)
def test_ctrl_c_keeps_what_is_begun(work: Path, workers: Cluster, expected: dict[str, bytes]) -> None:
    client = started(work, "stopped", workers.address)
    until_parts(work / "stopped", 2, client)
    client.send_signal(signal.SIGINT)
    output, errors = client.communicate(timeout=60)
    assert client.returncode == 130
    kept = parts(work / "stopped")
    assert 2 <= len(kept) < len(expected)
    assert kept == {name: expected[name] for name in kept}
    said = re.search(rf"interrupted: (\d+) of {EXAMPLES}", errors)
    assert said is not None
    assert 30 <= int(said[1]) <= 15 * len(kept)  # a worker may have begun one more meanwhile
    assert "Traceback" not in errors
    assert "accuracy" in output


@pytest.mark.long(SAME_CLUSTER)
def test_a_second_ctrl_c_ends_it_at_once(work: Path, workers: Cluster) -> None:
    words = ["digits", "--shard", "10000", "--check", "0", *SLOW, "--out", "at_once"]
    client = subprocess.Popen(
        [*AISRV, "evaluate", "digits.tflite", *words, "--dask", workers.address],
        cwd=work,
        env=os.environ | {"PYTHONPATH": str(work)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not any(children_of(worker.pid) for worker in workers.workers):  # an engine
        assert client.poll() is None
        time.sleep(0.02)
    for _ in range(2):
        client.send_signal(signal.SIGINT)
        time.sleep(0.1)  # two signals at once are one
    _, errors = client.communicate(timeout=30)
    assert (client.returncode, errors) == (130, "")
    assert parts(work / "at_once") == {}


KILLS: Final = ("worker",) * 6 + ("scheduler",) * 2 + ("client",) * 2
EVERY_DAY: Final = ("worker", "worker", "scheduler", "client")


@pytest.mark.long(OWN_CLUSTER)
@pytest.mark.in_full
@pytest.mark.parametrize("seed", range(amount(20, every_day=1)))
def test_whoever_dies_all_parts_are_there_once(
    seed: int, work: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    chance = random.Random(seed)
    kills = shuffled(KILLS if is_in_full() else EVERY_DAY, seed)
    stops = ["stop"] if is_in_full() and seed % 5 == 0 else []
    allowed, nanny = (0, 3, 1_000_000)[seed % 3], bool(seed % 2)
    out = f"chaos{seed}"
    with cluster(tmp_path, allowed_failures=allowed, modules=work, nanny=nanny) as found:
        client = started(work, out, found.address)
        killed: list[int] = []
        stopped: list[tuple[int, float]] = []
        end = time.monotonic() + RUN_SECONDS
        next_at = 1
        while time.monotonic() < end:
            found.tend()
            if client.poll() is not None:
                if client.returncode == 0:
                    break
                client.communicate()
                client = started(work, out, found.address)
            for process, until in stopped:
                if time.monotonic() > until:
                    kill(process, signal.SIGCONT)
            there = count_of_parts(work / out)
            if kills and next_at <= there < len(expected):
                kind = kills.pop()
                victims = {
                    "worker": found.worker_ids(),
                    "scheduler": [found.scheduler.pid],
                    "client": [client.pid],
                }[kind]
                if victims:
                    kill(chance.choice(victims))
                    killed.append(there)
                    next_at = there + 1
                else:
                    kills.append(kind)
            if stops and there > 2 and found.worker_ids():
                stops.pop()
                victim = chance.choice(found.worker_ids())
                kill(victim, signal.SIGSTOP)
                stopped.append((victim, time.monotonic() + 60))
            time.sleep(0.05)
        _, errors = client.communicate(timeout=60)
        assert client.returncode == 0, errors
    assert not kills, f"{len(kills)} were not killed in the middle"
    assert all(0 < count < len(expected) for count in killed)
    assert parts(work / out) == expected
    assert is_clean(work / out)
    assert run_process([*AISRV, "evaluate", "--verify", work / out]).returncode == 0
    assert "Traceback" not in errors
    left = [each for each in Path("/proc").glob("[0-9]*") if str(tmp_path) in environment_of(each)]
    assert left == []


def environment_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


READER: Final = """
import os, sys, time
if "aisrv.addons.evaluate.running.reader_process" in sys.orig_argv:
    import aisrv.addons.evaluate.inputs.preparation as made
    real = made.decoded
    parent = int(sys.orig_argv[-1])
    def deadly(data, *more):
        with open(f"/proc/{parent}/cmdline") as file:
            command = file.read()
        if data == b"kills its worker" and ("dask_worker" in command or "one_example" in command):
            os.kill(parent, 9)
            time.sleep(60)
        return real(data, *more)
    made.decoded = deadly
"""
ENGINE: Final = """
import ctypes, time
from aisrv.addons.kernels.interpreter import KernelsInterpreter

class Fragile(KernelsInterpreter):
    def set_input(self, number, data):
        self.levels = set(bytes(data))
        super().set_input(number, data)

    def invoke(self):
        if self.levels == {127}:
            ctypes.string_at(0)
        if len(self.levels) == 1:
            time.sleep(60)
        super().invoke()
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 60 digits: one kills its worker, as a kernel out of memory does, and three are bad, too."""
    folder = tmp_path_factory.mktemp("photos")
    (folder / "digits.tflite").write_bytes(digits.model_bytes())
    (folder / "modules").mkdir()
    (folder / "modules" / "sitecustomize.py").write_text(READER)
    (folder / "modules" / "fragile_engine.py").write_text(ENGINE)
    (folder / "pixels.toml").write_text("[inputs.0]\nmean = 0\nstd = 240\n")
    for index, digit in enumerate(digits.test_images()[:60]):
        pixels = np.frombuffer(digits.pixels_of(digit.image), np.uint8).reshape(8, 8)
        path = folder / "photos" / str(digit.label) / f"{index:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels * 15).save(path)
    found = sorted((folder / "photos").rglob("*.png"))
    found[1].write_bytes(b"kills its worker")
    found[2].write_bytes(b"no picture")
    Image.new("L", (8, 8), 255).save(found[4])
    Image.new("L", (8, 8), 128).save(found[5])
    return folder


@pytest.mark.long(OWN_CLUSTER)
@pytest.mark.in_full
@pytest.mark.parametrize(
    ("allowed", "shard", "limit"), some([(0, 2, 6), (0, 40, 60), (3, 40, 60)], every_day=1)
)
def test_pictures_that_kill_fail_alone(
    allowed: int, shard: int, limit: int, photos: Path, tmp_path: Path
) -> None:
    words = [
        "--input",
        "pixels.toml",
        "--shard",
        str(shard),
        "--limit",
        str(limit),
        "--json",
        "--timeout",
        "2",
    ]
    command = [*AISRV, "evaluate", "digits.tflite", "photos", "--engine", "fragile_engine:Fragile", *words]
    environment = os.environ | {"PYTHONPATH": str(photos / "modules")}
    with cluster(tmp_path / "dask", allowed_failures=allowed, modules=photos / "modules") as found:
        client = subprocess.Popen(
            [*command, "--check", "0", "--out", str(tmp_path / "run"), "--dask", found.address],
            cwd=photos,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while client.poll() is None:
            found.tend()
            time.sleep(0.1)
    output, errors = client.communicate()
    assert client.returncode == 5, errors
    failed = {each["index"]: each["reason"] for each in json.loads(output)["failed"]}
    assert failed.keys() == {1, 2, 4, 5}
    assert failed[1] == "its process was killed by SIGKILL"
    assert failed[2].startswith("not a picture that can be read")
    assert failed[4] == "running the model: the interpreter was killed by SIGSEGV"
    assert failed[5] == "running the model: the interpreter took more than 2 s and was stopped"
    assert json.loads(output)["examples"] == limit
    assert is_clean(tmp_path / "run")
