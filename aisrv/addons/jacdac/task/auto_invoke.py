"""The samples of a Model Runner that runs by itself, and when it does. No I/O."""

from collections import deque

from aisrv.addons.jacdac.task.numbers import FLOAT_BYTES


class SampleWindow:
    """The last samples, as many as the input tensor takes, after zeros while there are fewer."""

    def __init__(self) -> None:
        self.every = 0
        """New samples between two runs; 0: never."""
        self._elements = 0
        self._sample_bytes = 0
        self._samples: deque[bytes] = deque()
        self._new = 0

    @property
    def complaint(self) -> str:
        """Reason why no runs are possible though they are asked for, or an empty text."""
        if not self.every or not self._elements:
            return ""
        if not self._sample_bytes:
            return "auto_invoke_every: the Sensor Aggregator has no inputs"
        if self._elements * FLOAT_BYTES % self._sample_bytes:
            floats = self._sample_bytes // FLOAT_BYTES
            return (
                f"auto_invoke_every: {self._elements} input elements are not a multiple of {floats} a sample"
            )
        return ""

    @property
    def is_due(self) -> bool:
        return bool(
            self.every
            and self._elements
            and self._sample_bytes
            and not self.complaint
            and self._new >= self.every
        )

    @property
    def floats(self) -> bytes:
        """Samples as float32, the oldest first."""
        return b"".join(self._samples)

    def set_model(self, elements: int) -> None:
        """Take the number of elements of the input tensor, 0 without a usable model."""
        self._elements = elements
        self._clear()

    def set_inputs(self, sample_bytes: int) -> None:
        """Take the size of a sample in bytes, 0 without inputs."""
        self._sample_bytes = sample_bytes
        self._clear()

    def add(self, sample: bytes) -> None:
        self._new += 1
        self._samples.append(sample)

    def begin_run(self) -> bytes:
        """Return the input of a run; from here on samples are new again."""
        self._new = 0
        return self.floats

    def _clear(self) -> None:
        self._new = 0
        count = 0
        if self._sample_bytes and not self._elements * FLOAT_BYTES % self._sample_bytes:
            count = self._elements * FLOAT_BYTES // self._sample_bytes
        self._samples = deque([bytes(self._sample_bytes)] * count, maxlen=count)
