"""Many inferences with several in flight: the device computes one while the next input is on its way."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Protocol

from host_tools.errors import HostError
from host_tools.transports.transport import Buffer

LARGEST_FLIGHT: Final = 64 * 1024
"""Bytes of all inputs in flight."""


class Runs(Protocol):
    """How inferences reach a device, one or several at a time."""

    def run(self, data: Buffer) -> bytes:
        """Set input tensor 0, start an inference, get output tensor 0."""

    def run_each(self, inputs: list[Buffer]) -> list[bytes] | None:
        """Do as `run` for inputs in flight at once; None where that does not go, or one of them fails."""


def run_many(runs: Runs, inputs: Iterable[Buffer], in_flight: int) -> Iterator[bytes]:
    """Yield output 0 for each of the inputs, in order. Raises HostError, with the index as a note.

    Outputs before it have been yielded then. Where several cannot be in flight, or one of them fails, they
    run one by one.
    """
    source, index = iter(inputs), 0
    size = 1  # the first one alone: it tells how large outputs are, and whether the model runs
    while group := list(islice(source, size)):
        outputs = runs.run_each(group) if len(group) > 1 else None
        if outputs is not None:
            yield from outputs
            index += len(group)
        else:
            for data in group:
                try:
                    output = runs.run(data)
                except HostError as error:
                    error.add_note(f"input {index} of run_many")
                    raise
                yield output
                index += 1
        size = max(1, min(in_flight, LARGEST_FLIGHT // max(len(group[-1]), 1)))
