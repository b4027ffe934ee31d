"""A run on a device, through the host library; and the proof that engine processes give a device's bytes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.running.answers import Answers, Bytes
from aisrv.addons.evaluate.running.reader_process import read_row
from aisrv.attach.background import BackgroundDevice
from aisrv.board import Board, BoardError, EngineSpec
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memories import Memory
from host_tools.client import AiServer
from host_tools.errors import CommandError, DeviceGone, DeviceNotFound, HostError, TransferTimeout

CHECKED: Final = 32
"""Examples that run through a virtual device, too."""
BATCH: Final = 64
"""Examples that are made into rows at once."""

_ARENA: Final = 16 << 20


class DeviceError(EvaluateError):
    """A device that is not there or does not take the model; `exit_code` is that of the command."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Keep the code."""
        super().__init__(message)
        self.exit_code: Final = exit_code


@contextmanager
def open_server(address: str, model: bytes) -> Iterator[AiServer]:
    """Open the device at an address with a model in its external memory, else in its arena; DeviceError."""
    try:
        with AiServer.open(address) as server:
            try:
                server.load_model(model, memory="ext", force=True)
            except CommandError:
                server.load_model(model, memory="arena", force=True)
            yield server
    except DeviceNotFound as error:
        raise DeviceError(f"{address}: {error}", 3) from None
    except DeviceGone as error:
        raise DeviceError(f"{address}: {error}", 3) from None
    except TransferTimeout as error:
        raise DeviceError(f"{address}: {error}", 4) from None
    except HostError as error:
        raise DeviceError(f"{address}: {error}", 3) from None


@contextmanager
def open_virtual_server(kind: EngineKind, model: bytes) -> Iterator[AiServer]:
    """Run a virtual device in this process, with an engine of a kind and room for any model; DeviceError."""
    engine = EngineSpec(
        kind=kind,
        arena_bytes=_ARENA,
        arena_memory=Memory.EXTERNAL,
        external_bytes=max(len(model) + 4096, 16 << 20),
    )
    try:
        with (
            BackgroundDevice(Board(engines=(engine,))) as device,
            open_server(f"usbip:{device.usbip_address}", model) as server,
        ):
            yield server
    except BoardError as error:
        raise DeviceError(f"a virtual device with the engine {kind}: {error}", 3) from None


def example_rows(
    data: DataSet, preparation: Preparation, indices: Sequence[int]
) -> Iterator[tuple[int, bytes, bytes, str]]:
    """Yield each example of `indices` as a row, with the digest of its file and why it failed.

    There are no bytes where it failed, and no digest of an array.
    """
    for index in indices:
        if data.files:
            row, read = read_row(preparation, data.files[index])
            yield index, row, read.digest, read.failure
        else:
            parts = [array[index : index + 1] for array in data.arrays]
            yield index, preparation.array_rows(parts).tobytes(), b"", ""


def run_row(server: AiServer, row: bytes, inputs: Sequence[int], outputs: int) -> bytes:
    """Run a row, whose `inputs` have so many bytes each, and return the bytes of all `outputs`; HostError."""
    if len(inputs) == outputs == 1:
        return server.run(row)
    at = 0
    for number, size in enumerate(inputs):
        server.write_input(row[at : at + size], number)
        at += size
    server.infer()
    return b"".join(server.read_output(number) for number in range(outputs))


def run_on_device(
    server: AiServer,
    data: DataSet,
    preparation: Preparation,
    answers: Answers,
    outputs: int,
    on_batch: Callable[[int, int], None],
    first: int = 0,
) -> None:
    """Run the examples without answers on a server that has the model of as many outputs; HostError.

    `on_batch` is called after each example with its index, and the one after it. `first` is the example that
    the answers begin with. KeyboardInterrupt leaves the answers that are there.
    """
    sizes = [spec.nbytes for spec in preparation.specs]
    missing = [index for first, end in answers.missing() for index in range(first, end)]
    for start in range(0, len(missing), BATCH):
        rows: dict[int, bytes] = {}
        indices = missing[start : start + BATCH]
        for index in indices:
            answers.begin(index, index + 1)
        examples = example_rows(data, preparation, [first + index for index in indices])
        for index, (_, row, digest, failure) in zip(indices, examples, strict=True):
            if digest:
                answers.content[index] = bytearray(digest)
            if failure:
                answers.fail(index, failure)
                on_batch(index, index + 1)
            else:
                rows[index] = row
        _run_rows(server, rows, answers, sizes, outputs, on_batch)


def _run_rows(
    server: AiServer,
    rows: dict[int, bytes],
    answers: Answers,
    sizes: Sequence[int],
    outputs: int,
    on_batch: Callable[[int, int], None],
) -> None:
    """Run rows by the index of their examples, several in flight where the model has one input and output."""
    while rows:
        if len(sizes) == outputs == 1:
            found = server.run_many(list(rows.values()))
        else:
            found = (run_row(server, row, sizes, outputs) for row in list(rows.values()))
        left = iter(list(rows))
        try:
            for index, answer in zip(left, found, strict=False):
                answers.put(index, np.frombuffer(answer, np.uint8)[None], ())
                del rows[index]
                on_batch(index, index + 1)
        except CommandError as error:
            index = next(iter(rows))
            answers.fail(index, str(error))
            del rows[index]
            on_batch(index, index + 1)


def checked_indices(answers: Answers, count: int) -> list[int]:
    """Return the examples to be checked: the first, the last, and others by seed 0, of those that ran.

    `count` is how many.
    """
    ran = [index for index in np.flatnonzero(answers.done).tolist() if index not in answers.failed]
    if len(ran) <= count:
        return ran
    inner = np.random.Generator(np.random.PCG64(0)).permutation(np.array(ran[1:-1]))
    return sorted([ran[0], ran[-1], *inner[: max(count - 2, 0)].tolist()])[:count]


def first_difference(
    server: AiServer,
    data: DataSet,
    preparation: Preparation,
    answers: Answers,
    outputs: int,
    indices: Sequence[int],
) -> tuple[int, Bytes, Bytes] | None:
    """Run examples on a device; return the first that differs, with the device's bytes and the engine's.

    `server` has the model, of as many `outputs`; `indices` are the examples. None where all are equal.
    """
    sizes = [spec.nbytes for spec in preparation.specs]
    for index, row, _, failure in example_rows(data, preparation, indices):
        if failure:
            continue
        found = np.frombuffer(run_row(server, row, sizes, outputs), np.uint8)
        if not np.array_equal(found, answers.outputs[index]):
            return index, found, answers.outputs[index]
    return None
