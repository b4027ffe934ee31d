"""A random network in the making: its tensors, its operators, and what is drawn for them."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from aisrv.addons.kernels.arithmetic import float32
from aisrv.model import TensorType
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import ABSENT, Network, NetworkOperator
from tests.support.models.one_operator import UNIT, constant, tensor

DEEPEST: Final = 6
"""Channels of a picture."""
LARGEST: Final = 1000
"""Elements of a tensor that a step makes larger."""


class Recipe:
    """A network in the making, and the values of its input."""

    def __init__(self, seed: int, activations: TensorType) -> None:
        """Start with an input of four dimensions."""
        self.chance: Final = random.Random(seed)
        self.type: Final = activations
        self._tensors: dict[str, Tensor] = {}
        self._operators: list[NetworkOperator] = []
        self._subgraphs: list[Network] = []
        pick = self.chance.randint
        shape = (pick(1, 2), pick(3, 8), pick(3, 8), pick(1, DEEPEST))
        self.last = self.activation(shape, self.scale(-8, -3))
        self.source: Final = self.last
        self.past: list[Tensor] = [self.last]
        """Tensors that are computed or given, which later operators may read again."""

    def scale(self, low: float, high: float) -> float:
        """A scale between two powers of two; those of int16 are finer."""
        finer = 0 if self.type is TensorType.INT8 else -7
        return float32(2.0 ** (self.chance.uniform(low, high) + finer))

    def activation(self, shape: Sequence[int], scale: float, zero_point: int | None = None) -> Tensor:
        """A new tensor."""
        zero = self.chance.randint(-30, 30) if zero_point is None else zero_point
        zero = zero if self.type is TensorType.INT8 else 0
        made = tensor(f"t{len(self._tensors)}", shape, float32(scale), zero, self.type)
        self._tensors[made.name] = made
        return made

    def like(self, source: Tensor, shape: Sequence[int] | None = None) -> Tensor:
        """A new tensor that is quantized as another one is."""
        quant = quantization(source)
        return self.activation(source.shape if shape is None else shape, quant.scale, quant.zero_point)

    def fixed(self, made: Tensor) -> Tensor:
        """A constant under a name of its own."""
        named = replace(made, name=f"c{len(self._tensors)}")
        self._tensors[named.name] = named
        return named

    def called(self, subgraph: Network) -> int:
        """The number of a new subgraph."""
        self._subgraphs.append(subgraph)
        return len(self._subgraphs)

    def plain(self, shape: Sequence[int], kind: TensorType) -> Tensor:
        """A new tensor of another type than activations have, without a scale."""
        made = tensor(f"t{len(self._tensors)}", shape, kind=kind)
        self._tensors[made.name] = made
        return made

    def values(self, shape: Sequence[int], scale: float) -> Tensor:
        """A constant of activations, under a name of its own."""
        random = np.random.default_rng(self.chance.randint(0, 1 << 32))
        if self.type is TensorType.FLOAT32:
            return self.fixed(constant("values", random.normal(size=tuple(shape)), np.float32))
        dtype = np.int8 if self.type is TensorType.INT8 else np.int16
        quant = Quantization.per_tensor(float32(scale), 0)
        return self.fixed(constant("values", random.integers(-127, 128, tuple(shape)), dtype, quant))

    def whole(self, shape: Sequence[int], scale: float) -> Tensor:
        """A new tensor of int32 with a scale."""
        quant = Quantization.per_tensor(float32(scale), 0)
        made = Tensor(f"t{len(self._tensors)}", tuple(shape), TensorType.INT32, quant)
        self._tensors[made.name] = made
        return made

    def variable(self, shape: Sequence[int], scale: float, zero_point: int, kind: TensorType) -> Tensor:
        """A tensor that keeps its value from run to run."""
        quant = Quantization.per_tensor(float32(scale), zero_point)
        return self.fixed(Tensor("variable", tuple(shape), kind, quant, is_variable=True))

    def alike(self) -> Tensor:
        """A tensor of the last one's shape and quantization, perhaps itself."""
        return self.chance.choice(
            [
                each
                for each in self.past
                if each.shape == self.last.shape and quantization(each) == quantization(self.last)
            ]
        )

    def apply(
        self,
        code: int,
        inputs: Sequence[Tensor | None],
        output: Tensor,
        options: Mapping[str, Any] | None = None,
        *others: Tensor,
    ) -> None:
        """Append an operator; None is an input that is left out, the first output is what comes next."""
        self.aside(code, inputs, (output, *others), options)
        self.last = output
        self.past.append(output)

    def aside(
        self,
        code: int,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Append an operator whose outputs are none of the activations that follow."""
        names = tuple(ABSENT if each is None else each.name for each in inputs)
        self._operators.append(
            NetworkOperator(code, names, tuple(each.name for each in outputs), options or {})
        )

    def network(self) -> bytes:
        """The `.tflite` file."""
        read = {name for operator in self._operators for name in operator.inputs}
        written = [name for operator in self._operators for name in operator.outputs]
        unread = [name for name in written if name not in read]
        outputs = tuple(self.chance.choice((written, unread)))
        return bytes(
            Network(
                tuple(self._tensors.values()),
                tuple(self._operators),
                (self.source.name,),
                outputs,
                subgraphs=tuple(self._subgraphs),
            )
        )


def quantization(each: Tensor) -> Quantization:
    """Of a tensor; floats count as they are."""
    return each.quantization or UNIT
