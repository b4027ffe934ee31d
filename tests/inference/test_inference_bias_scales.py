"""TFLM's person detector, whose biases have scales by the dimension of their weights, in every engine."""

import random
import struct

import numpy as np
import pytest
from tflite import TensorType

from aisrv.inference.engine import InferenceEngine
from aisrv.model.bias_scales import with_sound_dimensions
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network
from aisrv.protocol.memory_map import ModelMemory
from tests.support.benches.engines import inline_as, needs
from tests.support.models.one_operator import tflm
from tests.support.peers import tflite_micro_models

NOISE = random.Random(1).randbytes(96 * 96)


def stale_model() -> bytes:
    """A vector of two elements, two scales, and dimension 1: the shape [1, 2] of a file cut to [2]."""
    tensor = Tensor("x", (1, 2), TensorType.INT32, Quantization((0.5, 0.25), (0, 0), dimension=1))
    data = bytes(Network((tensor,), (), ("x",), ("x",)))
    shape = struct.pack("<3i", 2, 1, 2)
    assert data.count(shape) == 1
    return data.replace(shape, struct.pack("<3i", 1, 2, 2))


def test_dimension_of_a_vector_is_0_whatever_the_file_says() -> None:
    expected = Quantization((0.5, 0.25), (0, 0), 0)
    assert read_model(stale_model()).tensors[0].quantization == expected
    assert read_model(with_sound_dimensions(stale_model())).tensors[0].quantization == expected


def test_sound_and_broken_files_stay_as_they_are() -> None:
    sound = with_sound_dimensions(stale_model())
    assert sound != stale_model()
    for data in (sound, b"", sound[:20], stale_model()[:-30]):
        assert with_sound_dimensions(data) is data


@pytest.mark.parametrize("kind", ["kernels", needs("tflite"), needs("litert"), needs("tflm")])
async def test_person_detector_in_every_engine(kind: str) -> None:
    model = tflite_micro_models.model_bytes("person_detect")
    expected = tflm(model, np.frombuffer(NOISE, np.int8).reshape(1, 96, 96, 1))
    runner = inline_as(kind)
    engine = InferenceEngine(lambda log: runner(log), arena_bytes=1 << 20, external_bytes=1 << 20)
    await engine.load_model(model, ModelMemory.EXT)
    engine.input(0)[:] = NOISE
    await engine.invoke()
    assert bytes(engine.output(0)) == expected[0]
