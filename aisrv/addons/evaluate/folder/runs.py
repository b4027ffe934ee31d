"""Runs that are there: read, checked against their hashes, and compared with each other."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.figures import Task, part_classes
from aisrv.addons.evaluate.folder.hashes import (
    ENDING,
    LIST_FILE,
    HashError,
    list_problems,
    read_hashed,
    read_list,
    read_listed,
    write_list,
)
from aisrv.addons.evaluate.folder.part_format import PartError, PartFormat, PartRows
from aisrv.addons.evaluate.folder.parts import PARTS, PartFile, load_part, part_name
from aisrv.addons.evaluate.folder.plan import FORMAT, PLAN_FILE, parse_plan, plan_hash, read_plan
from aisrv.addons.evaluate.terminal import figure
from host_tools.tensors.tensor_spec import TensorSpec

RESULT_FILE: Final = "result.json"
LISTED_FILES: Final = (
    PLAN_FILE,
    RESULT_FILE,
    "report.html",
    "times/[0-9]*.json",
    "wrong/[0-9]*.png",
    "fleet/job.json",
    "fleet/model.tflite",
    "fleet/examples.parquet",
)
"""Files of a run that its list has: all but the parts, which have their hashes beside them."""
LISTED: Final = 200
"""Examples that changed sides which a comparison lists."""

_Kind = TypeVar("_Kind")

_PART: Final = re.compile(r"(\d{6,12})\.parquet", re.ASCII)


class _PlannedData(msgspec.Struct):
    """What is read of a plan's data."""

    examples: Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)]
    listing_sha256: str


class _Planned(msgspec.Struct):
    """What is read of a plan."""

    data: _PlannedData
    task: Task
    shard: Annotated[int, msgspec.Meta(ge=1, lt=1 << 40)]


class _Figure(msgspec.Struct):
    """A metric of a result."""

    value: float | None
    low: float | None
    high: float | None


