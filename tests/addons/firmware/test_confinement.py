"""Each layer that holds a program of a tile, alone, with the others off: what it refuses, and no more."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Set as AbstractSet
from pathlib import Path
from textwrap import dedent

import pytest

from aisrv.addons.firmware.confined_process import start_confined
from aisrv.addons.firmware.confinement import (
    ALL,
    IN_A_DEBUGGER,
    Confinement,
    ProgramLayers,
    Rights,
    warn_of_missing_layers,
)
from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.tile_process import TileProcess
from aisrv.inference.process.sandbox_layers import landlock_version
from tests.support.benches.c_programs import BITS, kept_folder, need_32_bits, need_compiler, run_c
from tests.support.paths import ROOT
from tests.support.programs import missing

INTRUDER = ROOT / "tests/support/tile_intruder.c"
NAMES = re.findall(r'TRY\("([^"]+)"', INTRUDER.read_text())
ALLOWED = {
    "read a file to read",
    "list a folder to read",
    "read a file to write",
    "write a file to write",
    "make a file to write",
    "remove a file to write",
    "make a folder to write",
    "signal itself",
    "take little memory",
}
"""What a program with both rights may do."""
FILES = {
    "read a file outside",
    "write a file outside",
    "make a file outside",
    "list a folder outside",
    "remove a file outside",
    "shorten a file outside",
    "link a file from outside",
    "move a file from outside",
    "read through a link to outside",
    "write a file to read",
    "open the device's memory",
}
LOOKS = {"trace the device", "read the device's memory", "write the device's memory"}
SIGNALS = {
    "signal the device",
    "signal a thread of the device",
    "signal the device by its thread",
    "signal the device with information",
    "signal the device by a descriptor",
}
TCP = {"connect by TCP", "listen on TCP"}
NETWORK = {*TCP, "send by UDP"}

REFUSED: dict[ProgramLayers, AbstractSet[str]] = {
    ProgramLayers.NO_NEW_PRIVILEGES: {"gain rights of programs"},
    ProgramLayers.LIMITS: {
        "lock memory",
        "fill message queues",
        "leave a core",
        "open many files",
        "write a large file",
    },
    ProgramLayers.PROCESSES: {"fork as nobody"},
    ProgramLayers.MEMORY: {"take much memory"},
    ProgramLayers.LANDLOCK: FILES | LOOKS | SIGNALS | TCP | {"reach an abstract socket"},
    ProgramLayers.SIGNALS: SIGNALS,
    ProgramLayers.SECCOMP: {
        *LOOKS,
        *NETWORK,
        "change rights of a file",
        "change a limit of the device",
        "signal the device by a descriptor",
        "signal the device by a file",
        "fork",
        "vfork",
        "clone",
        "clone anew",
        "start a thread",
        "leave the session",
        "reach a local socket",
        "reach an abstract socket",
        "make a file in memory",
        "type into the terminal",
        "queue calls",
        "mount",
        "outlive its parent",
        "fork as nobody",
    },
}


@pytest.fixture(scope="session")
def intruder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(Path(tmp_path_factory.mktemp("intruder")), 64)


@pytest.fixture(autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", kept_folder(tmp_path_factory))


def built(folder: Path, bits: int) -> Path:
    compiler = need_compiler()
    if bits == 32:
        need_32_bits(compiler)
    wide = ("-m32", "-idirafter", "/usr/include/x86_64-linux-gnu") if bits == 32 else ()
    subprocess.run([compiler, "-O1", *wide, "-o", folder / "intruder", INTRUDER], check=True)
    return folder / "intruder"


def outcomes(intruder: Path, layers: ProgramLayers, place: Path, *, network: bool = False) -> set[str]:
    """Names of the attempts that are refused in a process with some layers, which are told one by one."""
    for name in ("outside", "reads", "writes"):
        (place / name).mkdir()
        for file in ("file", "gone", "moves"):
            (place / name / file).write_text("xyz")
    (place / "writes" / "link").symlink_to(place / "outside" / "file")
    victim = subprocess.Popen(["sleep", "600"], start_new_session=True)
    rights = Rights((place / "reads",), (place / "writes",), network=network)
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.socket(socket.AF_UNIX) as local,
            socket.socket(socket.AF_UNIX) as abstract,
        ):
            local.bind(os.path.relpath(place / "socket"))
            abstract.bind(f"\0aisrv-victim-{victim.pid}")
            for listener in (local, abstract):
                listener.listen()
            words = [str(victim.pid), str(place), str(server.getsockname()[1])]
            process = start_confined(
                Confinement(layers, intruder, rights),
                [str(intruder), *words, *NAMES],
                env=os.environ,
                stdout=subprocess.PIPE,
            )
            with process:
                output, _ = process.communicate(timeout=60)
    finally:
        victim.kill()
        victim.wait()
    lines = [line.split(" ", 1) for line in output.decode().splitlines()]
    assert [name for _, name in lines] == NAMES
    assert process.returncode == 0
    return {name for outcome, name in lines if outcome == "refused"}


def need(layer: ProgramLayers) -> None:
    if layer is ProgramLayers.LANDLOCK and landlock_version() < 6:
        missing("this kernel has no Landlock of version 6")


@pytest.fixture(scope="module")
def refused_without(intruder: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What this machine refuses anyway."""
    return outcomes(intruder, ProgramLayers(0), tmp_path_factory.mktemp("without"))


