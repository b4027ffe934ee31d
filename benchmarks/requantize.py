"""Ways to requantize accumulators in NumPy: the lines that the backend proves, and searches among thresholds.

python -m benchmarks.requantize

All ways give the same bytes, which is checked. "lines" is what the backend takes wherever it can, "a search a
channel" what it falls back on. "one search" shifts the accumulators of each channel to a range of their own
and searches all thresholds at once. "integers" is the arithmetic as it is written down, in 64 bits.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels.arithmetic import Bounds, Multiplier, Rounding, quantized_multiplier
from aisrv.kernels.backends.numpy.requantize import Workspace, padded_elements
from aisrv.kernels.backends.numpy.steps import Steps, rescaling, rescaling_steps
from benchmarks.rows import Row
from benchmarks.sensors import fastest

SHAPES: Final = ((1, 256), (36, 256), (576, 64), (2304, 16), (9216, 8))
"""Pixels and channels of a layer."""
REACH: Final = 1 << 20
ZERO: Final = -3
BOUNDS: Final = Bounds(-128, 127)

Accumulators = npt.NDArray[np.float32]


def _integers(multipliers: list[Multiplier]) -> Callable[[Accumulators], npt.NDArray[np.int8]]:
    """The reference's double rounding."""
    mantissa = np.array([each.mantissa for each in multipliers], np.int64)
    shift = np.array([-each.shift for each in multipliers], np.int64)
    half = np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 0)

    def outputs(accumulators: Accumulators) -> npt.NDArray[np.int8]:
        product = (accumulators.astype(np.int64) * mantissa + (1 << 30)) >> 31
        rounded = (product + half - (product < 0)) >> shift
        clipped: npt.NDArray[np.int64] = np.clip(rounded + ZERO, BOUNDS.low, BOUNDS.high)
        return clipped.astype(np.int8)

    return outputs


def _one_search(steps: Steps) -> Callable[[Accumulators], npt.NDArray[np.int8]]:
    span = 4.0 * REACH
    channels, levels = steps.thresholds.shape
    origin = np.arange(channels) * span
    everything = (np.clip(steps.thresholds, -REACH, REACH + 1) + origin[:, None]).reshape(-1)
    base = np.arange(channels) * levels - BOUNDS.low

    def outputs(accumulators: Accumulators) -> npt.NDArray[np.int8]:
        found = everything.searchsorted((accumulators + origin).reshape(-1), "right")
        return (found.reshape(accumulators.shape) - base).astype(np.int8)

    return outputs


def _measure(rows: int, channels: int) -> list[Row]:
    draw = np.random.default_rng(1)
    multipliers = [quantized_multiplier(float(scale)) for scale in draw.uniform(0.0005, 0.01, channels)]
    bias, reach = np.zeros(channels, np.int64), np.full(channels, REACH)
    steps = rescaling_steps(multipliers, bias, reach, BOUNDS, ZERO, Rounding.DOUBLE)
    values = draw.integers(-60_000, 60_000, (rows, channels)).astype(np.float32)
    elements = padded_elements(channels, rows)
    workspace = Workspace()
    kernels: dict[str, tuple[Callable[[], object], npt.NDArray[np.int8]]] = {}
    for name, how in (("lines", rescaling(steps, np.float32)), ("a search a channel", steps)):
        flat = workspace.array(name, elements, np.float32)
        output = np.zeros(rows * channels, np.int8)
        kernel = workspace.requantize(flat, output, how)
        kernels[name] = _filled(flat, values, kernel), output
    for name, function in (("one search", _one_search(steps)), ("integers", _integers(multipliers))):
        output = np.zeros(rows * channels, np.int8)
        kernels[name] = _stored(function, values, output), output
    seconds = fastest(*(action for action, _ in kernels.values()))
    results = [output for _, output in kernels.values()]
    if not all(np.array_equal(results[0], each) for each in results):
        raise AssertionError(f"the ways differ for {rows}x{channels}")
    return [
        Row(f"{name}, {rows} pixels of {channels} channels", 1e6 * each, "us")
        for name, each in zip(kernels, seconds, strict=True)
    ]


def _filled(
    flat: npt.NDArray[Any], values: Accumulators, kernel: Callable[[], object]
) -> Callable[[], object]:
    """Fill the accumulators, which a run overwrites, and run."""
    part, source = flat[: values.size], values.reshape(-1)

    def invoke() -> None:
        part[:] = source
        kernel()

    return invoke


def _stored(
    function: Callable[[Accumulators], npt.NDArray[np.int8]],
    values: Accumulators,
    output: npt.NDArray[np.int8],
) -> Callable[[], object]:
    def invoke() -> None:
        output[:] = function(values).reshape(-1)

    return invoke


def run() -> list[Row]:
    """Measure on one thread; about 5 s."""
    return [row for shape in SHAPES for row in _measure(*shape)]


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
