"""An operator with the tensors that it computes with."""

import math
from typing import NamedTuple, Self

from aisrv.model import Model, Operator, Tensor


class OperatorTensors(NamedTuple):
    """An operator and its tensors, left-out inputs as None."""

    operator: Operator
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]

    @classmethod
    def of(cls, model: Model, operator: Operator) -> Self:
        return cls(
            operator,
            tuple(model.tensors[index] if index >= 0 else None for index in operator.inputs),
            tuple(model.tensors[index] for index in operator.outputs),
        )

    @property
    def output(self) -> Tensor | None:
        """First output, or None."""
        return self.outputs[0] if self.outputs else None

    def input(self, position: int) -> Tensor | None:
        """Return the input at a position, None if it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def moved_bytes(self) -> int:
        """Bytes of the activations that are read and written."""
        read = sum(tensor.nbytes for tensor in self.inputs if tensor is not None and not tensor.is_constant)
        return read + sum(tensor.nbytes for tensor in self.outputs)

    @property
    def largest_elements(self) -> int:
        """Elements of the largest activation that is read or written; 0 if there is none."""
        read = [tensor for tensor in self.inputs if tensor is not None and not tensor.is_constant]
        return max((math.prod(tensor.shape) for tensor in (*read, *self.outputs)), default=0)


class Images(NamedTuple):
    """Shapes of an operator from image to image, NHWC."""

    data: tuple[int, ...]
    output: tuple[int, ...]

    @classmethod
    def of(cls, node: OperatorTensors, *, flat: bool = False) -> Self | None:
        """Return the shapes of images, or with `flat` of vectors as images of one pixel; None for others."""
        data, output = node.input(0), node.output
        if data is None or output is None:
            return None
        shapes = [
            (shape[0], 1, 1, shape[1]) if flat and len(shape) == 2 else shape
            for shape in (data.shape, output.shape)
        ]
        return cls(*shapes) if all(len(shape) == 4 for shape in shapes) else None

    @property
    def pixels(self) -> int:
        return math.prod(self.output[:3])

    @property
    def size(self) -> tuple[int, int]:
        return self.output[1], self.output[2]
