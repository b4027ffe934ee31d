"""What workers find in a run's folder, and what they refuse."""

import json
import os
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.evaluation import plan_of
from aisrv.addons.evaluate.fleet.job import JobError, read_work, write_job
from aisrv.addons.evaluate.fleet.tasks import run_shard
from aisrv.addons.evaluate.folder.plan import open_folder, plan_hash
from aisrv.addons.evaluate.folder.sealed import seal, unseal
from aisrv.addons.evaluate.request import Request, load
from tests.support.amounts import in_ci


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of 30 examples of an archive, in shards of 20, that nobody has begun."""
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    images = np.array([np.frombuffer(each.image, np.int8) for each in digits.test_images()[:40]])
    labels = np.array([each.label for each in digits.test_images()[:40]])
    np.savez(tmp_path / "data.npz", x=images, y=labels)
    request = Request(tmp_path / "digits.tflite", str(tmp_path / "data.npz"), limit=30, shard=20)
    loaded = load(request)
    open_folder(tmp_path / "run", plan_of(request, loaded))
    write_job(tmp_path / "run", request, loaded)
    return tmp_path / "run"


def test_a_worker_has_the_examples_of_its_shard(folder: Path) -> None:
    work = read_work(folder)
    data = work.examples(20, 30)
    wanted = [np.frombuffer(each.image, np.int8) for each in digits.test_images()[20:30]]
    assert np.array_equal(data.arrays[0], wanted)
    assert work.labels(20, 30).tolist() == [each.label for each in digits.test_images()[20:30]]
    assert work.labels(5, 8).tolist() == [each.label for each in digits.test_images()[5:8]]
    assert data.mapped is not None
    content = data.mapped.path.read_bytes()
    assert content[data.mapped.offset :][:64] == wanted[0].tobytes()


def change_plan(folder: Path, *path: str, to: object) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    place = plan
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    (folder / "plan.json").write_text(json.dumps(plan))
    job = unseal((folder / "fleet" / "job.json").read_bytes())
    (folder / "fleet" / "job.json").write_bytes(seal(job | {"plan": plan_hash(plan)}))


def test_other_versions_are_refused_in_these_words(folder: Path) -> None:
    here = json.loads((folder / "plan.json").read_text())["versions"]["pyarrow"]
    change_plan(folder, "versions", "pyarrow", to="99.0.1")
    with pytest.raises(JobError, match=rf"^pyarrow {here} here, the plan has 99\.0\.1$"):
        read_work(folder)
    done = run_shard(str(folder), 0, 0, 20)
    assert done["problem"] == f"pyarrow {here} here, the plan has 99.0.1"
    assert not list((folder / "parts").iterdir() if (folder / "parts").exists() else [])


def test_another_model_is_refused(folder: Path) -> None:
    (folder / "fleet" / "model.tflite").write_bytes(digits.two_output_model_bytes())
    with pytest.raises(JobError, match=r"^model sha256 [0-9a-f]{4}… there, [0-9a-f]{4}… here$"):
        read_work(folder)


def test_changed_data_are_refused(folder: Path) -> None:
    with np.load(folder.parent / "data.npz") as arrays:
        changed = dict(arrays)
    changed["x"] = changed["x"][::-1].copy()
    np.savez(folder.parent / "data.npz", **changed)
    with pytest.raises(JobError, match=r"^data listing_sha256 [0-9a-f]{4}… there, [0-9a-f]{4}… here$"):
        read_work(folder)


@pytest.mark.parametrize(
    "name", ["plan.json", "fleet/job.json", "fleet/examples.parquet", "fleet/model.tflite"]
)
def test_each_flipped_byte_of_what_a_worker_reads_is_refused(name: str, folder: Path) -> None:
    path = folder / name
    content = path.read_bytes()
    dice = random.Random(name)
    for place in [0, len(content) - 1, *dice.sample(range(len(content)), in_ci(len(content), every_day=12))]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << dice.randrange(8)
        path.write_bytes(flipped)
        with suppress(EvaluateError):
            found = read_work(folder).labels(20, 30).tolist()
            assert name == "fleet/examples.parquet"  # which is read in parts: others may be damaged
            assert found == [each.label for each in digits.test_images()[20:30]]


def test_data_that_are_not_there_are_said(folder: Path) -> None:
    (folder.parent / "data.npz").rename(folder.parent / "other.npz")
    assert "data.npz is not there: data must be on a" in run_shard(str(folder), 0, 0, 20)["problem"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = run_shard(str(tmp_path / "none"), 0, 0, 20)
    assert done["problem"] == f"{tmp_path}/none/fleet/job.json: No such file or directory"
    assert done["worker"] == os.uname().nodename
