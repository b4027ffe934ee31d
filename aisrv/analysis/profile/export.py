"""Profiles as JSON and CSV: one document, or one row for each operator."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, Final

from aisrv.analysis.profile.model_profile import ModelProfile, Placement, milliseconds

CSV_COLUMNS: Final = (
    "model",
    "configuration",
    "index",
    "operator",
    "ticks",
    "ms",
    "basis",
    "source",
)


def to_json(profiles: Sequence[ModelProfile]) -> str:
    """Return `{"profiles": [...]}`; times are in ticks of 10 ns and in ms, sizes in bytes."""
    return json.dumps({"profiles": [_as_data(profile) for profile in profiles]}, indent=2)


def to_csv(profiles: Sequence[ModelProfile]) -> str:
    """Return a row of CSV_COLUMNS for each operator of each profile, after a row with their names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for profile in profiles:
        for time in profile.times:
            writer.writerow(
                (
                    profile.name,
                    profile.configuration.name,
                    time.index,
                    time.name,
                    time.ticks,
                    f"{milliseconds(time.ticks):.5f}",
                    time.basis.value,
                    time.source,
                )
            )
    return text.getvalue()


def _as_data(profile: ModelProfile) -> dict[str, Any]:
    configuration, memory = profile.configuration, profile.memory
    device, host = configuration.device, profile.host
    return {
        "model": profile.name,
        "configuration": {
            "name": configuration.name,
            "threads": device.threads,
            "clock_mhz": device.clock_mhz,
            "kernels": device.kernels.value,
            "flash_bytes_per_second": device.flash_rate,
            "arena_bytes": configuration.arena_bytes,
            "external_bytes": configuration.external_bytes,
        },
        "ticks": profile.ticks,
        "ms": milliseconds(profile.ticks),
        "ms_from_flash": milliseconds(profile.flash_ticks),
        "estimate_share": profile.estimate_share,
        "parameter_bytes": profile.parameters,
        "flash_load_ticks": profile.flash_loads,
        "operators": [
            {
                "index": time.index,
                "name": time.name,
                "ticks": time.ticks,
                "basis": time.basis.value,
                "source": time.source,
            }
            for time in profile.times
        ],
        "classes": [
            {
                "name": each.name,
                "count": each.count,
                "ticks": each.ticks,
                "share": each.share,
                "has_estimates": each.has_estimates,
            }
            for each in profile.classes
        ],
        "memory": {
            "model_bytes": memory.model,
            "head_bytes": memory.head,
            "tail_bytes": memory.tail,
            "placements": {
                placement.memory.name.lower(): _placement(placement) for placement in memory.placements
            },
        },
        "predictions": [
            {
                "threads": each.threads,
                "clock_mhz": each.clock_mhz,
                "ram_ms": milliseconds(each.ram_ticks),
                "flash_ms": milliseconds(each.flash_ticks),
            }
            for each in profile.predictions
        ],
        "host": None
        if host is None
        else {
            "runs": host.runs,
            "median_ms": 1000 * host.median,
            "fastest_ms": 1000 * host.fastest,
            "slowest_ms": 1000 * host.slowest,
            "kernels": host.kernels,
        },
    }


def _placement(placement: Placement) -> dict[str, Any]:
    return {"fits": placement.fits, "free_bytes": placement.free, "detail": placement.detail}
