"""What a model that has taken over its interpreter can reach: nothing outside of its process."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

from aisrv import digits
from aisrv.inference.process import sandbox_layers
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.inference.process.sandbox import Layers, Sandbox
from aisrv.inference.process.sandbox_layers import landlock_version, sandbox, sandbox_line
from aisrv.inference.process.sandbox_layers import sandbox_layers as describe
from aisrv.protocol.engine_kind import EngineKind
from tests.support.benches import intruder
from tests.support.benches.engines import need
from tests.support.models import native, networks
from tests.support.models.relocatable import digits_image
from tests.support.programs import missing

KINDS = {
    "tflite": "Intruder",
    "litert": "Litert",
    "tflm": "Tflm",
    "xcore": "Xcore",
    "kernels": "Kernels",
    "kernels:native": "Native",
    "one that compiles": "Compiling",
}
EMULATORS = {"relocatable": "Relocatable", "foreign": "Foreign"}
"""Those that make code as they run, and start threads."""
PACKAGES = {
    "relocatable": "unicorn",
    "foreign": "unicorn",
    "litert": "ai_edge_litert",
    "tflm": "tflite_micro",
    "xcore": "xmos_ai_tools",
}
ARENA = 1 << 20


def needs_seccomp() -> None:
    if Layers.SECCOMP not in sandbox().layers:
        missing(f"the sandbox is not whole here: {sandbox_line()}")


async def attempts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What became of each attempt; the model's results are checked as well."""
    monkeypatch.setenv("AISRV_TEST_VICTIM", str(os.getpid()))
    monkeypatch.setenv("AISRV_TEST_PLACE", str(tmp_path))
    printed: list[str] = []
    runner = IsolatedInterpreter(
        printed.append, EngineKind(f"tests.support.benches.intruder:{(KINDS | EMULATORS)[kind]}")
    )
    model = digits_image() if kind == "relocatable" else digits.model_bytes()
    image, _ = digits.test_images()[0]
    try:
        await runner.load(model, ARENA)
        for _ in range(2):
            runner.input(0)[:] = image
            await runner.invoke()
        assert bytes(runner.output(0)) == networks.run(digits.model_bytes(), image)[0]
    finally:
        await runner.close()
    lines = [line for text in printed for line in text.splitlines()]
    found = [re.fullmatch(r"(refused|could) ([^:]*)(?:: .*)?", line) for line in lines]
    return {each[2]: each[1] for each in found if each}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_model_that_took_over_its_interpreter_gets_nowhere(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_seccomp()
    if kind == "xcore":
        need(kind)
    if kind == "kernels:native":
        native.library()
    if kind in PACKAGES and importlib.util.find_spec(PACKAGES[kind]) is None:
        pytest.skip(f"no {PACKAGES[kind]}")
    got = await attempts(kind, tmp_path, monkeypatch)
    assert got == dict.fromkeys(intruder.ATTEMPTS, "refused")
    assert not (tmp_path / "intruder").exists()


@pytest.mark.parametrize("kind", EMULATORS)
async def test_an_emulator_may_make_code_and_threads_and_nothing_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_seccomp()
    if importlib.util.find_spec(PACKAGES[kind]) is None:
        pytest.skip(f"no {PACKAGES[kind]}")
    got = await attempts(kind, tmp_path, monkeypatch)
    allowed = {"start a thread", "map code"}
    assert {name for name, outcome in got.items() if outcome == "could"} == allowed
    assert got.keys() == intruder.ATTEMPTS.keys()
    assert not (tmp_path / "intruder").exists()


async def test_landlock_and_limits_where_libseccomp_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if landlock_version() < 4:
        missing(f"Landlock of version 4 is not there: {sandbox_line()}")
    whole = sandbox()
    monkeypatch.setitem(
        sandbox_layers._prepared, False, Sandbox(whole.layers & ~Layers.SECCOMP, landlock_version())
    )
    got = await attempts("tflite", tmp_path, monkeypatch)
    could = {name for name, outcome in got.items() if outcome == "could"}
    more = "make a file in memory", "leave the session", "mount"  # whose folder does not exist
    assert could <= {*intruder.MAY_WHERE_LANDLOCK_IS_ALL, *more}
    assert len(got) == len(intruder.ATTEMPTS)


async def test_without_any_layer_it_gets_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The intruder is no paper tiger: what the layers are for does work without them."""
    monkeypatch.setitem(sandbox_layers._prepared, False, Sandbox(Layers(0)))
    printed = await _unconfined(tmp_path, monkeypatch)
    for name in (
        "read a file",
        "write a file",
        "send by UDP",
        "start a program",
        "signal the device",
        "map code",
    ):
        assert f"could {name}" in printed
    # Of what no layer is for.
    assert "refused seal a file" in printed


async def _unconfined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AISRV_TEST_VICTIM", str(os.getpid()))
    monkeypatch.setenv("AISRV_TEST_PLACE", str(tmp_path))
    monkeypatch.setenv("AISRV_TEST_SPARE", "become a program,mount,trace the device,resize the tensors,fork")
    printed: list[str] = []
    runner = IsolatedInterpreter(printed.append, EngineKind("tests.support.benches.intruder:Intruder"))
    try:
        await runner.load(digits.model_bytes(), ARENA)
        await runner.invoke()
    finally:
        await runner.close()
    return "".join(printed)


def test_layers_are_told() -> None:
    needs_seccomp()
    names = [layer.name for layer in describe() if layer.holds]
    assert names[:2] == ["no-new-privs", "limits"]
    assert names[-1] == "seccomp"
    assert ("nobody" in names) == (os.geteuid() == 0)


def test_missing_library_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "libseccomp is missing: install libseccomp2"
    monkeypatch.setattr(sandbox_layers, "seccomp_binding", lambda: reason)
    assert f"no seccomp ({reason})" in sandbox_line()


@pytest.mark.parametrize("program", [b"", b"x" * 8, b"y" * 4000])
def test_sandbox_crosses_the_socket(program: bytes) -> None:
    whole = Sandbox(Layers.LIMITS | Layers.SECCOMP, 7, program[:2000], program)
    assert Sandbox.from_bytes(bytes(whole)) == whole
