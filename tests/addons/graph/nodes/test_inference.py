"""The AI engine as a node, with an engine that answers as the test says."""

import numpy as np
import pytest

from aisrv.addons.graph.nodes.inference import EngineTensor, Inference, Job, OnError
from aisrv.addons.graph.nodes.node import Moved, NodeError, NodeSetup
from tests.support.models.graphs import S8, S16, U8, form


class Engine:
    inputs = (EngineTensor(4, S8),)
    outputs = (EngineTensor(2, S8),)

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def finish(self, output: bytes, error: str | None = None) -> None:
        job = self.jobs[-1]
        job.output, job.error, job.entered = output, error, True


def ready(engine: Engine, on_error: int = 0, log: list[str] | None = None) -> Inference:
    node = Inference({0: engine})
    lines = [] if log is None else log
    node.reset(NodeSetup(inputs=(form(4, S8),), outputs=(form(2, S8),), log=lines.append))
    node.set_parameter(0, bytes([0, 0, 0, on_error]))
    return node


def visit(node: Inference, data: bytes = b"abcd") -> tuple[Moved, bytes]:
    out = np.full(2, 9, np.uint8)
    return node.run([np.frombuffer(data, np.uint8)], [out]), out.tobytes()


BUSY = Moved((0,), (0,), again=True)


def test_a_visit_submits_a_frame_and_later_ones_wait_for_its_answer() -> None:
    engine = Engine()
    node = ready(engine)
    assert visit(node)[0] == BUSY
    assert visit(node)[0] == BUSY
    assert [job.frame for job in engine.jobs] == [b"abcd"]
    engine.finish(b"xy")
    assert visit(node) == (Moved((4,), (2,)), b"xy")
    assert (node.inferences, node.last_output) == (1, b"xy")


@pytest.mark.parametrize(
    ("on_error", "moved", "output"),
    [
        (OnError.NOTHING, Moved((0,), (0,)), b"\t\t"),
        (OnError.ZEROS, Moved((4,), (2,)), b"\0\0"),
        (OnError.LAST_GOOD, Moved((4,), (2,)), b"xy"),
    ],
)
def test_errors(on_error: OnError, moved: Moved, output: bytes) -> None:
    engine, log = Engine(), list[str]()
    node = ready(engine, on_error, log)
    visit(node)
    engine.finish(b"xy")
    visit(node)
    visit(node)
    engine.finish(b"", "ERROR_NO_MODEL")
    assert visit(node) == (moved, output)
    assert (node.errors, log) == (1, ["engine 0 answered ERROR_NO_MODEL to the graph's inference"])


def test_an_output_of_another_length_is_an_error() -> None:
    engine = Engine()
    node = ready(engine, OnError.ZEROS)
    visit(node)
    engine.finish(b"xyz")
    assert visit(node) == (Moved((4,), (2,)), b"\0\0")
    assert node.errors == 1


@pytest.mark.parametrize("parameters", [b"", b"\0\0\0", b"\1\0\0\0", b"\0\1\0\0", b"\0\0\1\0", b"\0\0\0\3"])
def test_bad_parameters_are_refused(parameters: bytes) -> None:
    with pytest.raises(NodeError):
        ready(Engine()).set_parameter(0, parameters)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (S16, S8, "the input has samples of S16; input tensor 0 of engine 0 has S8: put a converter there"),
        (S8, U8, "the output has samples of U8; output tensor 0 of engine 0 has S8: put a converter there"),
    ],
)
def test_arcs_of_another_raw_type_than_the_tensors_are_refused(
    source: int, target: int, message: str
) -> None:
    node = Inference({0: Engine()})
    node.reset(NodeSetup(inputs=(form(4, source),), outputs=(form(2, target),)))
    with pytest.raises(NodeError) as caught:
        node.set_parameter(0, bytes(4))
    assert str(caught.value) == message


def test_without_parameters_it_does_not_run() -> None:
    node = Inference({0: Engine()})
    node.reset(NodeSetup(inputs=(form(4, S8),), outputs=(form(2, S8),)))
    with pytest.raises(NodeError, match="name the engine"):
        visit(node)
