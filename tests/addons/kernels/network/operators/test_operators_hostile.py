"""Models of single operators with words that somebody changed: each loads and runs, or is a KernelError."""

import random
from typing import Final

import numpy as np
import pytest
from tflite import BuiltinOperator as B
from tflite import Padding

from aisrv.addons.kernels.errors import KernelError
from aisrv.model import TensorType
from tests.support.models.control_models import choosing
from tests.support.models.convolution_models import transposed
from tests.support.models.int16_models import int4_network, int16_network
from tests.support.models.one_operator import constant, single, tensor
from tests.support.models.random_networks import random_network
from tests.support.models.recurrent_models import lstm, svdf
from tests.support.oracles.network_runs import loaded

CHANGES: Final = 120
"""Changed files of each model."""
WORDS: Final = (0, 1, 2, 3, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 0x7F800000)
PICTURE: Final = (1, 4, 6, 4)


def float_network(*steps: str) -> bytes:
    return random_network(1, TensorType.FLOAT32, steps)[0]


MODELS: Final = {
    "TRANSPOSE_CONV": transposed(np.random.default_rng(0), (3, 3, 2), (3, 2), (2, 2), Padding.SAME, 2),
    "SVDF": svdf(),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm(),
    "RESIZE_BILINEAR": single(
        B.RESIZE_BILINEAR, [tensor("in", PICTURE), constant("s", [5, 9])], [tensor("out", (1, 5, 9, 4))]
    ),
    "MIRROR_PAD": single(
        B.MIRROR_PAD,
        [tensor("in", (3, 4)), constant("p", [[2, 1], [0, 3]])],
        [tensor("out", (6, 7))],
        {"mode": 1},
    ),
    "SPACE_TO_DEPTH": single(
        B.SPACE_TO_DEPTH, [tensor("in", PICTURE)], [tensor("out", (1, 2, 3, 16))], {"block_size": 2}
    ),
    "GATHER": single(
        B.GATHER,
        [tensor("in", (2, 5, 3)), tensor("places", (2, 4), kind=TensorType.INT32)],
        [tensor("out", (2, 4, 3))],
        {"axis": 1, "batch_dims": 1},
    ),
    "BATCH_MATMUL": single(
        B.BATCH_MATMUL,
        [tensor("one", (2, 3, 4), 0.1, 3), tensor("two", (2, 4, 5), 0.1, -5)],
        [tensor("out", (2, 3, 5), 0.3)],
        {"adj_x": False},
    ),
    "PRELU": single(
        B.PRELU,
        [tensor("in", (2, 3), 0.1), tensor("slopes", (1, 3), 0.1)],
        [tensor("out", (2, 3), 0.2)],
    ),
    "SQUARED_DIFFERENCE": single(
        B.SQUARED_DIFFERENCE,
        [tensor("one", (2, 3), 0.1), tensor("two", (1, 3), 0.1)],
        [tensor("out", (2, 3), 0.2)],
    ),
    "LESS": single(
        B.LESS,
        [tensor("one", (2, 3), 0.1), tensor("two", (1, 3), 0.1)],
        [tensor("out", (2, 3), kind=TensorType.BOOL)],
    ),
    "SUM": single(
        B.SUM, [tensor("in", (2, 3, 4), 0.1), constant("axes", [1, -1])], [tensor("out", (2,), 0.2)]
    ),
    "LSTM of int16": lstm(kind=TensorType.INT16, zeros=(0, 0)),
    "int16": int16_network(),
    "weights of 4 bits": int4_network(),
    "layers of floats": float_network("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"),
    "pictures of floats": float_network("AVERAGE_POOL_2D", "RESIZE_BILINEAR", "BATCH_MATMUL", "PADV2"),
    "rows of floats": float_network("MEAN", "SUM", "PRELU", "MUL", "SOFTMAX"),
    "IF": choosing(),
    "PACK": single(
        B.PACK,
        [tensor("one", (2, 3)), tensor("two", (2, 3))],
        [tensor("out", (2, 2, 3))],
        {"values_count": 2, "axis": 1},
    ),
}


@pytest.mark.parametrize("name", [*MODELS])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_changed_model_runs_or_is_refused(name: str) -> None:
    chance, outcomes = random.Random(name), {True: 0, False: 0}
    for _ in range(CHANGES):
        model = bytearray(MODELS[name])
        place = chance.randrange(2, len(model) // 4) * 4
        model[place : place + 4] = chance.choice(WORDS).to_bytes(4, "little")
        try:
            network = loaded(bytes(model))
            for buffer in network.inputs:
                buffer[:] = memoryview(chance.choice((bytes, chance.randbytes))(len(buffer))).cast("b")
            network.invoke()
            outcomes[True] += 1
        except KernelError:
            outcomes[False] += 1
    assert min(outcomes.values()) > 0
