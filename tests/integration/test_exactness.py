"""The same bytes from every exact engine, through a device, and as TensorFlow Lite Micro gave them elsewhere.

Where there is no tflite-runtime, LiteRT is the interpreter that is called directly: its engines give its
bytes, and the numbers of TensorFlow Lite Micro within a few steps.

Inputs are seeded. The MLPerf Tiny models are not part of the project (`support.mlperf_tiny`); what TFLM made
of them is in `golden_tflm.json` beside them.
"""

import hashlib
import json
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from aisrv import digits
from aisrv.model.reader import read_model
from tests.support.benches.engines import EXACT, PACKAGES, isolated_as, needs
from tests.support.benches.model_session import model_session
from tests.support.models import networks
from tests.support.peers import mlperf_tiny

ENGINES = [needs(kind) for kind in EXACT]
SEEDED_RUNS = 3

LIKE_DIRECT = [needs(kind) for kind in PACKAGES if (kind in EXACT) == ("tflite" in EXACT)]
"""Kinds that give the bytes of `networks.run`: the exact ones, or those that are LiteRT where that is it."""
SOME_DIRECT = [
    needs(
        kind,
        marks=[pytest.mark.long("it runs the models of MLPerf Tiny every day")] if kind == "tflite" else [],
    )
    for kind in PACKAGES
    if (kind in EXACT) == ("tflite" in EXACT)
]
LITERT_STEPS = 8
"""How far LiteRT may be from TensorFlow Lite Micro, for FULLY_CONNECTED ("Inference engines", its table)."""


def seeded_inputs(model: bytes, seed: int) -> list[bytes]:
    chance = Random(seed)
    return [chance.randbytes(tensor.nbytes) for tensor in read_model(model).input_tensors]


def golden(name: str) -> dict[str, Any]:
    entries: dict[str, dict[str, Any]] = json.loads(mlperf_tiny.file("golden_tflm.json").read_text())
    return entries[f"{name}.tflite"]


def fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@pytest.mark.parametrize("kind", SOME_DIRECT)
async def test_all_digits(kind: str) -> None:
    model = digits.two_output_model_bytes()
    async with model_session(model, isolated_as(kind)) as session:
        for image, _ in digits.test_images():
            assert await session.run(image) == networks.run(model, image)


class Answers(NamedTuple):
    """What an engine makes of a model."""

    seeded: list[list[bytes]]
    """The outputs of each seeded run."""
    known: list[bytes]
    """Those on the input that TensorFlow Lite Micro was given elsewhere."""


_answers: dict[tuple[str, str], Answers] = {}
"""By model and engine: several tests look at the same ones."""


async def answers_of(name: str, kind: str) -> Answers:
    """Run a model of MLPerf Tiny in an engine, once for all tests."""
    if (name, kind) not in _answers:
        model = mlperf_tiny.model_bytes(name)
        async with model_session(model, isolated_as(kind)) as session:
            seeded = [await session.run(*seeded_inputs(model, seed)) for seed in range(SEEDED_RUNS)]
            _answers[name, kind] = Answers(seeded, await session.run(known_input(name)))
    return _answers[name, kind]


def known_input(name: str) -> bytes:
    random = np.random.default_rng(7)
    data: bytes = random.integers(-128, 128, golden(name)["input_shape"], dtype=np.int8).tobytes()
    return data


@pytest.mark.parametrize("kind", LIKE_DIRECT)
@pytest.mark.parametrize("name", mlperf_tiny.NAMES)
async def test_mlperf_tiny(name: str, kind: str) -> None:
    model = mlperf_tiny.model_bytes(name)
    for seed, outputs in enumerate((await answers_of(name, kind)).seeded):
        assert outputs == networks.run(model, *seeded_inputs(model, seed))


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("name", mlperf_tiny.NAMES)
async def test_mlperf_tiny_as_tflm_gave_it(name: str, kind: str) -> None:
    model, known = mlperf_tiny.model_bytes(name), golden(name)
    assert hashlib.sha256(model).hexdigest() == known["model_sha256"]
    assert fingerprint(known_input(name)) == known["input_sha256_16"]
    *_, (_, _, tensor, _, expected) = known["ops_[index,op,out_tensor,shape,sha256_16]"]
    assert read_model(model).outputs == (tensor,)
    (output,) = (await answers_of(name, kind)).known
    assert fingerprint(output) == expected
    if known["final_output"] is not None:
        assert memoryview(output).cast("b").tolist() == known["final_output"]


@pytest.mark.parametrize("kind", SOME_DIRECT)
@pytest.mark.parametrize(
    "make", [networks.adding_network, networks.mmac_network, lambda: networks.cut_in_two()[0]]
)
async def test_small_networks(make: Any, kind: str) -> None:
    model = make()
    async with model_session(model, isolated_as(kind)) as session:
        inputs = seeded_inputs(model, 5)
        assert await session.run(*inputs) == networks.run(model, *inputs)


async def outputs_of(
    kind: str, model: bytes, runs: list[list[bytes]]
) -> "np.ndarray[Any, np.dtype[np.int8]]":
    """The first output of each run, a row each."""
    async with model_session(model, isolated_as(kind)) as session:
        return array_of([(await session.run(*inputs))[0] for inputs in runs])


def array_of(rows: list[bytes]) -> "np.ndarray[Any, np.dtype[np.int8]]":
    return np.array([np.frombuffer(row, np.int8) for row in rows])


def largest_step(one: "np.ndarray[Any, Any]", other: "np.ndarray[Any, Any]") -> int:
    return int(np.abs(one.astype(int) - other).max())


@pytest.mark.long("two models of MLPerf Tiny are compared every day")
@pytest.mark.parametrize("kind", [needs("litert")])
@pytest.mark.parametrize("reference", [needs("tflm")])
async def test_litert_finds_the_digits_that_tflm_finds(kind: str, reference: str) -> None:
    model, runs = digits.model_bytes(), [[image] for image, _ in digits.test_images()]
    ours, tflm = await outputs_of(kind, model, runs), await outputs_of(reference, model, runs)
    assert ours.argmax(1).tolist() == tflm.argmax(1).tolist()
    assert largest_step(ours, tflm) <= LITERT_STEPS


@pytest.mark.parametrize("kind", [needs("litert")])
@pytest.mark.parametrize("reference", [needs("tflm")])
@pytest.mark.parametrize(
    "name",
    [
        *mlperf_tiny.NAMES[:2],
        *(
            pytest.param(name, marks=pytest.mark.long("two others are compared every day"))
            for name in mlperf_tiny.NAMES[2:]
        ),
    ],
)
async def test_litert_is_a_few_steps_from_tflm_at_most(name: str, kind: str, reference: str) -> None:
    ours, tflm = [
        array_of([outputs[0] for outputs in (await answers_of(name, each)).seeded])
        for each in (kind, reference)
    ]
    assert largest_step(ours, tflm) <= LITERT_STEPS
