"""Results of an inference: arrays, the names of their elements, and the largest of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, overload

if TYPE_CHECKING:
    from host_tools.tensors.tensor_spec import Array

SHOWN: Final = 3
"""Scores in the text of a result."""


@dataclass(frozen=True, slots=True)
class Score:
    """One element of an output tensor: its index, its label if there is one, and its value."""

    index: int
    label: str
    value: float


def best_scores(values: Sequence[float], count: int, labels: Sequence[str] = ()) -> list[Score]:
    """Return the `count` largest values in falling order, of equal ones the first with its label."""
    order = sorted(range(len(values)), key=lambda index: -values[index])[:count]
    return [Score(index, labels[index] if index < len(labels) else "", values[index]) for index in order]


class Outputs(Sequence["Array"]):
    """The output tensors of one inference, in their order; NumPy takes the first for the whole.

    outputs = server.run("cat.png", dequantize=True)
    outputs[0].argmax(), outputs.best(3)
    """

    def __init__(self, arrays: "Sequence[Array]", labels: Sequence[str] = ()) -> None:
        self._arrays = tuple(arrays)
        self.labels = tuple(labels)
        """Names of the elements of output 0; none where the model has none."""

    def best(self, count: int = 5, tensor: int = 0) -> list[Score]:
        """Return the `count` largest elements of a tensor, the largest first; labels go with output 0."""
        return best_scores(self._arrays[tensor].ravel().tolist(), count, () if tensor else self.labels)

    @overload
    def __getitem__(self, index: int) -> "Array": ...
    @overload
    def __getitem__(self, index: slice) -> "tuple[Array, ...]": ...
    def __getitem__(self, index: int | slice) -> "Array | tuple[Array, ...]":
        return self._arrays[index]

    def __len__(self) -> int:
        return len(self._arrays)

    def __iter__(self) -> "Iterator[Array]":
        return iter(self._arrays)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "Array":  # noqa: ANN401 - NumPy's own
        import numpy as np

        first = self._arrays[0]
        return np.array(first, dtype) if copy else np.asarray(first, dtype)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{each.dtype}{list(each.shape)}" for each in self._arrays)
        best = ", ".join(f"{one.label or one.index}: {one.value:.4g}" for one in self.best(SHOWN))
        return f"<Outputs {shapes}; best {best}>" if best else f"<Outputs {shapes or 'none'}>"
