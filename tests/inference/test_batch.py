"""Batches: the same bytes as single runs, inputs left as they are, and where a batch ends early."""

import os
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv import digits
from aisrv.inference.batch import (
    MEASUREMENTS,
    Batches,
    BatchJob,
    RowArea,
    Rows,
    pack_times,
    run_batch,
    timed,
    unpack_times,
)
from aisrv.inference.errors import InvokeError
from aisrv.inference.interpreter import TensorLayout, create_interpreter, run_in_tensors, run_once
from aisrv.protocol.engine_kind import EngineKind

IMAGES = [each.image for each in digits.test_images()]


def single(kind: str, model: bytes, image: bytes) -> list[bytes]:
    interpreter = create_interpreter(EngineKind.parse(kind))
    layout = interpreter.load(model, 1 << 20)
    outputs = [memoryview(bytearray(size)) for size in layout.outputs]
    run_once(interpreter, [memoryview(image)], outputs)
    return [bytes(each) for each in outputs]


@pytest.mark.parametrize("kind", ["kernels:native", "kernels:numpy", "tflm"])
@pytest.mark.parametrize("model", [digits.model_bytes(), digits.two_output_model_bytes()])
def test_a_batch_gives_the_bytes_of_single_runs_and_leaves_its_inputs(kind: str, model: bytes) -> None:
    interpreter = create_interpreter(EngineKind.parse(kind))
    layout = interpreter.load(model, 1 << 20)
    rows = [memoryview(image) for image in IMAGES[:20]]  # bytes, which nobody can write to
    out = [[memoryview(bytearray(size)) for _ in rows] for size in layout.outputs]
    run_batch(interpreter, [rows], out)
    expected = [single(kind, model, image) for image in IMAGES[:20]]
    assert [list(map(bytes, outputs)) for outputs in zip(*out, strict=True)] == expected


class Interpreter:
    """Two inputs and one output, their sum; a first byte of 9 is refused."""

    def __init__(self) -> None:
        self.data = [b"", b""]

    def load(self, _model: bytes, _arena: int, /) -> TensorLayout:
        return TensorLayout((2, 1), (1,))

    def set_input(self, number: int, data: memoryview) -> None:
        self.data[number] = bytes(data)

    def invoke(self) -> None:
        if self.data[0][0] == 9:
            raise InvokeError("nine")

    def get_input(self, number: int, into: memoryview) -> None:
        raise AssertionError("inputs are not read back")

    def get_output(self, _number: int, into: memoryview) -> None:
        into[0] = (sum(self.data[0]) + sum(self.data[1])) % 256


def rows_of(values: Sequence[Sequence[int]]) -> list[list[memoryview]]:
    return [
        [memoryview(bytes(each[:2])) for each in values],
        [memoryview(bytes(each[2:])) for each in values],
    ]


def test_one_run_leaves_its_inputs_and_a_run_in_tensors_shows_what_is_left_of_them() -> None:
    interpreter = create_interpreter(EngineKind.parse("kernels:native"))
    (size,) = interpreter.load(digits.model_bytes(), 1 << 20).outputs
    image, out = bytearray(IMAGES[0]), memoryview(bytearray(size))
    run_once(interpreter, [memoryview(image)], [out])
    assert image == IMAGES[0]
    scores = bytes(out)
    run_in_tensors(interpreter, [memoryview(image)], [out])
    left = bytearray(len(image))
    interpreter.get_input(0, memoryview(left))
    assert (image, bytes(out)) == (left, scores)
    assert image != IMAGES[0]  # the plan of this model puts other tensors there


def test_rows_before_one_that_fails_are_there() -> None:
    out = bytearray(3)
    views = [[memoryview(out)[index : index + 1] for index in range(3)]]
    with pytest.raises(InvokeError, match="nine"):
        run_batch(Interpreter(), rows_of([(1, 2, 3), (9, 0, 0), (4, 5, 6)]), views)
    assert bytes(out) == bytes((6, 0, 0))


