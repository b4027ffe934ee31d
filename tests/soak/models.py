"""Mutated models through a device, on each engine: refused, failed, or with the interpreter's own bytes."""

from collections import Counter
from importlib.util import find_spec
from typing import Final

import trio
from msgspec.structs import replace

from benchmarks.hostile_models import tally
from tests.soak.check import Check, Figures
from tests.support.benches.engines import INSTALLED
from tests.support.benches.hostile_trial import LIMITS
from tests.support.models.hostile_images import image_case
from tests.support.models.relocatable import DIGITS as DIGITS_IMAGE

KINDS: Final = (
    *(kind for kind in INSTALLED if kind != "xcore"),
    "kernels:numpy",
    *(["relocatable"] if find_spec("unicorn") else []),
)
BUSY: Final = replace(LIMITS, load_seconds=60.0)
"""A load takes long on a busy machine, and may not fail for that."""
GROWTH: Final = 64 << 20


def one_kind(kind: str, size: int, seed: int) -> Counter[str]:
    """Try so many models on one kind of engine."""
    if kind == "relocatable":
        found = trio.run(tally, kind, size, seed, BUSY, image_case, DIGITS_IMAGE.read_bytes())
    else:
        found = trio.run(tally, kind, size, seed, BUSY)
    assert not found.faults, f"{kind}, seed {seed}: {found.faults[0]}"
    assert found.growth < GROWTH, f"{kind}, seed {seed}: the process grew by {found.growth} bytes"
    return Counter({outcome.value: count for outcome, count in found.outcomes.items()})


def run(size: int, seed: int) -> Figures:
    """Try so many models, each kind of engine its share of them."""
    return {kind: dict(one_kind(kind, max(1, size // len(KINDS)), seed)) for kind in KINDS}


CHECK: Final = Check(
    "models", f"mutated models through {', '.join(KINDS)}", "models", 3000 * len(KINDS), len(KINDS), 40, run
)
