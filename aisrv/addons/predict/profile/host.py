"""Runs of a model on this host: their time says nothing about the device."""

import statistics
from dataclasses import dataclass

from aisrv.addons.predict.profile.errors import ProfileError
from aisrv.inference.errors import InferenceError

MAX_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class HostTime:
    """Seconds of one inference on this host, over `runs` runs on inputs of zeros."""

    runs: int
    median: float
    fastest: float
    slowest: float
    kernels: str | None = None
    """Backends of the operators on the engine `kernels`; None for a model that it does not run."""


def measure_host(data: bytes, runs: int, *, name: str = "model") -> HostTime:
    """Run a model in the isolated interpreter. Raises ProfileError.

    Starts a Trio loop of its own. ValueError unless there are 1 to MAX_RUNS runs.
    """
    if not 1 <= runs <= MAX_RUNS:
        raise ValueError(f"{runs} runs: there can be 1 to {MAX_RUNS:,}")
    import trio

    try:
        seconds = trio.run(_run, data, runs)
    except InferenceError as error:
        raise ProfileError(f"{name} does not run on this host: {error}") from error
    return HostTime(runs, statistics.median(seconds), min(seconds), max(seconds), describe_kernels(data))


def describe_kernels(data: bytes) -> str | None:
    """Describe the backends of the operators on the engine `kernels`; None if it does not run the model."""
    from aisrv.addons.kernels.backend import kernel_origin
    from aisrv.addons.kernels.backends.registry import default_backend, find_backend
    from aisrv.addons.kernels.errors import KernelError
    from aisrv.addons.kernels.network.load import load_network

    backend = default_backend()
    try:
        network = load_network(data, find_backend(backend))
    except KernelError:
        return None
    others: dict[str, list[str]] = {}
    for each in network.operators:
        origin = kernel_origin(each.kernel)
        if origin != backend:
            others.setdefault(origin, []).append(f"{each.operator.index} {each.operator.name}")
    rest = "".join(f"; {origin}: {', '.join(names)}" for origin, names in others.items())
    own = len(network.operators) - sum(map(len, others.values()))
    return f"{backend}: {own} of {len(network.operators)} operators{rest}"


async def _run(data: bytes, runs: int) -> list[float]:
    from aisrv.inference.engine import InferenceEngine
    from aisrv.inference.process.isolation import isolated
    from aisrv.protocol.memory_map import ModelMemory

    # As much memory as any model may want: what fits on the device is another question.
    engine = InferenceEngine(isolated, arena_bytes=2**30, external_bytes=len(data))
    seconds = []
    try:
        await engine.load_model(data, ModelMemory.EXT)
        for _ in range(runs):
            await engine.invoke()
            seconds.append(engine.host_seconds or 0.0)
    finally:
        await engine.unload_model()
    return seconds
