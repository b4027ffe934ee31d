"""Runs that are there: checked, and compared with each other."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from aisrv.evaluate.errors import EvaluateError
from aisrv.evaluate.folder.parts import PARTS, PartFile, part_answers, verify_parts
from aisrv.evaluate.folder.plan import FORMAT, plan_hash, read_plan
from aisrv.evaluate.terminal import figure
from aisrv.values.regular_file import read_regular

RESULT_FILE: Final = "result.json"
LISTED: Final = 200
"""Examples that changed sides which a comparison lists."""


def read_result(folder: Path) -> dict[str, Any]:
    """Return the result of a run's folder; EvaluateError where it has none."""
    path = folder / RESULT_FILE
    try:
        result = json.loads(read_regular(path))
    except OSError as error:
        raise EvaluateError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise EvaluateError(f"{path}: {error}") from None
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise EvaluateError(f"{path}: not a result of the format {FORMAT}")
    return result


def verify(folder: Path) -> list[str]:
    """Return what is wrong with a run's folder; nothing where all is as it should be. EvaluateError."""
    plan, result = read_plan(folder), read_result(folder)
    problems = []
    if result["plan"] != plan_hash(plan):
        problems.append("the result is of another plan")
    if result["partial"]:
        problems.append(f"{result['examples']} of {plan['data']['examples']} examples are there")
    listed = [PartFile(**each) for each in result["parts"]]
    return problems + verify_parts(folder, plan["data"]["examples"], listed)


def mcnemar(one_only: int, other_only: int) -> float:
    """Return the exact p-value of McNemar's test: how likely so unequal a split is by chance.

    `one_only` and `other_only` count the examples that one of two models alone has right. Source: Q. McNemar,
    Note on the sampling error of the difference between correlated proportions, 1947; exact by the binomial
    distribution with 1/2.
    """
    count = one_only + other_only
    if not count:
        return 1.0
    tail = sum(math.comb(count, k) for k in range(min(one_only, other_only) + 1))
    return min(1.0, float(2 * tail / 2**count))


def compare_folders(one: Path, other: Path) -> dict[str, Any]:
    """Return how the results of two runs differ; EvaluateError.

    Where both ran the same examples, and kept parts, they are compared one by one. `one` and `other` are the
    runs' folders.
    """
    plans, results = (read_plan(one), read_plan(other)), (read_result(one), read_result(other))
    metrics = {}
    for name, first in results[0]["metrics"].items():
        second = results[1]["metrics"].get(name)
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
    same = plans[0]["data"]["listing_sha256"] == plans[1]["data"]["listing_sha256"]
    has_parts = all((each / PARTS).is_dir() for each in (one, other))
    if same and has_parts and plans[0]["task"] == plans[1]["task"] == "classes":
        found["pairs"] = _pairs(one, other)
    return found


def _pairs(one: Path, other: Path) -> dict[str, Any]:
    first, second = part_answers(one), part_answers(other)
    index, places, others = np.intersect1d(
        first["index"].to_numpy(), second["index"].to_numpy(), return_indices=True
    )
    labels = first["label"].to_numpy()[places]
    ours = first["predicted"].to_numpy()[places] == labels
    theirs = second["predicted"].to_numpy()[others] == labels
    counts = [int(each.sum()) for each in (ours & theirs, ours & ~theirs, theirs & ~ours, ~ours & ~theirs)]
    count = len(index)
    difference = (counts[2] - counts[1]) / count if count else 0.0
    # Of paired proportions, by their normal approximation (Agresti, Categorical Data Analysis, 10.1.1).
    spread = (counts[1] + counts[2]) / count - difference**2 if count else 0.0
    half = 1.959963984540054 * math.sqrt(max(spread, 0.0) / count) if count else 0.0
    return {
        "examples": count,
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
