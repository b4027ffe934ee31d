"""What `aisrv doctor` finds on this machine, and on machines that lack something."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisrv.attach.preload import server as preload_server
from aisrv.cli import doctor
from aisrv.cli.doctor import RULE, Finding, State
from aisrv.inference.process.sandbox_layers import SandboxLayer, sandbox_layers
from aisrv.protocol.engine_kind import EngineKind, default_kind


async def found(*findings: Finding) -> list[Finding]:
    return list(findings)


WORKS = Finding("python", State.WORKS, "3.11 on Linux")
MISSING = Finding("libusb", State.MISSING, "no libusb", "sudo apt-get install libusb-1.0-0")
BROKEN = Finding("engine tflite", State.BROKEN, "it died")


def test_this_machine_runs_models() -> None:
    done = CliRunner().invoke(doctor.doctor, ["--json"])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    by_name = {finding["name"]: finding for finding in report["findings"]}
    assert report["works"] is True
    assert by_name[f"engine {default_kind()}"] == {
        "name": f"engine {default_kind()}",
        "state": "works",
        "detail": "classifies a digit, the default",
        "helps": None,
    }
    assert by_name["engine kernels"]["state"] == "works"
    assert {f"sandbox {layer.name}" for layer in sandbox_layers()} < set(by_name)
    assert {"python", "libusb", "udev rule", "umockdev", "vhci", "extra images"} < set(by_name)


@pytest.mark.parametrize(
    ("findings", "code", "verdict"),
    [
        ((WORKS,), 0, "devices run models here; 0 things that some uses need are missing"),
        ((WORKS, MISSING), 0, "devices run models here; 1 things that some uses need are missing"),
        (
            (WORKS, BROKEN, MISSING),
            1,
            "devices do not run models here; 1 things that some uses need are missing",
        ),
    ],
)
def test_only_what_no_device_can_do_without_makes_it_fail(
    findings: tuple[Finding, ...], code: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: found(*findings))
    done = CliRunner().invoke(doctor.doctor)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (code, verdict)
    report = CliRunner().invoke(doctor.doctor, ["--json"])
    assert (report.exit_code, json.loads(report.stdout)["works"]) == (code, code == 0)


def test_the_command_that_helps_is_below_what_is_missing() -> None:
    assert doctor.show([WORKS, MISSING]).splitlines() == [
        "works    python  3.11 on Linux",
        "missing  libusb  no libusb",
        "                 > sudo apt-get install libusb-1.0-0",
    ]


async def test_an_engine_without_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = EngineKind("tests.cli.test_doctor:Absent")
    finding = await doctor.check_engine(kind)
    assert (finding.state, finding.helps) == (State.MISSING, None)
    assert "no such engine" in finding.detail
    monkeypatch.setattr(doctor, "default_kind", lambda: kind)
    assert (await doctor.check_engine(kind)).state is State.BROKEN


class Absent:
    def __init__(self) -> None:
        raise ImportError("no such engine")


def test_extras_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"images": ("json", "not_there"), "spi": ("json",)})
    assert list(doctor.check_extras()) == [
        Finding("extra images", State.MISSING, "no not_there", 'pip install "aisrv[images]"'),
        Finding("extra spi", State.WORKS, "json"),
    ]


def test_layers_that_do_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = (
        SandboxLayer("Landlock", False, "the kernel has none"),
        SandboxLayer("seccomp", False, "libseccomp is missing: install libseccomp2"),
    )
    monkeypatch.setattr(doctor, "sandbox_layers", lambda: layers)
    landlock, seccomp = doctor.check_sandbox()
    assert (landlock.state, landlock.helps) == (State.MISSING, None)
    assert (seccomp.state, seccomp.helps) == (State.MISSING, "sudo apt-get install libseccomp2")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (RULE, State.WORKS),
        ("# " + RULE, State.MISSING),
        (RULE.replace("a15e", "a15f"), State.MISSING),
        ("", State.MISSING),
        ("\xff\n" + RULE, State.WORKS),
    ],
)
def test_udev_rules(text: str, state: State, tmp_path: Path) -> None:
    (tmp_path / "70-board.rules").write_bytes(text.encode("latin-1"))
    finding = doctor.check_rule([str(tmp_path / "absent"), str(tmp_path)])
    assert finding.state is state
    if state is State.MISSING:
        assert finding.helps is not None
        assert RULE in finding.helps


def test_kernel_without_the_controller(tmp_path: Path) -> None:
    assert doctor.check_vhci(tmp_path / "absent").helps == "sudo modprobe vhci-hcd"
    (tmp_path / "attach").touch()
    assert doctor.check_vhci(tmp_path) == Finding(
        "vhci", State.WORKS, "`aisrv attach` can plug a device into the kernel"
    )


async def test_machine_without_umockdev(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload_server, "_PRELOAD_VARIABLE", "NOT_PRELOADED")
    finding = await doctor.check_preload()
    assert (finding.state, finding.helps) == (State.MISSING, "sudo apt-get install umockdev")


def test_other_systems_are_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_python().state is State.WORKS
    monkeypatch.setattr(sys, "platform", "darwin")
    assert doctor.check_python().state is State.BROKEN
