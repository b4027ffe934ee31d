"""A network that tells a word from silence and from a hum: it looks at sixteen decisions of the detector.

Each is 127 while there is sound and 0 else. Its output is above 0 while between four and twelve are on.
`python word_network.py word.tflite` writes the file.
"""

import sys
from pathlib import Path

import numpy as np
from tflite import BuiltinOperator

from aisrv.model.values import Quantization, Tensor, TensorType
from aisrv.model.writer import Network, NetworkOperator

DECISIONS = 16
LEAST, MOST = 4, 12


def network() -> bytes:
    """Return the model: int8 [1, 16] to int8 [1, 2], "a word" and "longer than a word"."""
    weights = np.ones((2, DECISIONS), np.int8)
    biases = np.array([-127 * LEAST, -127 * MOST], np.int32)
    one = Quantization((1.0,), (0,))
    return bytes(
        Network(
            tensors=(
                Tensor("decisions", (1, DECISIONS), TensorType.INT8, one),
                Tensor("weights", weights.shape, TensorType.INT8, one, weights.tobytes()),
                Tensor("biases", biases.shape, TensorType.INT32, one, biases.tobytes()),
                Tensor("scores", (1, 2), TensorType.INT8, Quantization((16.0,), (0,))),
            ),
            operators=(
                NetworkOperator(
                    BuiltinOperator.FULLY_CONNECTED, ("decisions", "weights", "biases"), ("scores",)
                ),
            ),
            inputs=("decisions",),
            outputs=("scores",),
        )
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(network())
