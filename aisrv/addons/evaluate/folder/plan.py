"""The plan of a run: all that its answers depend on. Its hash names the run; another plan is another run."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.folder.hashes import HashError, read_list, sha256
from aisrv.addons.evaluate.inputs.settings import FRONT_ENDS, MFCC, MICRO_WAKE_WORD, InputSettings
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.regular_file import read_regular
from aisrv.values.version import __version__
from aisrv.values.whole_file import remove_left, write_whole

FORMAT: Final = "aisrv-run/1"
PLAN_FILE: Final = "plan.json"
SHARD: Final = 1000
"""Examples of a part."""

_ENGINE_PACKAGES: Final = {
    "tflite": "tflite-runtime" if sys.version_info < (3, 12) else "ai-edge-litert",
    "litert": "ai-edge-litert",
    "tflm": "tflite-micro",
    "xcore": "xmos-ai-tools",
}
_FRONT_END_PACKAGES: Final = {"": None, MFCC: None, MICRO_WAKE_WORD: "pymicro-features"}
"""Of the front ends that are no models."""
_HASH_DIGITS: Final = 8


class PlanError(EvaluateError):
    """A folder that holds another run."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model by its name, and its bytes."""

    name: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Hash of its bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def stem(self) -> str:
        """The name without folders and ending."""
        return Path(self.name).stem


def make_plan(
    model: ModelFile,
    data: DataSet,
    classes: tuple[str, ...],
    inputs: tuple[InputSettings, ...],
    engine: EngineKind,
    on: str,
    task: str,
    shard: int = SHARD,
) -> dict[str, Any]:
    """Return the plan as JSON has it.

    `classes` are the names of the classes, `inputs` the settings of each input, `on` says where the model
    runs, `task` what is computed, and `shard` is the examples of a part.
    """
    return {
        "format": FORMAT,
        "model": {"name": model.name, "sha256": model.sha256, "bytes": len(model.data)},
        "data": {
            "uri": data.uri,
            "kind": data.kind,
            "examples": len(data),
            "listing_sha256": data.listing_sha256,
            "classes": list(classes),
        },
        "inputs": [input_values(each) for each in inputs],
        "engine": str(engine),
        "on": on,
        "task": task,
        "seed": 0,
        "shard": shard,
        "versions": versions(engine, inputs),
    }


def input_values(settings: InputSettings) -> dict[str, Any]:
    """Return the settings of an input, with the hash of a front end that is the user's file."""
    found = settings.values()
    if settings.frontend and settings.frontend not in FRONT_ENDS:
        found["frontend_sha256"] = hashlib.sha256(read_regular(settings.frontend)).hexdigest()
    return found


def versions(engine: EngineKind, inputs: Sequence[InputSettings]) -> dict[str, str]:
    """Return the versions of all that answers, and the bytes of parts, depend on.

    `inputs` are the settings of each input.
    """
    found = {"aisrv": __version__, "numpy": np.__version__}
    if any(each.kind == "image" for each in inputs):
        from PIL import __version__ as pillow
        from PIL import features

        found["pillow"] = pillow
        jpeg = features.version("libjpeg_turbo")
        if jpeg is not None:
            found["libjpeg_turbo"] = jpeg
    packages = {"pyarrow", _ENGINE_PACKAGES.get(engine.name)}
    for each in inputs:
        packages.add(_FRONT_END_PACKAGES.get(each.frontend, _ENGINE_PACKAGES["tflm"]))
    for package in sorted(filter(None, packages)):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def plan_bytes(plan: dict[str, Any]) -> bytes:
    """Return a plan as the bytes of its file, of which its hash is made."""
    return (json.dumps(plan, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()


def plan_hash(plan: dict[str, Any]) -> str:
    """Return the SHA-256 of a plan."""
    return hashlib.sha256(plan_bytes(plan)).hexdigest()


def folder_name(plan: dict[str, Any], date: str) -> str:
    """Return the name of the folder of a new run on a day, as 2026-11-23-digits-1575bbaf.

    `plan` is the run's, and `date` the day.
    """
    stem = Path(plan["model"]["name"]).stem
    return f"{date}-{stem}-{plan_hash(plan)[:_HASH_DIGITS]}"


def read_plan(folder: Path) -> dict[str, Any]:
    """Return the plan of a run's folder; PlanError where it holds none."""
    path = folder / PLAN_FILE
    try:
        content = read_regular(path)
    except OSError as error:
        raise PlanError(f"{folder} holds no run: {PLAN_FILE}: {error.strerror}") from None
    return parse_plan(content, path)


def parse_plan(content: bytes, path: Path) -> dict[str, Any]:
    """Return the plan that a file holds; PlanError. `path` is where it is."""
    try:
        plan = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path}: {error}") from None
    if not isinstance(plan, dict) or plan.get("format") != FORMAT:
        raise PlanError(f"{path}: not a plan of the format {FORMAT}")
    return plan


def open_folder(folder: Path, plan: dict[str, Any]) -> None:
    """Make a run's folder, or check that it holds the same plan; PlanError, OSError.

    A plan that is damaged is written again where the folder's list says that it was this one.
    """
    path, content = folder / PLAN_FILE, plan_bytes(plan)
    if path.is_file() and read_regular(path) == content:
        return
    if folder.is_dir():
        remove_left(folder)  # of a run that was killed before it had a plan
    if not _was_listed(folder, content):
        if path.exists():
            difference = plan_difference(read_plan(folder), plan)
            if difference:
                raise PlanError(f"{folder} holds another plan: {difference}")
        elif folder.is_dir() and any(folder.iterdir()):
            raise PlanError(f"{folder} holds other files, and no run")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, [content])


def _was_listed(folder: Path, content: bytes) -> bool:
    """Return whether a folder's list has the hash of a plan."""
    try:
        return read_list(folder).get(PLAN_FILE) == sha256(content)
    except HashError:
        return False


def plan_difference(there: dict[str, Any], here: dict[str, Any], path: str = "") -> str:
    """Describe the first thing in which two plans differ; packages of other versions by their own words."""
    for key in sorted({*there, *here}):
        name = f"{path} {key}".strip()
        before, now = there.get(key), here.get(key)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            return plan_difference(before, now, name)
        if path == "versions":
            return f"{key} {now or 'is not installed'} here, the plan has {before or 'none'}"
        return f"{name} {_short(before)} there, {_short(now)} here"
    return ""


def _short(value: object) -> str:
    if isinstance(value, str) and len(value) == 64:
        return f"{value[:4]}\N{HORIZONTAL ELLIPSIS}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
