"""Many runs with several in flight: the same answers, and what an error leaves."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from aisrv import digits
from aisrv.attach.background import BackgroundDevice
from aisrv.board import Board, EngineSpec
from aisrv.protocol.engine_kind import EngineKind
from host_tools.client import AiServer
from host_tools.errors import CommandError
from host_tools.exchange.many_runs import run_many
from host_tools.transports.transport import Buffer
from tests.support.amounts import amount


@pytest.fixture(scope="module")
def server() -> Iterator[AiServer]:
    board = Board(engines=(EngineSpec(kind=EngineKind.parse("kernels:native")),))
    with (
        BackgroundDevice(board) as device,
        AiServer.open(f"usbip:{device.usbip_address}") as opened,
    ):
        opened.load_model(digits.model_bytes())
        yield opened


@pytest.mark.in_full
def test_random_inputs_have_the_bytes_of_single_runs(server: AiServer) -> None:
    count = amount(10_000, every_day=300)
    inputs = [bytes(each) for each in np.random.default_rng(1).integers(0, 256, (count, 64), np.uint8)]
    assert list(server.run_many(inputs)) == [server.run(each) for each in inputs]


@pytest.mark.parametrize("in_flight", [1, 2, 4, 100])
def test_an_error_leaves_the_outputs_before_it_and_a_server_that_works(
    server: AiServer, in_flight: int
) -> None:
    images = [each.image for each in digits.test_images()[:60]]
    images[37] = images[37][:50]
    found: list[bytes] = []
    outputs = server.run_many(images, in_flight=in_flight)
    with pytest.raises(CommandError) as error:
        found.extend(outputs)
    assert error.value.__notes__ == ["input 37 of run_many"]
    images[37] = digits.test_images()[37].image
    assert found == [server.run(each) for each in images[:37]]
    assert list(server.run_many(images[:5])) == found[:5]


def test_inputs_are_taken_as_they_are_needed(server: AiServer) -> None:
    image = digits.test_images()[0].image
    outputs = server.run_many(itertools.repeat(image), in_flight=4)
    assert len(set(itertools.islice(outputs, 50))) == 1


def test_no_inputs_have_no_outputs(server: AiServer) -> None:
    assert list(server.run_many([])) == []


class Runs:
    """Counts runs that were asked for together."""

    def __init__(self) -> None:
        self.groups: list[int] = []

    def run(self, data: Buffer) -> bytes:
        self.groups.append(1)
        return bytes(data)

    def run_each(self, inputs: list[Buffer]) -> list[bytes] | None:
        self.groups.append(len(inputs))
        return [bytes(each) for each in inputs]


@pytest.mark.parametrize(
    ("size", "groups"), [(64, [1, 4, 4, 1]), (27_648, [1, 2, 2, 2, 2, 1]), (65_536, [1] * 10)]
)
def test_at_most_64_kib_are_in_flight(size: int, groups: list[int]) -> None:
    runs = Runs()
    inputs = [bytes([number]) * size for number in range(10)]
    assert list(run_many(runs, inputs, 4)) == inputs
    assert runs.groups == groups


def test_a_model_of_more_than_64_kib_is_loaded_over_the_same_way(server: AiServer) -> None:
    padded = digits.model_bytes() + bytes(200_000)
    server.load_model(padded, memory="ext")
    image = digits.test_images()[3].image
    (output,) = server.run_many([image])
    server.load_model(digits.model_bytes())
    assert server.run(image) == output