def test_without_a_layer_root_can_do_it_all(refused_without: set[str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can do it all")
    assert not refused_without


@pytest.mark.parametrize("layer", ProgramLayers, ids=lambda layer: str(layer.name))
def test_what_a_layer_alone_refuses(
    layer: ProgramLayers, intruder: Path, tmp_path: Path, refused_without: set[str]
) -> None:
    need(layer)
    expected = set(REFUSED[layer])
    if os.geteuid() != 0:  # only root has the others without it
        layer |= ProgramLayers.NO_NEW_PRIVILEGES
        expected |= REFUSED[ProgramLayers.NO_NEW_PRIVILEGES]
    assert outcomes(intruder, layer, tmp_path) - refused_without == expected - refused_without


@pytest.mark.parametrize("bits", BITS)
def test_all_layers_leave_a_program_what_is_its_own(intruder: Path, tmp_path: Path, bits: int) -> None:
    for layer in ProgramLayers:
        need(layer)
    (tmp_path / "place").mkdir()
    program = intruder if bits == 64 else built(tmp_path, 32)
    assert set(NAMES) - outcomes(program, ALL, tmp_path / "place") == ALLOWED


def test_a_program_with_the_network_has_that_and_no_local_sockets(intruder: Path, tmp_path: Path) -> None:
    for layer in ProgramLayers:
        need(layer)
    assert set(NAMES) - outcomes(intruder, ALL, tmp_path, network=True) == ALLOWED | NETWORK


def test_a_debugger_is_kept_from_the_device_all_the_same(intruder: Path, tmp_path: Path) -> None:
    """It may start processes and read files; it neither traces nor signals others, nor writes elsewhere."""
    need(ProgramLayers.LANDLOCK)
    may = {"read a file outside", "list a folder outside", "read through a link to outside"}
    expected = (REFUSED[ProgramLayers.LANDLOCK] - may) | REFUSED[ProgramLayers.NO_NEW_PRIVILEGES]
    assert outcomes(intruder, IN_A_DEBUGGER, tmp_path) == expected


# The programs of tiles themselves.

GNU = ("-D_GNU_SOURCE",)
EARLY = """
    #include <unistd.h>
    static int before;
    __attribute__((constructor)) static void begins(void) {
        before = access("/etc/passwd", R_OK) == 0 && ATTEMPT;
    }
    int main(void) { return before; }
"""


def test_a_program_is_held_before_its_first_instruction(tmp_path: Path) -> None:
    need(ProgramLayers.LANDLOCK)
    assert run_c(tmp_path, EARLY.replace("ATTEMPT", "1")) == 1  # files can be asked for
    assert run_c(tmp_path, EARLY.replace("ATTEMPT", '(fopen("/etc/passwd", "r") != NULL)')) == 0


def test_a_program_does_not_resize_the_memory_that_it_shares(tmp_path: Path) -> None:
    """Where it could, the simulator would be ended as it reads there."""
    text = """
        #include <unistd.h>
        int main(void) {
            int resized = 0;
            for (int each = 3; each < 64; each++) resized += !ftruncate(each, 0) + !ftruncate(each, 1 << 30);
            return resized;
        }
    """
    assert run_c(tmp_path, text, options=GNU) == 0


FORKS = """
    #include <signal.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    int main(void) {
        int pid = (int)syscall(SYS_fork);
        if (!pid) {
            for (int each = 0; each < KEPT; each++) close(each);
            for (;;) pause();
        }
        printf("%d\\n", pid);
        fflush(stdout);
        END;
    }
"""


@pytest.mark.parametrize("kept", [4096, 0], ids=["closes its pipe", "holds its pipe"])
@pytest.mark.parametrize(
    "end", ["return 0", "exit(0)", "raise(SIGKILL)", "for (int each = 3; each < 4096; each++) close(each)"]
)
def test_where_a_program_may_fork_what_it_began_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], end: str, kept: int
) -> None:
    """As where there is no seccomp, and root has no limit of processes."""
    monkeypatch.setattr(
        "aisrv.addons.firmware.tile_process.ALL", ~(ProgramLayers.SECCOMP | ProgramLayers.PROCESSES)
    )
    run_c(tmp_path, FORKS.replace("END", end).replace("KEPT", str(kept)), options=GNU)
    child = int(capfd.readouterr().out)
    assert child > 0
    status = Path(f"/proc/{child}/status")
    deadline = time.monotonic() + 30
    while status.exists() and "State:\tZ" not in status.read_text():  # nobody may wait for it
        assert time.monotonic() < deadline
        time.sleep(0.01)


