"""Tasks of the user's own on a running device, and what is said of those that cannot be loaded."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import trio
import trio.testing

from aisrv import digits
from aisrv.board import Board, BoardError, BoardFileError, EngineSpec, FlashSpec, TaskSpec
from aisrv.board.toml_file import parse_board, read_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.engine_channel import MODEL_CHANGED
from aisrv.values import addons
from aisrv.values.settings.toml_file import TomlFile
from aisrv.xcore.traps import Trap
from flash_server.chip.part import PARTS
from tests.support.benches.simulation import sole_error

WRITE_MODULE = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> WRITE_MODULE:
    """Writes a module into the folder of the test; returns its name, which no other test uses."""
    name = f"module_of_{request.node.name.partition('[')[0]}_{abs(hash(request.node.name))}"
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(dedent(text))
        return name

    return write


async def run(board: Board) -> None:
    """Open a device on a board and let its own tasks run as far as they come."""
    with trio.fail_after(30):
        async with open_device(board, runner=inline):
            await trio.testing.wait_all_tasks_blocked()


def board_of(folder: Path, *tasks: TaskSpec, engines: int = 1, flashes: tuple[FlashSpec, ...] = ()) -> Board:
    specs = tuple(EngineSpec(arena_bytes=64 * 1024) for _ in range(engines))
    return Board(engines=specs, flashes=flashes, spi=None, tasks=tasks, folder=folder)


def test_a_task_uses_an_engine(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module(
        """
        from phy.local import *
        from aisrv import digits
        scores = []

        async def task(engine):
            await aisrv_local_load_model(engine, digits.model_bytes())
            await aisrv_local_set_input_tensor(engine, digits.test_images()[0].image)
            await aisrv_local_start_inference(engine)
            scores.extend(memoryview(await aisrv_local_get_output_tensor(engine)).cast("b"))
        """
    )
    task = TaskSpec("a", f"{name}:task", 0, {"engine": "engine 1"})
    trio.run(run, board_of(tmp_path, task, engines=2))
    scores = sys.modules[name].scores
    assert scores.index(max(scores)) == digits.test_images()[0].label


def test_two_tasks_share_a_channel(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module(
        """
        from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
        got = []

        async def send(to):
            for word in range(3):
                await chan_out_word(to, word)

        async def receive(source):
            for _ in range(3):
                got.append(await chan_in_word(source))
        """
    )
    send = TaskSpec("send", f"{name}:send", 0, {"to": "receive.source"})
    receive = TaskSpec("receive", f"{name}:receive", 1)
    trio.run(run, board_of(tmp_path, send, receive))
    assert sys.modules[name].got == [0, 1, 2]


def test_a_task_is_notified_of_a_new_model(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module(
        """
        from phy.local import *
        from aisrv import digits
        from aisrv.xcore.tokens import Control
        got = []

        async def task(engine, changes):
            await aisrv_local_load_model(engine, digits.model_bytes())
            got.append(await changes.inct())
            await changes.outct(Control.ACK)
        """
    )
    ends = {"engine": "engine 0", "changes": "engine 0 changes"}
    trio.run(run, board_of(tmp_path, TaskSpec("a", f"{name}:task", 0, ends)))
    assert sys.modules[name].got == [MODEL_CHANGED]


@pytest.mark.plain_time("it waits for no erasure of the chip")
def test_a_task_writes_flash_and_reads_it_back(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module(
        """
        from flash_server.client.flash_channel import FlashChannel
        got = []

        async def task(memory):
            flash = FlashChannel(memory)
            await flash.write_data(0, b"written by a task".ljust(32))
            got.append(bytes(await flash.read_data(11, 6)))
        """
    )
    task = TaskSpec("a", f"{name}:task", 1, {"memory": "flash 0"})
    trio.run(run, board_of(tmp_path, task, flashes=(FlashSpec(PARTS["MX25R6435F"]),)))
    assert sys.modules[name].got == [b"a task"]


def test_a_task_gets_its_node_and_tile_where_it_asks_for_them(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module(
        """
        got = []

        async def task(engine, node, tile):
            got.append((node.tiles[1] is tile, engine.name))
        """
    )
    task = TaskSpec("a", f"{name}:task", 1, {"engine": "engine 0"})
    trio.run(run, board_of(tmp_path, task))
    assert sys.modules[name].got == [(True, "chanend 0x80010102")]


def test_a_task_may_take_its_ends_as_a_dictionary(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module("got = []\nasync def task(**ends): got.append(sorted(ends))")
    task = TaskSpec("a", f"{name}:task", 0, {"x": "engine 0", "y": "engine 0"})
    trio.run(run, board_of(tmp_path, task))
    assert sys.modules[name].got == [["x", "y"]]


def test_a_module_imports_another_beside_it_while_it_runs(tmp_path: Path, module: WRITE_MODULE) -> None:
    (tmp_path / "beside_it_while_it_runs.py").write_text("VALUE = 7")
    name = module(
        "got = []\nasync def task():\n  from beside_it_while_it_runs import VALUE\n  got.append(VALUE)"
    )
    trio.run(run, board_of(tmp_path, TaskSpec("a", f"{name}:task")))
    assert sys.modules[name].got == [7]


def test_a_module_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "package_beside").mkdir()
    (tmp_path / "package_beside" / "inner.py").write_text("got = []\nasync def task(): got.append(1)")
    trio.run(run, board_of(tmp_path, TaskSpec("a", "package_beside.inner:task")))
    assert sys.modules["package_beside.inner"].got == [1]


def test_a_module_beside_a_file_that_is_named_by_a_relative_path(
    tmp_path: Path, module: WRITE_MODULE, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module("got = []\nasync def task(): got.append(1)")
    (tmp_path / "b.toml").write_text(f'[[tasks]]\nname = "a"\ntask = "{name}:task"\n')
    monkeypatch.chdir(tmp_path)
    trio.run(run, read_board(Path("b.toml")))
    assert sys.modules[name].got == [1]


def test_tasks_of_two_devices_are_apart(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module("got = []\nasync def task(node): got.append(node)")
    board = board_of(tmp_path, TaskSpec("a", f"{name}:task"))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, board)
            nursery.start_soon(run, board)

    trio.run(main)
    first, second = sys.modules[name].got
    assert first is not second


def test_what_a_task_raises_ends_the_device_and_names_the_task(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module("async def task(): raise LookupError('mine')")
    with pytest.raises(ExceptionGroup) as caught:
        trio.run(run, board_of(tmp_path, TaskSpec("worker", f"{name}:task")))
    error = sole_error(caught.value, LookupError)
    assert error.__notes__ == [f"in the task 'worker' of the board, {name}:task, line 1 of {name}.py"]


def test_a_trap_of_a_task_names_its_core_too(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module("async def task(tile):\n  for _ in range(33):\n    tile.allocate_chanend()\n")
    with pytest.raises(ExceptionGroup) as caught:
        trio.run(run, board_of(tmp_path, TaskSpec("worker", f"{name}:task")))
    error = sole_error(caught.value, Trap)
    assert error.__notes__[0] == f"in the task 'worker' of the board, {name}:task, line 3 of {name}.py"
    assert error.__notes__[1].startswith("tile 0 core 1 (worker) trapped at tick ")


# Tasks of a kind that another package brings.

TOY = """
from typing import ClassVar
from aisrv.board import BoardError, TaskSpec
from aisrv.device.user_task import LoadedTask
from aisrv.values.addons import AddOn, UserTasks
from aisrv.xcore.channels.channel import chan_out_word

