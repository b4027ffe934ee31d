"""The examples, as a reader runs them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import trio
from trio.testing import MockClock

from aisrv import digits
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Status
from host_tools.client import AiServer
from phy.local import LocalError
from tests.support.models import networks
from tests.support.paths import ROOT
from tests.support.programs import AISRV, default_engine_line, next_command_line, run_process, start_process

EXAMPLES = ROOT / "examples"
MODEL = digits.model_bytes()


@pytest.fixture(scope="module")
def director() -> ModuleType:
    spec = importlib.util.spec_from_file_location("director", EXAMPLES / "director.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["director"] = module
    spec.loader.exec_module(module)
    return module


def place_of(frame: bytes, place: int) -> bytes:
    """The 64 bytes of one of the four places of a frame of 8 rows of 32."""
    return bytes(frame[32 * (at // 8) + 8 * place + at % 8] for at in range(64))


def mean_of(image: bytes) -> float:
    """The mean pixel as the pooling has it: the int8 mean is rounded, halves away from zero."""
    total = sum(byte - 256 if byte > 127 else byte for byte in image)
    rounded = (total + 32) // 64 if total > 0 else -((-total + 32) // 64)
    return (rounded + 128) / 15


def digit_in(image: bytes) -> int:
    scores = list(memoryview(networks.run(MODEL, image)[0]).cast("b"))
    return scores.index(max(scores))


@pytest.mark.long("what it sees is compared with both networks every day")
def test_director_prints_what_it_sees_and_ends() -> None:
    done = run_process([sys.executable, EXAMPLES / "director.py"], check=True)
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if line.startswith(("ink", "reads"))] == [
        "ink       5.2             5.4             0.0             4.4",
        "reads '42 7'",
        "ink       0.0             0.3             5.7             0.0",
        "reads '  3 '",
        "ink       0.0             0.0             0.0             0.3",
        "reads '    '",
        "ink       5.2             5.6             5.3             5.3",
        "reads '9018'",
    ]
    assert done.stdout.splitlines()[0] == "      --##          ==@@@@**                        ##@@%%.."


def test_director_agrees_with_both_networks_called_directly(director: ModuleType) -> None:
    sights = trio.run(director.run, inline, clock=MockClock(autojump_threshold=0))
    frames = director.frames()
    assert [sight.frame for sight in sights] == frames
    for sight in sights:
        places = [place_of(sight.frame, place) for place in range(4)]
        assert sight.ink == tuple(map(mean_of, places))
        assert sight.text == "".join(str(digit_in(image)) if mean_of(image) >= 1 else " " for image in places)
    assert len(sights) == 4


def test_detector_measures_each_place(director: ModuleType) -> None:
    ink = [digits.quantize_pixels(bytes((pixel,)) * 64) for pixel in (0, 1, 8, 16)]
    frame = b"".join(image[8 * row : 8 * row + 8] for row in range(8) for image in ink)
    (output,) = networks.run(director.detector_network(), frame)
    assert list(memoryview(output).cast("b")) == [-128, -113, -8, 112]


def test_director_stops_with_the_reason_where_an_engine_refuses(director: ModuleType) -> None:
    async def main() -> None:
        async with open_device(director.BOARD, runner=inline) as device:
            send, _ = trio.open_memory_channel[object](0)
            short = director.frames()[0][:-1]
            await director.director(*device.local, [short], send)

    with pytest.raises(ExceptionGroup) as caught:
        trio.run(main)
    error = caught.value
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, LocalError)
    assert error.status is Status.ERROR_BAD_CMD


# The board file with tasks.

BOARD = EXAMPLES / "director.toml"
READINGS = ["director: '42 7'", "director: '  3 '", "director: '    '", "director: '9018'"]


def test_tasks_of_a_board_file_run_beside_a_host(tmp_path: Path) -> None:
    command = [*AISRV, "run", "--port", "0", "--until-eof", "--board", BOARD]
    with start_process(command, writes=True, cwd=tmp_path) as device:
        assert device.stdout is not None
        lines = [device.stdout.readline().rstrip("\n") for _ in range(1 + len(READINGS))]
        (ready,) = (line for line in lines if line.startswith("aisrv: ready at "))
        with AiServer.open(ready.removeprefix("aisrv: ready at "), engine=1) as reader:
            scores = memoryview(reader.run(digits.test_images()[0].image)).cast("b")
        assert max(range(10), key=scores.__getitem__) == digits.test_images()[0].label
        rest, errors = device.communicate(timeout=30)
    assert [line for line in lines if line != ready] == READINGS
    expected = default_engine_line() + next_command_line(ready.removeprefix("aisrv: ready at "))
    assert (rest, errors, device.returncode) == ("", expected, 0)


def test_the_board_file_is_drawn_with_its_tasks() -> None:
    done = run_process([*AISRV, "boards", BOARD], check=True)
    assert "│ 2 director  " in done.stdout
    assert "  camera (1)    ──  director (0)    strips" in done.stdout.splitlines()
    assert "  director  tile 0  director_tasks:direct" in done.stdout.splitlines()


@pytest.mark.parametrize("command", [["run", "--port", "0"], ["exec"]])
def test_a_board_file_whose_task_is_not_there_is_a_usage_error(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "own.toml"
    path.write_text('\n[[tasks]]\nname = "a"\ntask = "no_such_module_here:f"\n')
    after = ["--", "true"] if command[0] == "exec" else []
    done = run_process([*AISRV, *command, "--board", path, *after])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        f"Error: {path}:4: tasks[0].task: there is no module 'no_such_module_here'; "
        f"it is looked for in {tmp_path} and among those that are installed"
    )


def test_what_a_task_raises_ends_the_device_with_on_trap_stop(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[[tasks]]\nname = "worker"\ntask = "mistaken:f"\n')
    (tmp_path / "mistaken.py").write_text("async def f():\n    raise LookupError('mine')\n")
    done = run_process([*AISRV, "run", "--port", "0", "--board", path, "--on-trap", "stop"])
    assert done.returncode == 1
    assert "LookupError: mine" in done.stderr
    assert "in the task 'worker' of the board, mistaken:f" in done.stderr
