"""Kinds of engine that add-ons bring: the product's, one of another package, and what is left without any."""

import json
import os
import sys
from pathlib import Path

import pytest

from aisrv.protocol.engine_kind import KINDS
from aisrv.protocol.kind_variant import Variant
from aisrv.values.addons import load, ours
from tests.support.programs import AISRV, run_process

ADD_ON = """
from aisrv.values.addons import AddOn, Kind

ADD_ON = AddOn(
    engine_kinds={
        "tones": Kind("tones.interpreter:Tones", "tones.variant:TonesVariant", takes_fallback=True),
        "plain": Kind("tones.interpreter:Tones"),
    },
    doctor="tones.findings:findings",
)
"""
VARIANT = """
from dataclasses import dataclass

from aisrv.protocol.engine_kind import EngineKindError
from aisrv.protocol.kind_variant import Package, Variant


@dataclass(frozen=True, slots=True)
class TonesVariant(Variant):
    pitch: int | None = None

    @classmethod
    def parse(cls, text):
        if text and not text.isdecimal():
            raise EngineKindError(f"{text!r} is not a pitch")
        return cls(int(text) if text else None)

    def __str__(self):
        return "" if self.pitch is None else str(self.pitch)

    def refusal(self):
        return "99 is too high" if self.pitch == 99 else ""

    def implementation(self):
        return f"at {self.pitch or 1}"

    @classmethod
    def names(cls):
        return {"7": "tones-in-c"}
"""
INTERPRETER = """
from aisrv import digits
from aisrv.inference.interpreter import TensorLayout

IMAGE = len(digits.test_images()[0].image)


class Tones:
    def __init__(self, pitch=1):
        self._pitch = pitch

    def load(self, model, arena_bytes):
        return TensorLayout((IMAGE,), (10,))

    def set_input(self, number, data):
        self._first = data[0]

    def invoke(self):
        pass

    def get_input(self, number, into):
        pass

    def get_output(self, number, into):
        into[:] = bytes([(self._first * self._pitch) & 0xFF] * 10)
"""
FINDINGS = """
from aisrv.cli.doctor import Finding, State


def findings():
    yield Finding("tones", State.WORKS, "a tuning fork", use="music")
"""
RUN = """
import trio

from aisrv import digits
from aisrv.board import Board, EngineSpec
from aisrv.device.device import open_device
from aisrv.inference.process.isolation import isolated
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.protocol.engine_kind import EngineKind


IMAGE = digits.test_images()[0].image


async def main():
    board = Board(engines=(EngineSpec(kind=EngineKind.parse("tones:5")),))
    async with open_device(board, runner=isolated) as device:
        engine = device.local[0]
        print(await set_command(engine, Command.SET_MODEL_ARENA, 0, digits.model_bytes()))
        print(await set_command(engine, Command.SET_INPUT_TENSOR, 0, bytes([3]) * len(IMAGE)))
        print(await set_command(engine, Command.START_INFER))
        print((await get_command(engine, Command.GET_OUTPUT_TENSOR))[1].hex())


trio.run(main)
"""


@pytest.fixture
def package(tmp_path: Path) -> dict[str, str]:
    """An installed package of somebody else; the variables of processes that find it."""
    folder = tmp_path / "tones"
    folder.mkdir()
    modules = {"addon": ADD_ON, "variant": VARIANT, "interpreter": INTERPRETER, "findings": FINDINGS}
    for name, text in {"__init__": "", **modules}.items():
        (folder / f"{name}.py").write_text(text)
    about = tmp_path / "tones-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tones\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[aisrv.addons]\ntones = tones.addon:ADD_ON\n")
    return os.environ | {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.interpreter])
def test_places_of_kinds_are_there(name: str) -> None:
    assert callable(load(KINDS[name].interpreter).load)
    assert not KINDS[name].variant or issubclass(load(KINDS[name].variant), Variant)


@pytest.mark.parametrize("place", [place for each in ours() if (place := each.doctor)])
def test_places_of_findings_are_there(place: str) -> None:
    assert [finding.name for finding in load(place)()]


def test_a_kind_of_another_package_runs_a_model_on_a_device(package: dict[str, str]) -> None:
    done = run_process([sys.executable, "-c", RUN], env=package, check=True)
    assert done.stdout.split() == ["0", "0", "0", "0f" * 10]


def test_kinds_of_another_package_are_listed_with_their_variants(package: dict[str, str]) -> None:
    done = run_process([*AISRV, "backends", "--json"], env=package, check=True)
    listed = [each for each in json.loads(done.stdout) if each["origin"].startswith("tones")]
    assert listed == [
        {"name": "tones", "origin": "tones", "missing": None, "detail": "at 1"},
        {"name": "plain", "origin": "tones", "missing": None, "detail": None},
        {"name": "tones:7", "origin": "tones-in-c", "missing": None, "detail": "at 7"},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tones:high", "'high' is not a pitch"),
        ("tones:99", "--engine: 99 is too high"),
        ("plain:7", "'plain:7': plain takes no options"),
        ("noise", 'relocatable, none, tones, plain and "module:class"'),
    ],
)
def test_what_is_wrong_with_a_kind_of_another_package(
    text: str, message: str, package: dict[str, str]
) -> None:
    done = run_process([*AISRV, "exec", "--engine", text, "--", "true"], env=package)
    assert (done.returncode, message in " ".join(done.stderr.split())) == (2, True)


def test_a_kind_of_another_package_has_a_fallback(package: dict[str, str]) -> None:
    words = ["exec", "--engine", "tones", "--fallback", "tflite", "--", "true"]
    run_process([*AISRV, *words], env=package, check=True)


def test_kinds_of_another_package_complete(package: dict[str, str]) -> None:
    variables = {"_AISRV_COMPLETE": "bash_complete", "COMP_WORDS": "aisrv run --engine to", "COMP_CWORD": "3"}
    done = run_process([*AISRV], env=package | variables, check=True)
    assert done.stdout == "plain,tones\n"


def test_doctor_has_what_another_package_finds(package: dict[str, str]) -> None:
    script = "from aisrv.cli.doctor import check_add_ons; print([each.name for each in check_add_ons()])"
    done = run_process([sys.executable, "-c", script], env=package, check=True)
    assert done.stdout.endswith("'native kernels', 'tones']\n")


# Without kernels.

WITHOUT = """
import importlib.util, sys
from aisrv.values import addons

addons.NAMES = tuple(name for name in addons.NAMES if name != "kernels")
sys.modules["aisrv.addons.kernels"] = None  # which nothing can import any more
"""


def test_without_kernels_the_default_is_tflite_even_where_nothing_is_installed() -> None:
    script = (
        f"{WITHOUT}\nfind = importlib.util.find_spec\n"
        "missing = ('tflite_runtime', 'ai_edge_litert')\n"
        "importlib.util.find_spec = lambda name: None if name in missing else find(name)\n"
        "from aisrv.protocol.engine_kind import ENGINE_KINDS, default_kind\n"
        "print(default_kind(), *ENGINE_KINDS)"
    )
    done = run_process([sys.executable, "-c", script], check=True)
    assert done.stdout.split() == ["tflite", "tflite", "litert", "tflm", "xcore", "none"]


def test_without_kernels_a_device_runs_a_model() -> None:
    script = f"{WITHOUT}\nfrom aisrv.cli.main import main\nmain(['demo', '--count', '1'])"
    done = run_process([sys.executable, "-c", script], check=True)
    assert done.stdout