heard = []

class Tune(TaskSpec, frozen=True):
    loads: ClassVar[str] = "{name}:load_tunes"
    notes: tuple[int, ...] = ()

    def check(self, number, tasks):
        if not self.notes:
            raise BoardError(f"the tune {{self.name!r}} has no notes", "tasks", number, "notes")

class Player(LoadedTask, frozen=True):
    async def run(self, ends, node, tile):
        for note in self.spec.notes:
            await chan_out_word(ends["to"], note)

def load_tunes(board, ends, closing):
    closing.callback(heard.append, "closed")
    heard.append({{number: list(names) for number, names in ends.items()}})
    return {{number: Player(board.tasks[number]) for number in ends}}

async def listen(source):
    from aisrv.xcore.channels.channel import chan_in_word
    heard.append([await chan_in_word(source) for _ in range(3)])

ADD_ON = AddOn(task_kinds={{"notes": UserTasks("{name}:Tune")}})
"""
TUNE = """
[[tasks]]
name = "listener"
task = "{name}:listen"
[[tasks]]
name = "tune"
tile = 1
notes = [3, 1, 2]
ends = {{ to = "listener.source" }}
"""


@pytest.fixture
def toy(tmp_path: Path, module: WRITE_MODULE) -> Iterator[str]:
    """The name of the only module of a package that is installed, with a kind of tasks."""
    name = module("")
    (tmp_path / f"{name}.py").write_text(TOY.format(name=name))
    packed = tmp_path / "tunes-1.0.dist-info"
    packed.mkdir()
    (packed / "METADATA").write_text("Metadata-Version: 2.1\nName: tunes\nVersion: 1.0\n")
    (packed / "entry_points.txt").write_text(f"[aisrv.addons]\ntunes = {name}:ADD_ON\n")
    sys.path.append(str(tmp_path))
    addons.others.cache_clear()
    yield name
    addons.others.cache_clear()
    sys.path.remove(str(tmp_path))


def test_a_task_of_another_packages_kind_runs_beside_one_in_python(toy: str) -> None:
    trio.run(run, parse_board(TUNE.format(name=toy)))
    assert sys.modules[toy].heard == [{1: ["to"]}, [3, 1, 2], "closed"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("notes = []", "8: tasks[1].notes: the tune 'tune' has no notes"),
        ("notes = ['c']", "8: tasks[1].notes[0]: must be a whole number, not 'c'"),
        ("notes = [1]\nends2 = {}", "9: tasks[1].ends2: 'ends2' is not known here; did you mean ends?"),
        (
            "notes = [1]\nvolume = 5",
            "9: tasks[1].volume: 'volume' is not known here; known are name, task, tile, ends, notes",
        ),
    ],
)
def test_keys_of_another_packages_kind_are_checked(toy: str, line: str, message: str) -> None:
    with pytest.raises(BoardFileError) as refused:
        parse_board(TUNE.format(name=toy).replace("notes = [3, 1, 2]", line))
    assert str(refused.value) == f"board.toml:{message}"


# Tasks that cannot be loaded.


def refused(spec: TaskSpec, folder: Path | None = None, file: TomlFile | None = None) -> str:
    """What is said when a device is opened on a board with the task; a BoardError by itself, in no group."""
    with pytest.raises(BoardError) as error:
        trio.run(run, Board(tasks=(spec,), folder=folder, file=file))
    assert error.value.setting == ("tasks", 0, "task")
    return str(error.value)


MODULE = """
VALUE = 5
def plain(c): pass
async def good(c): pass
async def two(c, d): pass
async def defaulted(c, d=None): pass
async def positional(c, /): pass
async def nothing(): pass
async def generator(c): yield c
class Task:
    async def __call__(self, c): pass
