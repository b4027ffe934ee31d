"""A sweep as JSON: all its cells, the front, and the answer."""

from typing import Any, Final

from aisrv.addons.evaluate.metrics.intervals import Metric
from aisrv.addons.evaluate.sweep import wording
from aisrv.addons.evaluate.sweep.accuracy import Accuracy
from aisrv.addons.evaluate.sweep.cells import Cell
from aisrv.addons.evaluate.sweep.front import Place
from aisrv.addons.evaluate.sweep.sweep import SweepResult
from aisrv.protocol.memory_map import ModelMemory

FORMAT: Final = "aisrv-sweep/1"

_MEMORIES: Final = {ModelMemory.ARENA: "arena", ModelMemory.EXT: "external"}


def values(result: SweepResult) -> dict[str, Any]:
    """Return all that a sweep found."""
    want = result.sweep.want
    return {
        "format": FORMAT,
        "partial": result.is_partial,
        "want": {"rate": want.rate, "accuracy": want.accuracy, "sure": want.sure},
        "models": [
            {
                "name": each.model.name,
                "sha256": each.model.file.sha256,
                "bytes": len(each.model.file.data),
                "skipped": each.skipped or None,
                "accuracy": None if each.accuracy is None else _accuracy(each.accuracy),
            }
            for each in result.models
        ],
        "cells": [_cell(result, cell) for cell in result.cells],
        "front": [
            {"cells": list(each.cells), "perhaps": each.place is Place.PERHAPS}
            for each in result.points
            if each.place is not Place.BEHIND
        ],
        "smallest": result.smallest,
        "answer": wording.answer(result) or None,
    }


def _accuracy(found: Accuracy) -> dict[str, Any]:
    return {
        **_metric(found.metric),
        "examples": found.examples,
        "of": found.total,
        "failed": found.failed,
        "stopped": found.is_decided and found.examples < found.total,
    }


def _metric(metric: Metric) -> dict[str, float | None]:
    return {"value": metric.value, "low": metric.low, "high": metric.high}


def _cell(result: SweepResult, cell: Cell) -> dict[str, Any]:
    total = cell.total
    return {
        "model": cell.model,
        "board": cell.board,
        "engine": cell.engine,
        "configuration": cell.configuration or None,
        "clock_mhz": cell.clock_mhz,
        "threads": cell.threads,
        "arena": cell.arena_bytes,
        "model_memory": _MEMORIES[cell.memory],
        "kernels": cell.kernels.value,
        "misfit": cell.misfit or None,
        "bytes": cell.bytes,
        "latency": None
        if total is None
        else {"ms": total.ms, "ms_low": total.in_ms(total.low), "ms_high": total.in_ms(total.high)},
        "rate": None if total is None else {"value": cell.rate(sure=False), "low": cell.rate(sure=True)},
        "meets": result.meets(cell) if result.asks else None,
    }
