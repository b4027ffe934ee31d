"""Plans: what a run depends on, and folders that hold another one."""

import copy
from pathlib import Path

import pytest

from aisrv import digits
from aisrv.addons.evaluate.data.arrays import digits_data
from aisrv.addons.evaluate.folder.hashes import write_list
from aisrv.addons.evaluate.folder.plan import (
    ModelFile,
    PlanError,
    folder_name,
    make_plan,
    open_folder,
    plan_bytes,
    plan_hash,
    read_plan,
    versions,
)
from aisrv.addons.evaluate.inputs.settings import InputSettings
from aisrv.protocol.engine_kind import EngineKind


def plan() -> dict:  # type: ignore[type-arg]
    model = ModelFile("digits.tflite", digits.model_bytes())
    inputs = (InputSettings(kind="raw"),)
    return make_plan(model, digits_data("digits"), (), inputs, EngineKind("tflm"), "engine", "classes")


def test_a_folder_keeps_its_plan(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "x"
    open_folder(folder, plan())
    open_folder(folder, plan())
    assert (folder / "plan.json").read_bytes() == plan_bytes(plan())
    assert read_plan(folder) == plan()
    assert folder_name(plan(), "2026-11-23") == f"2026-11-23-digits-{plan_hash(plan())[:8]}"
    assert set(plan()["versions"]) == {"aisrv", "numpy", "pyarrow", "tflite-micro"}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("model", "sha256"), "91bc" + "0" * 60, "model sha256 {} there, 91bc… here"),
        (("data", "listing_sha256"), "91bc" + "0" * 60, "data listing_sha256 {} there, 91bc… here"),
        (("versions", "pyarrow"), "99.0", "pyarrow 99.0 here, the plan has {}"),
        (("engine",), "litert", 'engine "tflm" there, "litert" here'),
        (("shard",), 5, "shard 1000 there, 5 here"),
    ],
)
def test_another_plan_is_refused_in_these_words(
    path: tuple[str, ...], value: object, words: str, tmp_path: Path
) -> None:
    open_folder(tmp_path / "x", plan())
    other = copy.deepcopy(plan())
    place = other
    for step in path[:-1]:
        place = place[step]
    before = str(place[path[-1]])
    place[path[-1]] = value
    shown = f"{before[:4]}…" if len(before) == 64 else before
    with pytest.raises(PlanError) as error:
        open_folder(tmp_path / "x", other)
    assert str(error.value) == f"{tmp_path / 'x'} holds another plan: {words.format(shown)}"


def test_a_damaged_plan_is_written_again_where_the_list_has_its_hash(tmp_path: Path) -> None:
    open_folder(tmp_path / "x", plan())
    path = tmp_path / "x" / "plan.json"
    path.write_bytes(plan_bytes(plan()).replace(b'"tflm"', b'"tflx"'))
    with pytest.raises(PlanError, match='engine "tflx" there, "tflm" here'):
        open_folder(tmp_path / "x", plan())
    path.write_bytes(plan_bytes(plan()))
    write_list(tmp_path / "x", ["plan.json"])
    for content in (path.read_bytes().replace(b'"tflm"', b'"tflx"'), b"{"):
        path.write_bytes(content)
        open_folder(tmp_path / "x", plan())
        assert path.read_bytes() == plan_bytes(plan())
    path.unlink()
    open_folder(tmp_path / "x", plan())
    assert path.read_bytes() == plan_bytes(plan())


@pytest.mark.parametrize(
    ("settings", "packages"),
    [
        (InputSettings(kind="audio", frontend="mfcc"), set()),
        (InputSettings(kind="audio", frontend="micro_speech"), {"tflite-micro"}),
        (InputSettings(kind="audio", frontend="microwakeword", step=160), {"pymicro-features"}),
    ],
)
def test_a_plan_names_what_makes_features(settings: InputSettings, packages: set[str]) -> None:
    found = versions(EngineKind("kernels"), (settings,))
    assert found.keys() == {"aisrv", "numpy", "pyarrow"} | packages


def test_another_front_end_under_the_same_name_is_another_plan(tmp_path: Path) -> None:
    path = tmp_path / "own.tflite"
    hashes = []
    for content in (b"one", b"other"):
        path.write_bytes(content)
        inputs = (InputSettings(kind="audio", frontend=str(path)),)
        model = ModelFile("digits.tflite", digits.model_bytes())
        made = make_plan(model, digits_data("digits"), (), inputs, EngineKind("kernels"), "engine", "classes")
        hashes.append(plan_hash(made))
    assert hashes[0] != hashes[1]


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"")
    with pytest.raises(PlanError, match="holds other files, and no run"):
        open_folder(tmp_path, plan())
    with pytest.raises(PlanError, match=r"holds no run: plan\.json: No such file"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(PlanError, match="not a plan of the format aisrv-run/1"):
        read_plan(tmp_path)