"""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("godo", "the module '{}' has no function 'godo'; did you mean good?"),
        (
            "unlike",
            (
                "the module '{}' has no function 'unlike'; "
                "its async functions are good, two, defaulted, positional, nothing"
            ),
        ),
        ("plain", "'plain' is not an async function: write `async def plain(...)`"),
        ("VALUE", "'VALUE' is not an async function: write `async def VALUE(...)`"),
        ("generator", "'generator' is not an async function: write `async def generator(...)`"),
        ("Task", "'Task' is not an async function: write `async def Task(...)`"),
        ("two", "two() needs 'd', which is not one of the task's ends: add it to its ends"),
        ("nothing", "nothing() has no parameter for the end 'c'; it has none"),
        ("positional", "positional() takes arguments by position only, its ends are given by name"),
    ],
)
def test_a_function_that_is_none(tmp_path: Path, module: WRITE_MODULE, function: str, message: str) -> None:
    name = module(MODULE)
    spec = TaskSpec("a", f"{name}:{function}", 0, {"c": "engine 0"})
    file = TomlFile("b.toml", tmp_path, {}, {("tasks", 0, "task"): 3})
    assert refused(spec, tmp_path, file) == f"b.toml:3: tasks[0].task: {message.format(name)}"


def test_an_end_that_the_function_does_not_know(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module(MODULE)
    spec = TaskSpec("a", f"{name}:defaulted", 0, {"c": "engine 0", "e": "engine 0"})
    message = "the task 'a': defaulted() has no parameter for the end 'e'; it has c, d"
    assert refused(spec, tmp_path) == message


def test_an_end_that_another_task_gives_counts_too(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module(MODULE)
    first = TaskSpec("a", f"{name}:nothing", 0)
    second = TaskSpec("b", f"{name}:good", 0, {"c": "a.x"})
    with pytest.raises(BoardError, match=r"nothing\(\) has no parameter for the end 'x'; it has none"):
        trio.run(run, Board(tasks=(first, second), folder=tmp_path))


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    assert refused(TaskSpec("a", "no_such_module_here:f", 0), tmp_path) == (
        f"the task 'a': there is no module 'no_such_module_here'; it is looked for in {tmp_path} and among "
        "those that are installed"
    )


def test_a_module_that_is_not_there_for_a_board_without_a_file() -> None:
    assert refused(TaskSpec("a", "no_such_package_here.module:f")) == (
        "the task 'a': there is no module 'no_such_package_here.module'; "
        "it is looked for among those that are installed"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module_here", "No module named 'no_such_module_here'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("from trio import nothing", "ImportError: cannot import name 'nothing' from 'trio'"),
    ],
)
def test_a_module_that_cannot_be_imported(
    tmp_path: Path, module: WRITE_MODULE, text: str, reason: str
) -> None:
    name = module(text)
    message = refused(TaskSpec("a", f"{name}:f", 0), tmp_path)
    assert message.startswith(f"the task 'a': the module {name!r} cannot be imported: {reason}")


def test_a_module_that_is_no_python(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module("def f(:")
    assert refused(TaskSpec("a", f"{name}:f", 0), tmp_path) == (
        f"the task 'a': the module {name!r} cannot be imported: "
        f"SyntaxError: invalid syntax ({name}.py, line 1)"
    )


def test_a_module_with_the_name_of_an_installed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "json.py").write_text("async def f(): pass")
    assert refused(TaskSpec("a", "json:f", 0), tmp_path) == (
        f"the task 'a': {tmp_path / 'json.py'} is hidden by another module 'json', {json.__file__}: "
        "give it another name"
    )


def test_a_module_with_the_name_of_a_part_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "sys.py").write_text("async def f(): pass")
    assert refused(TaskSpec("a", "sys:f", 0), tmp_path) == (
        f"the task 'a': {tmp_path / 'sys.py'} is hidden by another module 'sys', which is part of Python: "
        "give it another name"
    )


def test_a_function_with_some_of_its_arguments(tmp_path: Path, module: WRITE_MODULE) -> None:
    name = module(
        """
        from functools import partial
        got = []

        async def task(word, engine):
            got.append((word, engine.name))

        seven = partial(task, 7)
        """
    )
    trio.run(run, board_of(tmp_path, TaskSpec("a", f"{name}:seven", 0, {"engine": "engine 0"})))
    ((word, end),) = sys.modules[name].got
    assert (word, end) == (7, "chanend 0x80000302")


def test_a_folder_without_the_module_is_not_searched_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    refused(TaskSpec("a", "no_such_module_here:f", 0), tmp_path)
    assert str(tmp_path) not in sys.path
