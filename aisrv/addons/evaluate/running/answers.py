"""What the examples of a data set have become: outputs, failures, times. Those that ran are marked."""

import time
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.running.times import TimeCounts

Bytes = npt.NDArray[np.uint8]

DIGEST_BYTES: Final = 8
"""Of the SHA-256 of an example's file that is kept."""


class Answers:
    """Room for the answers of all examples of a run."""

    def __init__(self, examples: int, output_bytes: int, shard: int, *, files: bool = False) -> None:
        """Make room for as many examples of `output_bytes` each, in shards of `shard` examples.

        With `files` the digest of each file is kept, too.
        """
        self.shard: Final = shard
        self.outputs: Final[Bytes] = np.zeros((examples, output_bytes), np.uint8)
        """[examples, bytes of all outputs]; zeros for what failed or did not run."""
        self.done: Final[npt.NDArray[np.bool_]] = np.zeros(examples, bool)
        """Whether an example ran, or failed."""
        self.failed: Final[dict[int, str]] = {}
        """Why examples failed, by index."""
        self.content: Final[Bytes] = np.zeros((examples if files else 0, DIGEST_BYTES), np.uint8)
        """The start of each file's SHA-256; empty without files."""
        self.times: Final = [TimeCounts() for _ in range(self.shards)]
        """Times of each shard; a batch counts where it begins."""
        self.attempts: Final = [1] * self.shards
        """How often examples of each shard were begun: again where one of them killed what ran it."""
        self._begun: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return -(-len(self.outputs) // self.shard)

    def bounds(self, shard: int) -> tuple[int, int]:
        """Return the first example of a shard, and the one after its last."""
        return shard * self.shard, min((shard + 1) * self.shard, len(self.outputs))

    def is_complete(self, shard: int) -> bool:
        """Return whether all examples of a shard are done."""
        first, end = self.bounds(shard)
        return bool(self.done[first:end].all())

    def missing(self) -> list[tuple[int, int]]:
        """Return the ranges of examples that are not done: each first one, and the one after the last."""
        edges = np.flatnonzero(np.diff(np.concatenate(([True], self.done, [True]))))
        return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]

    def begin(self, first: int, end: int) -> None:
        """Note that the examples from `first` up to `end` are about to run."""
        for shard in range(first // self.shard, (end - 1) // self.shard + 1):
            self._begun.setdefault(shard, time.monotonic())

    def begin_again(self, first: int) -> None:
        """Note that the batch from example `first` on runs once more."""
        self.attempts[first // self.shard] += 1

    def seconds(self, shard: int) -> float | None:
        """Return the time since a shard was begun; None where it was not."""
        begun = self._begun.get(shard)
        return None if begun is None else time.monotonic() - begun

    def put(self, first: int, outputs: Bytes, times: tuple[int, ...]) -> None:
        """Take the outputs of a batch from example `first` on, and the nanoseconds of its runs."""
        end = first + len(outputs)
        self.outputs[first:end] = outputs
        for index in self.failed:
            if first <= index < end:
                self.outputs[index] = 0
        self.done[first:end] = True
        self.times[first // self.shard].add(times, len(outputs))

    def fail(self, index: int, reason: str) -> None:
        """Record why an example failed."""
        self.failed[index] = reason
        self.outputs[index] = 0
        self.done[index] = True

    def part(self, shard: int) -> "Answers":
        """Return a copy of the answers of a shard alone, whose examples are numbered from 0."""
        first, end = self.bounds(shard)
        found = Answers(end - first, self.outputs.shape[1], self.shard, files=bool(len(self.content)))
        found.take(0, self, first, end)
        found.times[0] += self.times[shard]
        found.attempts[0] = self.attempts[shard]
        return found

    def take(self, to: int, other: "Answers", first: int, end: int) -> None:
        """Take the answers of another from its example `first` up to `end`; here they begin at `to`."""
        after = to + end - first
        self.outputs[to:after] = other.outputs[first:end]
        self.done[to:after] = other.done[first:end]
        if len(self.content):
            self.content[to:after] = other.content[first:end]
        for index, reason in other.failed.items():
            if first <= index < end:
                self.failed[to + index - first] = reason

    def host_times(self) -> TimeCounts:
        """Return the times of all shards."""
        found = TimeCounts()
        for each in self.times:
            found += each
        return found
