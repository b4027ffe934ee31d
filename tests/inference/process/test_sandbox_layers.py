"""Each layer of the sandbox alone, with the others off: what it refuses, and that nothing else does."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from aisrv import digits
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.inference.process.sandbox import DESCRIPTORS, NOBODY, Layers
from aisrv.inference.process.sandbox_layers import landlock_version, sandbox, sandbox_line
from aisrv.protocol.engine_kind import EngineKind
from tests.support.benches.confined import OWN_ATTEMPTS, outcomes
from tests.support.programs import AISRV, missing

LEFT_OUT = {
    "become a program",  # it would end the process
    "fork",  # which is asked of another user than root
    "resize the tensors",  # it has none
    "seal a file",
    "outlive its parent",  # it cannot before it changes the user, either
    "mount",  # what it mounts on does not exist, which anyone is told
}
NAMES = [name for name in OWN_ATTEMPTS if name not in LEFT_OUT]
FILES = {"read a file", "write a file", "list a folder", "start a program", "open the device's memory"}
TCP, SCOPES = {"connect by TCP"}, {"signal the device", "reach an abstract socket"}
LIMITS = {"open many files", "raise a limit", "lock memory", "fill message queues"}

REFUSED: dict[Layers, AbstractSet[str]] = {
    Layers.NO_NEW_PRIVILEGES: {"gain rights of programs"},
    Layers.LIMITS: LIMITS,
    Layers.PROCESSES: {"fork as nobody"},
    Layers.UNPRIVILEGED: {
        "keep root",
        "keep groups",
        "write a file",
        "signal the device",
        "read the device's memory",
        "open the device's memory",
        "trace the device",
    },
    Layers.LANDLOCK: FILES | {"read the device's memory", "trace the device"},
    # Questions about limits, users and groups are refused as well.
    Layers.SECCOMP: set(NAMES) - {"duplicate a descriptor", "open many files", "gain rights of programs"},
}


def refused(layers: Layers, place: Path, folder: Path | None = None) -> set[str]:
    told = outcomes(sandbox()._replace(layers=layers), NAMES, place, folder)
    assert told.keys() == set(NAMES)
    return {name for name, outcome in told.items() if outcome == "refused"}


@pytest.fixture(scope="module")
def refused_without(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What this machine refuses anyway."""
    return refused(Layers(0), tmp_path_factory.mktemp("place"))


def need(layer: Layers) -> None:
    if layer is Layers.UNPRIVILEGED and os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    if layer is Layers.LANDLOCK and not landlock_version():
        missing("this kernel has no Landlock")
    if layer is Layers.SECCOMP and not sandbox().program:
        missing(f"there is no filter here: {sandbox_line()}")


def test_without_a_layer_root_can_do_it_all(refused_without: set[str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can do it all")
    assert not refused_without


@pytest.mark.parametrize("layer", Layers, ids=lambda layer: layer.name)
def test_what_a_layer_alone_refuses(layer: Layers, tmp_path: Path, refused_without: set[str]) -> None:
    need(layer)
    expected = set(REFUSED[layer])
    if layer is Layers.LANDLOCK:
        expected |= TCP if landlock_version() >= 4 else set()
        expected |= SCOPES if landlock_version() >= 6 else set()
    assert refused(layer, tmp_path) - refused_without == expected - refused_without


def test_landlock_alone_allows_writing_into_the_folder_and_nothing_else(
    tmp_path: Path, refused_without: set[str]
) -> None:
    need(Layers.LANDLOCK)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    inside = refused(Layers.LANDLOCK, tmp_path, tmp_path)
    assert "write a file" not in inside
    assert refused(Layers.LANDLOCK, tmp_path, elsewhere) - inside == {"write a file"}


def test_a_process_that_changed_its_user_dies_with_its_parent(tmp_path: Path) -> None:
    """The kernel clears that with the change."""
    need(Layers.UNPRIVILEGED)
    whole = sandbox()._replace(layers=Layers.UNPRIVILEGED)
    told = outcomes(whole, ["outlive its parent"], tmp_path)
    assert told == {"outlive its parent": "refused"}


@pytest.mark.parametrize(
    ("name", "number"),
    [("abort", signal.SIGABRT), ("raise_signal(signal.SIGTERM)", None)],
    ids=["abort", "other"],
)
def test_a_filtered_process_can_abort_and_send_no_other_signal(
    name: str, number: signal.Signals | None, tmp_path: Path
) -> None:
    need(Layers.SECCOMP)
    call = "os.abort()" if name == "abort" else f"signal.{name}"
    code = (
        "import os, signal, sys; from aisrv.inference.process.sandbox import Sandbox; "
        f"Sandbox.from_bytes(bytes.fromhex(sys.argv[1])).enter(); {call}"
    )
    alone = bytes(sandbox()._replace(layers=Layers.SECCOMP)).hex()
    done = subprocess.run([sys.executable, "-c", code, alone], capture_output=True, text=True, check=False)
    if number is not None:
        assert done.returncode == -number
    else:
        assert (done.returncode, done.stderr.splitlines()[-1]) == (
            1,
            "PermissionError: [Errno 1] Operation not permitted",
        )


def test_all_layers_are_chosen_that_the_machine_has() -> None:
    for layer in Layers:
        need(layer)
    assert sandbox().layers == ~Layers(0)
    assert sandbox(writing=True).layers == ~Layers.UNPRIVILEGED  # the folder may be one of root's


@pytest.mark.parametrize("kind", ["tflite", "kernels:numpy", "dump"])
async def test_a_worker_with_a_model_is_in_its_sandbox(kind: str, tmp_path: Path) -> None:
    """As the kernel tells it of the process."""
    for layer in Layers:
        need(layer)
    engine = (
        EngineKind("kernels", "numpy", tensor_folder=tmp_path) if kind == "dump" else EngineKind.parse(kind)
    )
    runner = IsolatedInterpreter(lambda _text: None, engine)
    try:
        await runner.load(digits.model_bytes(), 1 << 18)
        assert runner.pid is not None
        process = Path(f"/proc/{runner.pid}")
        status = dict(line.split(":", 1) for line in process.joinpath("status").read_text().splitlines())
        limits = process.joinpath("limits").read_text()
    finally:
        await runner.close()
    user = 0 if kind == "dump" else NOBODY
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    assert status["Uid"].split() == status["Gid"].split() == 4 * [str(user)]
    if user:
        assert status["Groups"].split() == []
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    for name, most in (("open files", DESCRIPTORS), ("processes", 0), ("core file size", 0)):
        assert re.search(rf"Max {name} +{most} +{most} ", limits)


def test_a_device_loads_models_where_few_descriptors_are_allowed() -> None:
    """The right that root has to raise a limit is taken away before."""
    drop = ["setpriv", "--bounding-set", "-sys_resource"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*drop, "sh", "-c", 'ulimit -n 40; exec "$@"', "sh", *AISRV, "demo", "--count", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 1 right" in done.stdout
