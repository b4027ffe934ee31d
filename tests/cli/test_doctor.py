"""What `aisrv doctor` finds on this machine, and on machines that lack something."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisrv.attach.preload import server as preload_server
from aisrv.cli import doctor
from aisrv.cli.doctor import RULE, Finding, State
from aisrv.cli.extra_modules import Extra
from aisrv.inference.process.sandbox_layers import SandboxLayer, sandbox_layers
from aisrv.protocol.engine_kind import EngineKind, default_kind
from aisrv.values.addons import AddOn
from aisrv.values.extras import install_command


async def found(*findings: Finding) -> list[Finding]:
    return list(findings)


WORKS = Finding("python", State.WORKS, "3.11 on Linux")
MISSING = Finding("libusb", State.MISSING, "no libusb", "sudo apt-get install libusb-1.0-0", "hardware")
FOUND = Finding("rule", State.WORKS, "70-board.rules", use="users")
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
        "use": "",
    }
    assert {name for name, finding in by_name.items() if not finding["use"]} == {
        "python",
        f"engine {default_kind()}",
    }
    assert by_name["engine kernels"]["state"] == "works"
    assert {f"sandbox {layer.name}" for layer in sandbox_layers()} < set(by_name)
    assert {"python", "libusb", "udev rule", "umockdev", "vhci", "extra images"} < set(by_name)


@pytest.mark.parametrize(
    ("findings", "code", "verdict"),
    [
        ((WORKS,), 0, "devices run models here; nothing is missing"),
        ((WORKS, MISSING), 0, "devices run models here; 1 thing that only some uses need is missing"),
        (
            (WORKS, BROKEN, MISSING),
            1,
            "devices do not run models here; 1 thing that only some uses need is missing",
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


def test_what_is_needed_is_first_and_the_command_that_helps_below_what_is_missing() -> None:
    assert [line.plain for line in doctor.show([MISSING, WORKS, FOUND, MISSING])] == [
        "Every device needs",
        "  works    python  3.11 on Linux",
        "",
        "Only some uses need",
        "  works    rule    users (70-board.rules)",
        "  missing  libusb  hardware: no libusb",
        "                   sudo apt-get install libusb-1.0-0",
        "  missing  libusb  hardware: no libusb",
        "                   sudo apt-get install libusb-1.0-0",
        "",
        "devices run models here; 2 things that only some uses need are missing",
    ]


@pytest.mark.parametrize(
    ("finding", "color"), [(WORKS, "green"), (MISSING, "yellow"), (BROKEN, "bold red")], ids=str
)
def test_states_have_colors(finding: Finding, color: str) -> None:
    (line,) = [line for line in doctor.show([finding]) if line.plain.startswith(f"  {finding.state}")]
    assert [(str(span.style), line.plain[span.start : span.end].strip()) for span in line.spans] == [
        (color, str(finding.state))
    ]


def test_commands_that_help_stay_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    command = " ".join(["echo"] * 100)
    monkeypatch.setattr(
        doctor, "examine", lambda: found(Finding("rule", State.MISSING, "none", command, "a"))
    )
    done = CliRunner().invoke(doctor.doctor, env={"COLUMNS": "40"})
    assert command in [line.strip() for line in done.stdout.splitlines()]


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


EXTRAS_HERE = {"images": Extra(("json", "not_there"), "pictures"), "spi": Extra(("json",), "SPI")}
WORDS = "not_there: No module named 'not_there'"


def test_extras_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", EXTRAS_HERE)
    assert list(doctor.check_extras()) == [
        Finding("extra images", State.MISSING, WORDS, install_command("images"), "pictures"),
        Finding("extra spi", State.WORKS, "json", use="SPI"),
    ]


def test_add_ons_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    add_ons = AddOn(), AddOn(doctor=f"{__name__}:findings_of_a_toy")
    monkeypatch.setattr(doctor, "ours", lambda: add_ons)
    monkeypatch.setattr(doctor, "others", lambda: add_ons[1:])
    assert list(doctor.check_add_ons()) == [FOUND, MISSING] * 2


def findings_of_a_toy() -> Iterator[Finding]:
    yield FOUND
    yield MISSING


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
        "vhci", State.WORKS, "this kernel takes devices", use="aisrv attach"
    )


async def test_machine_without_umockdev(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload_server, "_PRELOAD_VARIABLE", "NOT_PRELOADED")
    finding = await doctor.check_preload()
    assert (finding.state, finding.helps) == (State.MISSING, "sudo apt-get install umockdev")


def test_other_systems_are_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_python().state is State.WORKS
    monkeypatch.setattr(sys, "platform", "darwin")
    assert doctor.check_python().state is State.BROKEN
