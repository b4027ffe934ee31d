"""Networks of ADDs of any shape: chains, branches that part and meet, and skips over many layers."""

from collections.abc import Sequence
from random import Random

from tflite import BuiltinOperator

from aisrv.model import Quantization, Tensor, TensorType
from aisrv.model.writer import Network, NetworkOperator

_UNIT = Quantization.per_tensor(1.0, 0)


def adding_network(reads: Sequence[tuple[int, int]]) -> bytes:
    """Write a network whose operator k adds two tensors: 0 is the input, n the output of operator n - 1."""
    names = [f"t{number}" for number in range(len(reads) + 1)]
    used = {index for pair in reads for index in pair}
    ends = tuple(name for number, name in enumerate(names) if number not in used)
    return bytes(
        Network(
            tensors=tuple(Tensor(name, (1, 4), TensorType.INT8, _UNIT) for name in names),
            operators=tuple(
                NetworkOperator(BuiltinOperator.ADD, (names[left], names[right]), (names[number + 1],))
                for number, (left, right) in enumerate(reads)
            ),
            inputs=(names[0],),
            outputs=ends,
        )
    )


def chain(length: int) -> bytes:
    """Write a chain of ADDs."""
    return adding_network([(number, number) for number in range(length)])


def random_network(seed: int, length: int) -> bytes:
    """Write a network in which most operators follow one of the last few, and some reach far back."""
    chance = Random(seed)
    return adding_network(
        [
            (
                max(0, number - chance.randrange(4)),
                chance.randrange(number + 1) if chance.random() < 0.2 else number,
            )
            for number in range(length)
        ]
    )
