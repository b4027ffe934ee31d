"""The accuracy of a model for a sweep: in a random order, and no longer than the question needs.

After each 100 examples the 99.9 % interval of Wilson is looked at. Where it lies beside the wanted accuracy
the question is answered, and the run ends. What counts are the examples up to there, however far it was.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import trio

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.figures import real_values
from aisrv.addons.evaluate.folder.plan import SHARD
from aisrv.addons.evaluate.metrics.classes import class_scores
from aisrv.addons.evaluate.metrics.intervals import Metric, generator, proportion, wilson
from aisrv.addons.evaluate.request import Loaded
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.device_run import DeviceError
from aisrv.addons.evaluate.running.local_run import LocalRun, LocalSettings
from aisrv.inference.packages import missing_package
from aisrv.protocol.engine_kind import EngineKind

STEP: Final = 100
"""Examples from one look at the interval to the next."""
Z999: Final = 3.2905267314919255
"""Standard deviations on each side of the mean that hold 99.9 % of a normal distribution."""

OnCount = Callable[[int, int, int], None]
"""Called as examples are done: how many, of how many, and how many are wrong."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Share of right answers with its interval of 95 %."""

    examples: int
    """Examples that count."""
    total: int
    """Examples of the data."""
    metric: Metric
    failed: int
    is_decided: bool
    """Whether the run ended since the question was answered."""
    is_cut: bool
    """Whether it ended before that, and before all examples were done."""


def is_decided(right: int, count: int, wanted: float) -> bool:
    """Return whether `right` of `count` answers are clearly more, or less, than the wanted share."""
    low, high = wilson(right, count, Z999)
    return low >= wanted or high < wanted


class Prefix:
    """Examples from the first one on of which it is known whether they are right, in any order of arrival."""

    def __init__(self, total: int, wanted: float | None) -> None:
        """Make room for `total` examples; `wanted` is the accuracy that is asked for, if any."""
        self.right: Final[npt.NDArray[np.bool_]] = np.zeros(total, bool)
        self.known: Final[npt.NDArray[np.bool_]] = np.zeros(total, bool)
        self._wanted = wanted
        self._at = 0
        self._right = 0
        self.decided_at: int | None = None
        """Examples after which the question was answered; None while it is not."""

    def put(self, first: int, right: npt.NDArray[np.bool_]) -> None:
        """Take whether examples from `first` on are right, and look at each full STEP."""
        end = first + len(right)
        self.right[first:end] = right
        self.known[first:end] = True
        while self._wanted is not None and self.decided_at is None:
            following = self._at + STEP
            if following > len(self.known) or not self.known[self._at : following].all():
                return
            self._right += int(self.right[self._at : following].sum())
            self._at = following
            if is_decided(self._right, following, self._wanted):
                self.decided_at = following


def in_order(data: DataSet, order: npt.NDArray[np.intp]) -> DataSet:
    """Return the examples of `data` in another order, with arrays in memory."""
    return replace(
        data,
        labels=[data.labels[index] for index in order],
        arrays=tuple(array[order] for array in data.arrays),
        files=[data.files[index] for index in order] if data.files else (),
        names=[data.names[index] for index in order] if data.names else (),
        mapped=None,
        recordings=None if data.recordings is None else data.recordings[order],
    )


def measure(
    loaded: Loaded,
    settings: LocalSettings,
    wanted: float | None,
    on_count: OnCount,
    is_late: Callable[[], bool],
) -> tuple[Accuracy, bool]:
    """Run a model over its data in an order of seed 0: accuracy, and whether Ctrl-C ended it. EvaluateError.

    `wanted` is the accuracy that is asked for, `is_late` says whether time is up.
    """
    check_engine(settings.kind)
    order = generator().permutation(len(loaded.data))
    run = _Run(
        loaded, settings, loaded.labels[order], in_order(loaded.data, order), wanted, on_count, is_late
    )
    interrupted = run.run()
    return run.accuracy(), interrupted


def check_engine(kind: EngineKind) -> None:
    """Raise DeviceError for an engine whose package is not installed."""
    package = missing_package(kind)
    if package is not None:
        raise DeviceError(f"{kind}: {package}", 3)


class _Run:
    """A run that is stopped when its question is answered, or time is up."""

    def __init__(
        self,
        loaded: Loaded,
        settings: LocalSettings,
        labels: npt.NDArray[Any],
        data: DataSet,
        wanted: float | None,
        on_count: OnCount,
        is_late: Callable[[], bool],
    ) -> None:
        self._spec = loaded.outputs[0]
        self._labels = labels
        self._on_count = on_count
        self._is_late = is_late
        self._answers = Answers(len(data), loaded.output_bytes, SHARD, files=bool(data.files))
        self._prefix = Prefix(len(data), wanted)
        self._waiting: list[tuple[int, int]] = []
        self._was_late = self._is_over = False
        self._local = LocalRun(settings, data, loaded.preparation, self._answers, self._done)

    def run(self) -> bool:
        """Run; whether Ctrl-C ended it."""
        trio.run(self._local.run)
        self._take()
        if self._local.was_killed:
            raise KeyboardInterrupt
        return self._local.was_stopped and not self._is_over

    def accuracy(self) -> Accuracy:
        """Return the share of what is known, up to where the question was answered."""
        prefix = self._prefix
        end = prefix.decided_at or len(prefix.known)
        known = prefix.known[:end]
        count, right = int(known.sum()), int(prefix.right[:end].sum())
        failed = sum(index < end for index in self._answers.failed)
        return Accuracy(
            count,
            len(prefix.known),
            proportion(right, count),
            failed,
            prefix.decided_at is not None,
            count < end,
        )

    def _done(self, first: int, end: int) -> None:
        # Why single examples of a batch failed is known only after this call: each waits for the next.
        self._take()
        self._waiting.append((first, end))
        if self._prefix.decided_at is not None or self._is_late():
            self._is_over = True
            self._local.stop()

    def _take(self) -> None:
        for first, end in self._waiting:
            self._prefix.put(first, self._right(first, end))
        self._waiting.clear()
        known = int(self._prefix.known.sum())
        self._on_count(known, len(self._prefix.known), known - int(self._prefix.right.sum()))

    def _right(self, first: int, end: int) -> npt.NDArray[np.bool_]:
        data = np.ascontiguousarray(self._answers.outputs[first:end, : self._spec.nbytes])
        values = data.view(np.dtype(self._spec.dtype).newbyteorder("<"))
        predicted = class_scores(real_values(values, self._spec)).argmax(axis=1)
        right: npt.NDArray[np.bool_] = predicted == self._labels[first:end]
        right[[index - first for index in self._answers.failed if first <= index < end]] = False
        return right