DIES = """
    import os, sys
    from pathlib import Path
    from aisrv.addons.firmware.confined_process import start_confined
    from aisrv.addons.firmware.confinement import Confinement, ProgramLayers
    sleeps = start_confined(Confinement(ProgramLayers(0), Path("/")), ["sleep", "600"], env=os.environ)
    print(sleeps.pid, flush=True)
    sys.stdin.read()
"""


def test_a_process_dies_with_the_one_that_started_it() -> None:
    """By the launcher alone: this one knows nothing of tiles."""
    command = [sys.executable, "-c", dedent(DIES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path(f"/proc/{parent.stdout.readline().strip()}/status")
        assert child.exists()
        parent.kill()
    deadline = time.monotonic() + 30
    while child.exists() and "State:\tZ" not in child.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_memory_has_a_bound_and_a_program_goes_on_at_it(tmp_path: Path) -> None:
    text = """
        int main(void) {
            size_t taken = 0;
            char *volatile piece;
            while ((piece = malloc(1 << 20))) { piece[0] = 1; taken++; }
            return taken > 64 && taken < 1100 ? 0 : 1;
        }
    """
    assert run_c(tmp_path, text) == 0


def test_what_a_machine_lacks_is_said_once_and_programs_run_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("aisrv.addons.firmware.confinement.landlock_version", lambda: 0)
    monkeypatch.setattr("aisrv.inference.process.sandbox_layers.landlock_version", lambda: 0)
    warn_of_missing_layers.cache_clear()
    try:
        for _ in range(2):
            assert run_c(tmp_path, "int main(void) { return 0; }") == 0
    finally:
        warn_of_missing_layers.cache_clear()
    (record,) = caplog.records
    assert record.getMessage() == (
        "the sandbox of tasks in C is weaker than it could be: no Landlock (the kernel has none)"
    )


@pytest.mark.parametrize("end", [0, 30, -1])
def test_a_launcher_that_gets_less_than_all_rights_starts_nothing(tmp_path: Path, end: int) -> None:
    class Cut(Confinement, frozen=True):
        def __bytes__(self) -> bytes:
            return super().__bytes__()[:end]

    started = tmp_path / "started"
    with pytest.raises(FirmwareError, match=r"^the rights of a program: Invalid argument$"):
        start_confined(Cut(ALL, Path("/bin/sh")), ["/bin/sh", "-c", f"> {started}"], env={})
    assert not started.exists()


def test_a_folder_that_is_gone_starts_nothing(tmp_path: Path) -> None:
    need(ProgramLayers.LANDLOCK)
    confinement = Confinement(ALL, Path("/bin/true"), Rights(reads=(tmp_path / "gone",)))
    with pytest.raises(FirmwareError, match=r"gone: No such file or directory$"):
        start_confined(confinement, ["/bin/true"], env={})


def test_a_program_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match=r"none: No such file or directory$"):
        TileProcess(tmp_path / "none", 0)
