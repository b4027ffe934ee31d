"""Two devices on the same model and inputs: what their outputs differ in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from host_tools.errors import TensorError

if TYPE_CHECKING:
    from host_tools.client import AiServer
    from host_tools.tensors.tensor_spec import Array, TensorSpec


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """One output tensor of one run, on both devices."""

    run: int
    tensor: int
    elements: int
    """Elements of the tensor."""
    differing: int
    """Elements that are further apart than was allowed."""
    largest: float
    """The largest distance of two elements, in the tensor's own steps."""
    first: int | None
    """The first element that differs; None where all agree."""


def compare_devices(
    servers: "Sequence[AiServer]",
    runs: "Sequence[Sequence[bytes]]",
    outputs: "Sequence[TensorSpec]",
    tolerance: float = 0.0,
) -> Iterator[OutputDifference]:
    """Run the inputs of each run on two servers that have the model; yield each output's difference.

    `tolerance` is how far apart two elements may be, in the tensor's own steps.
    """
    first, second = servers
    for number, inputs in enumerate(runs):
        results = [_outputs(server, inputs, len(outputs)) for server in (first, second)]
        for tensor, spec in enumerate(outputs):
            one, other = (spec.elements(result[tensor]) for result in results)
            yield _difference(number, tensor, one, other, tolerance)


def _outputs(server: "AiServer", inputs: "Sequence[bytes]", count: int) -> list[bytes]:
    for number, data in enumerate(inputs):
        server.write_input(data, number)
    server.infer()
    return [server.read_output(number) for number in range(count)]


def _difference(run: int, tensor: int, one: "Array", other: "Array", tolerance: float) -> OutputDifference:
    import numpy as np

    with np.errstate(invalid="ignore"):  # infinities of one sign are equal
        distance = np.abs(one.astype(np.float64) - other.astype(np.float64)).ravel()
    same = (one == other) | ((one != one) & (other != other))  # NaN is NaN on both
    distance[same.ravel()] = 0
    distance[np.isnan(distance)] = np.inf
    apart = np.flatnonzero(distance > tolerance)
    return OutputDifference(
        run,
        tensor,
        distance.size,
        len(apart),
        float(distance.max(initial=0)),
        int(apart[0]) if len(apart) else None,
    )


def random_inputs(specs: "Sequence[TensorSpec]", runs: int, seed: int) -> list[list[bytes]]:
    """Return inputs of all values of their types, the same ones for a seed; real numbers are 0 to 1."""
    import numpy as np

    source = np.random.default_rng(seed)

    def tensor(spec: "TensorSpec") -> bytes:
        kind = np.dtype(spec.dtype)
        if kind.kind == "f":
            return source.random(spec.shape, kind.type).astype(kind.newbyteorder("<")).tobytes()
        return source.bytes(spec.nbytes)

    return [[tensor(spec) for spec in specs] for _ in range(runs)]


def in_runs(tensors: Sequence[bytes], inputs: int) -> list[list[bytes]]:
    """Share out tensors to runs of as many as the model has inputs; TensorError where some are left."""
    if not inputs or len(tensors) % inputs:
        raise TensorError(f"{len(tensors)} files given, each run takes {inputs}")
    return [list(tensors[start : start + inputs]) for start in range(0, len(tensors), inputs)]