class _Found(msgspec.Struct):
    """What is read of a result."""

    plan: str
    partial: bool
    examples: int
    metrics: dict[str, _Figure]
    files: bool
    outputs: tuple[TensorSpec, ...]
    parts: list[PartFile]


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is there, whose plan and result are as they were written."""

    folder: Path
    plan: dict[str, Any]
    planned: _Planned
    result: dict[str, Any]
    found: _Found

    @property
    def form(self) -> PartFormat:
        """Format of the parts."""
        return PartFormat(self.found.outputs, self.planned.task, self.found.files)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return -(-self.planned.data.examples // self.planned.shard)

    def part(self, listed: PartFile) -> PartRows:
        """Return a part that the result lists; PartError."""
        match = _PART.fullmatch(listed.name)
        shard = self.shards if match is None else int(match[1])
        if shard >= self.shards:
            raise PartError(f"{listed.name} is no part of the run")
        size = self.planned.shard
        first, end = shard * size, min((shard + 1) * size, self.planned.data.examples)
        return load_part(self.folder / PARTS / listed.name, self.form, first, end, listed.sha256)


def read_run(folder: Path) -> Run:
    """Return the run of a folder; EvaluateError where it holds none, or plan or result are damaged."""
    if not (folder / LIST_FILE).exists():
        read_plan(folder)  # which says so where there is no run
    plan_path, result_path = folder / PLAN_FILE, folder / RESULT_FILE
    plan = parse_plan(read_listed(folder, PLAN_FILE), plan_path)
    try:
        result = json.loads(read_listed(folder, RESULT_FILE))
    except (ValueError, RecursionError) as error:
        raise EvaluateError(f"{result_path}: {error}") from None
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise EvaluateError(f"{result_path}: not a result of the format {FORMAT}")
    return Run(folder, plan, _typed(plan, _Planned, plan_path), result, _typed(result, _Found, result_path))


def _typed(values: dict[str, Any], kind: type[_Kind], path: Path) -> _Kind:
    """Return what is read of a file's values; EvaluateError where some is missing or of another type."""
    try:
        return msgspec.convert(values, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise EvaluateError(f"{path}: {error}") from None


def write_run_list(folder: Path) -> None:
    """Write the list of a run's files, which is the last of them; OSError."""
    write_list(folder, LISTED_FILES)


def verify(folder: Path) -> list[str]:
    """Return what is wrong with a run's folder; nothing where all is as it should be. EvaluateError."""
    if not (folder / LIST_FILE).exists():
        read_plan(folder)  # which says so where there is no run
    try:
        problems = list_problems(folder, LISTED_FILES, read_list(folder))
    except HashError as error:
        return [str(error), *_damaged(folder)]
    if problems.keys() & {PLAN_FILE, RESULT_FILE}:
        return [*problems.values(), *_damaged(folder)]
    return [*problems.values(), *_part_problems(read_run(folder))]


def _damaged(folder: Path) -> Iterator[str]:
    """Say which parts are not as they were written, where nobody knows which there should be."""
    for path in sorted((folder / PARTS).glob("[0-9]*.parquet")):
        try:
            read_hashed(path)
        except HashError as error:
            yield str(error)


def _part_problems(run: Run) -> Iterator[str]:
    found = run.found
    if found.plan != plan_hash(run.plan):
        yield "the result is of another plan"
    if found.partial:
        yield f"{found.examples} of {run.planned.data.examples} examples are there"
    for each in found.parts:
        try:
            run.part(each)
        except PartError as error:
            yield str(error)
    listed = {each.name for each in found.parts}
    if len(listed) < len(found.parts):
        yield "a part is listed more than once"
    known = listed | {Path(name).with_suffix(ENDING).name for name in listed}
    for path in sorted((run.folder / PARTS).glob("[0-9]*")):
        if path.name not in known:
            yield f"{path.name} is not listed"
    missing = run.shards - len(listed)
    if missing > 0:
        first = next(shard for shard in count() if part_name(shard) not in listed)
        more = f", and {missing - 1:,} more are missing" if missing > 1 else ""
        yield f"{part_name(first)} is not there{more}"


def mcnemar(one_only: int, other_only: int) -> float:
    """Return the exact p-value of McNemar's test: how likely so unequal a split is by chance.

    `one_only` and `other_only` count the examples that one of two models alone has right. Source: Q. McNemar,
    Note on the sampling error of the difference between correlated proportions, 1947; exact by the binomial
    distribution with 1/2.
    """
    total = one_only + other_only
    if not total:
        return 1.0
    tail = sum(math.comb(total, k) for k in range(min(one_only, other_only) + 1))
    return min(1.0, float(2 * tail / 2**total))


def compare_folders(one: Path, other: Path) -> dict[str, Any]:
    """Return how the results of two runs differ; EvaluateError.

    Where both ran the same examples, and kept parts, they are compared one by one. `one` and `other` are the
    runs' folders.
    """
    runs = read_run(one), read_run(other)
    plans = runs[0].plan, runs[1].plan
    metrics = {}
    for name, first in runs[0].result["metrics"].items():
        second = runs[1].result["metrics"].get(name)
        if second is None:
            continue
        known = first["value"] is not None and second["value"] is not None
        metrics[name] = {
            "a": first,
            "b": second,
            "difference": second["value"] - first["value"] if known else None,
        }
    found: dict[str, Any] = {
        "a": str(one),
        "b": str(other),
        "differ": sorted(key for key in plans[0] if plans[0][key] != plans[1].get(key)),
        "metrics": metrics,
        "pairs": None,
    }
    same = runs[0].planned.data.listing_sha256 == runs[1].planned.data.listing_sha256
    has_parts = all(each.found.parts for each in runs)
    if same and has_parts and all(each.planned.task == "classes" for each in runs):
        found["pairs"] = _pairs(*map(_right, runs))
    return found


@dataclass(frozen=True, slots=True)
class _Right:
    """Which examples of a run are right."""

    index: npt.NDArray[np.int64]
    """The numbers of the examples."""
    right: npt.NDArray[np.bool_]


def _right(run: Run) -> _Right:
    """Return which examples are right, of all parts; PartError."""
    form, indices, right = run.form, [], []
    for each in run.found.parts:
        rows = run.part(each)
        indices.append(np.arange(rows.first, rows.first + len(rows.answers), dtype=np.int64))
        right.append(part_classes(form.task, rows.answers, form.outputs) == rows.labels)
    return _Right(np.concatenate(indices), np.concatenate(right))


def _pairs(first: _Right, second: _Right) -> dict[str, Any]:
    index, places, others = np.intersect1d(first.index, second.index, return_indices=True)
    ours, theirs = first.right[places], second.right[others]
    counts = [int(each.sum()) for each in (ours & theirs, ours & ~theirs, theirs & ~ours, ~ours & ~theirs)]
    examples = len(index)
    difference = (counts[2] - counts[1]) / examples if examples else 0.0
    # Of paired proportions, by their normal approximation (Agresti, Categorical Data Analysis, 10.1.1).
    spread = (counts[1] + counts[2]) / examples - difference**2 if examples else 0.0
    half = 1.959963984540054 * math.sqrt(max(spread, 0.0) / examples) if examples else 0.0
    return {
        "examples": examples,
        "both": counts[0],
        "a_only": counts[1],
        "b_only": counts[2],
        "neither": counts[3],
        "difference": {"value": difference, "low": difference - half, "high": difference + half},
        "mcnemar_p": mcnemar(counts[1], counts[2]),
        "changed": index[ours != theirs].tolist()[:LISTED],
    }


def describe_comparison(found: dict[str, Any]) -> str:
    """Return a comparison, as `compare_folders` gives it, as text."""
    return "\n".join(_lines(found))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"A {found['a']}"
    yield f"B {found['b']}"
    yield f"their plans differ in: {', '.join(found['differ']) or 'nothing'}"
    yield ""
    shown = {name: each for name, each in found["metrics"].items() if "." not in name}
    width = max(map(len, shown), default=0)
    for name, each in shown.items():
        yield f"{name:<{width}}  A {figure(name, each['a'])}  B {figure(name, each['b'])}"
    pairs = found["pairs"]
    if pairs is None:
        yield "\nother examples, or no parts: they are not compared one by one"
        return
    yield ""
    yield (
        f"of {pairs['examples']:,} examples right in both {pairs['both']:,}, in A only {pairs['a_only']:,}, "
        f"in B only {pairs['b_only']:,}, in neither {pairs['neither']:,}"
    )
    difference = pairs["difference"]
    yield (
        f"B - A: {100 * difference['value']:+.2f} % ({100 * difference['low']:+.2f} to "
        f"{100 * difference['high']:+.2f}); by chance with p = {pairs['mcnemar_p']:.3g} (McNemar, exact)"
    )
    if pairs["changed"]:
        more = ", …" if len(pairs["changed"]) > 10 else ""
        yield f"changed sides: {', '.join(map(str, pairs['changed'][:10]))}{more}"