@pytest.mark.parametrize("count", [1, MEASUREMENTS, MEASUREMENTS + 1, 5 * MEASUREMENTS])
def test_long_batches_are_timed_in_groups(count: int) -> None:
    out = [[memoryview(bytearray(1)) for _ in range(count)]]
    rows = rows_of([(1, 2, 3)] * count)
    times = timed(
        count,
        lambda first, end: run_batch(
            Interpreter(), [each[first:end] for each in rows], [each[first:end] for each in out]
        ),
    )
    assert len(times) <= MEASUREMENTS
    assert len(times) == -(-count // -(-count // MEASUREMENTS))
    assert {bytes(each) for each in out[0]} == {b"\x06"}


def test_rows_in_files_are_cut_into_tensors() -> None:
    data = bytes(range(10, 40))
    descriptor = os.memfd_create("rows")
    os.write(descriptor, b"head" + data + bytes(10))
    batches = Batches(Interpreter(), TensorLayout((2, 1), (1,)))
    with pytest.raises(ValueError, match="there are no rows"):
        batches.run(BatchJob(0, 0, 1))
    batches.map_inputs(descriptor, RowArea(4, 3, 10))
    batches.map_outputs(descriptor, RowArea(34, 1, 10))
    assert len(batches.run(BatchJob(2, 5, 4))) == 4
    sums = np.frombuffer(data, np.uint8).reshape(10, 3).sum(axis=1)[2:6] % 256
    assert os.pread(descriptor, 10, 34) == bytes(5) + bytes(sums.tolist()) + bytes(1)
    with pytest.raises(ValueError, match="rows 8 to 12 of 10"):
        batches.run(BatchJob(8, 0, 4))
    with pytest.raises(ValueError, match="rows have 4 bytes, the model's tensors 3"):
        batches.map_inputs(descriptor, RowArea(0, 4, 5))
    os.close(descriptor)


@pytest.mark.parametrize("small_row", [0, 2048])
@pytest.mark.parametrize("layout", [TensorLayout((2, 1), (1,)), TensorLayout((3,), (1,))])
def test_a_batch_longer_than_a_block_gives_all_its_rows(
    small_row: int, layout: TensorLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aisrv.inference.batch.SMALL_ROW", small_row)
    monkeypatch.setattr("aisrv.inference.batch.BLOCK_BYTES", 7 * 4 + 7 * 3 * 256)
    count = 16 * MEASUREMENTS
    data = np.random.default_rng(0).integers(0, 9, (count, 3), np.uint8)
    descriptor = os.memfd_create("rows")
    os.write(descriptor, data.tobytes() + bytes(count))
    batches = Batches(Interpreter(), layout)
    batches.map_inputs(descriptor, RowArea(0, 3, count))
    batches.map_outputs(descriptor, RowArea(3 * count, 1, count))
    assert len(batches.run(BatchJob(0, 0, count - 20))) == MEASUREMENTS - 1
    assert os.pread(descriptor, count, 3 * count) == bytes(data.sum(axis=1).tolist()[:-20]) + bytes(20)
    os.close(descriptor)


def test_inputs_are_mapped_for_reading_alone() -> None:
    descriptor = os.memfd_create("rows")
    os.write(descriptor, bytes(8))
    ((view,),) = Rows.mapped(descriptor, RowArea(0, 8, 1), (8,), writable=False).tensors(0, 1)
    assert view.readonly
    os.close(descriptor)


@given(st.builds(BatchJob, *[st.integers(0, 2**64 - 1)] * 3))
def test_batches_cross_a_socket(job: BatchJob) -> None:
    assert BatchJob.from_bytes(bytes(job)) == job
    area = RowArea(*job)
    assert RowArea.from_bytes(bytes(area)) == area


@pytest.mark.parametrize("data", [b"", bytes(23), bytes(25)])
def test_other_bytes_are_refused(data: bytes) -> None:
    for kind in (BatchJob, RowArea):
        with pytest.raises(ValueError, match=f"^{len(data)} bytes are not"):
            kind.from_bytes(data)


def test_times_are_cut_to_32_bits() -> None:
    assert unpack_times(pack_times([1, 10**12])) == (1, 2**32 - 1)
    with pytest.raises(ValueError, match="3 bytes are not times"):
        unpack_times(b"abc")
