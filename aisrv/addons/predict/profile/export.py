"""Profiles as JSON and CSV: one document, or one row for each operator."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, Final

from aisrv.addons.predict.profile.end_to_end import EndToEnd
from aisrv.addons.predict.profile.end_to_end_report import end_to_end_data
from aisrv.addons.predict.profile.model_profile import ModelProfile, Placement
from aisrv.inference.timings import DeviceModel, FlashPath, Total

CSV_COLUMNS: Final = (
    "model",
    "configuration",
    "index",
    "operator",
    "ticks",
    "ms",
    "basis",
    "source",
    "low_ms",
    "high_ms",
    "form",
    "slots",
    "memory",
)


def to_json(profiles: Sequence[ModelProfile], ways: Sequence[EndToEnd] | None = None) -> str:
    """Return `{"profiles": [...]}`; ticks are of the reference clock, ms are real ones, sizes are bytes.

    `ways` are the commands of each profile's host; their ticks are of 10 ns.
    """
    documents = [_as_data(profile) for profile in profiles]
    for document, way in zip(documents, ways or (), strict=ways is not None):
        document["end_to_end"] = end_to_end_data(way)
    return json.dumps({"profiles": documents}, indent=2)


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
                    f"{profile.total.in_ms(time.ticks):.5f}",
                    time.basis.value,
                    time.source,
                    f"{profile.total.in_ms(time.low):.5f}",
                    f"{profile.total.in_ms(time.high):.5f}",
                    time.form,
                    time.slots,
                    time.memory.value,
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
            "clock_mhz": device.core_mhz,
            "reference_mhz": device.tick_mhz,
            "external_clock_mhz": device.external_mhz,
            "kernels": device.kernels.value,
            "flash": _flash(device),
            "parameters": None if device.parameters is None else device.parameters.value,
            "arena_memory": device.arena.value,
            "arena_bytes": configuration.arena_bytes,
            "external_bytes": configuration.external_bytes,
        },
        "ticks": profile.ticks,
        **_times(profile.total),
        **{f"{name}_from_flash": ms for name, ms in _times(profile.flash_total).items()},
        "slots": profile.slots,
        "generation": str(profile.generation),
        "generation_from": profile.generation.origin,
        "reference_mhz": device.tick_mhz,
        "basis_shares": {basis.value: share for basis, share in profile.basis_shares.items()},
        "published": _published(profile),
        "notes": list(profile.notes),
        "estimate_share": profile.estimate_share,
        "parameter_bytes": profile.parameters,
        "flash_load_ticks": profile.flash_loads.ticks,
        "flash_load_low": profile.flash_loads.low,
        "flash_load_high": profile.flash_loads.high,
        "operators": [
            {
                "index": time.index,
                "name": time.name,
                "ticks": time.ticks,
                "form": time.form or None,
                "slots": time.slots,
                "low": time.low,
                "high": time.high,
                "basis": time.basis.value,
                "source": time.source,
                "memory": time.memory.value,
            }
            for time in profile.times
        ],
        "classes": [
            {
                "name": each.name,
                "count": each.count,
                "ticks": each.ticks,
                "low": each.low,
                "high": each.high,
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
                **{f"ram_{name}": ms for name, ms in _times(each.ram).items()},
                **{f"flash_{name}": ms for name, ms in _times(each.flash).items()},
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


def _times(total: Total) -> dict[str, float]:
    """Return real milliseconds, with their band."""
    return {"ms": total.ms, "ms_low": total.in_ms(total.low), "ms_high": total.in_ms(total.high)}


def _flash(device: DeviceModel) -> str | float:
    """Return the source of parameters in flash: a name, or MB/s."""
    if isinstance(device.flash, FlashPath | None):
        return (device.flash or FlashPath.SERVER).value
    return device.flash / 1e6


def _published(profile: ModelProfile) -> dict[str, Any] | None:
    """Return the published total of the network with the most ticks, or None."""
    found = max(profile.total.published, key=lambda each: each.ticks, default=None)
    return None if found is None else {"source": found.source, "ticks": found.ticks}


def _placement(placement: Placement) -> dict[str, Any]:
    return {"fits": placement.fits, "free_bytes": placement.free, "detail": placement.detail}
