"""The certificate of `aisrv fleet up`: where it is, who finds it, and how long it is there."""

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from aisrv.addons.evaluate.certificate import certificate_folder, certificate_path, find_certificate

NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


def test_it_is_below_the_users_runtime_directory_and_goes_at_the_end(runtime: Path) -> None:
    with certificate_folder() as folder:
        assert folder.parent == runtime
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert find_certificate(8786) is None
        certificate_path(folder, 8786).write_bytes(b"")
        assert find_certificate(8786) == folder / "fleet-8786.pem"
        assert find_certificate(8787) is None
    assert find_certificate(8786) is None
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize("value", [None, "", "relative", "/nowhere/at/all"])
def test_without_a_runtime_directory_it_is_among_temporary_files(
    value: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    temporary = tmp_path_factory.mktemp("t")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    if value is None:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
    else:
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    with certificate_folder() as folder:
        assert folder.parent == temporary
        certificate_path(folder, 8786).write_bytes(b"")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("other")))  # as in another session
        assert find_certificate(8786) == folder / "fleet-8786.pem"


def in_child(do: Callable[[], bool]) -> bool:
    """Call a function in a process of its own; return what it returns."""
    child = os.fork()
    if not child:
        done = False
        try:
            done = do()
        finally:
            os._exit(0 if done else 1)
    return os.waitpid(child, 0)[1] == 0


def test_that_of_a_killed_process_is_neither_found_nor_kept(runtime: Path) -> None:
    def hold() -> bool:
        with certificate_folder() as folder:
            certificate_path(folder, 8786).write_bytes(b"")
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    assert not in_child(hold)
    (left,) = runtime.iterdir()
    assert (left / "fleet-8786.pem").exists()
    assert find_certificate(8786) is None
    with certificate_folder() as folder:
        assert list(runtime.iterdir()) == [folder]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: folder.chmod(0o755),
        pytest.param(lambda folder: os.chown(folder, NOBODY, NOBODY), marks=as_root),
    ],
)
def test_a_directory_that_others_may_have_written_is_not_taken(change: Callable[[Path], None]) -> None:
    with certificate_folder() as folder:
        certificate_path(folder, 8786).write_bytes(b"")
        change(folder)
        assert find_certificate(8786) is None


@as_root
def test_another_user_neither_finds_nor_reads_it(runtime: Path) -> None:
    for place in (runtime, *runtime.parents):  # so that nothing but the directory itself is in the way
        if place.stat().st_uid == os.geteuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o055)
    with certificate_folder() as folder:
        path = certificate_path(folder, 8786)
        path.write_bytes(b"")

        def look() -> bool:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                path.read_bytes()
            except PermissionError:
                return runtime.is_dir() and find_certificate(8786) is None
            return False

        assert in_child(look)
