"""What `aisrv doctor` says of the C compiler, on machines that have none or one without 32 bits."""

from pathlib import Path

import pytest

from aisrv.addons.firmware import doctor
from aisrv.addons.firmware.addon import ADD_ON
from aisrv.addons.firmware.word_size import INSTALL
from aisrv.cli.doctor import Finding, State
from aisrv.values.addons import load


def test_a_machine_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    missing = "no C compiler is found: install gcc or clang, or name one in CC"
    assert doctor.check_compiler() == Finding(
        "C compiler", State.MISSING, missing, "sudo apt-get install gcc", doctor.C_USE
    )


def test_a_compiler_without_32_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    reason = f"{compiler} finds no headers and libraries of 32 bits"
    assert doctor.check_32_bits() == Finding("C of 32 bits", State.MISSING, reason, INSTALL, doctor.C_32_USE)


def test_no_compiler_has_32_bits_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "mycc")
    missing = "the compiler of CC, 'mycc', is not found"
    assert doctor.check_32_bits() == Finding(
        "C of 32 bits", State.MISSING, missing, "sudo apt-get install gcc", doctor.C_32_USE
    )


def test_it_is_asked_for_both() -> None:
    assert [finding.name for finding in load(ADD_ON.doctor)()] == ["C compiler", "C of 32 bits"]
