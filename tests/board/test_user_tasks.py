"""Tasks of the user's own on a board: what their ends may be joined to; how they are counted and drawn."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.board import Board, BoardError, FlashSpec, TaskSpec, plan_of
from aisrv.board.catalog import BOARDS
from aisrv.board.drawing import draw_board
from aisrv.board.user_tasks import PartKind, PartTarget, TaskTarget, parse_target
from tests.support.benches.boards import engines_on


def task(name: str = "a", tile: int = 0, **ends: str) -> TaskSpec:
    return TaskSpec(name, "module:function", tile, ends)


def joined(*tasks: TaskSpec) -> list[tuple[str, ...]]:
    """The links of the tasks, on a board with two engines and a flash chip: both ends, and what crosses."""
    plan = plan_of(Board(engines=engines_on(0, 1), flashes=(FlashSpec(),), spi=None, tasks=tasks))
    names = {each.name for each in tasks}
    return [
        (f"{link.a.task.name}.{link.a.name}", f"{link.b.task.name}.{link.b.name}", link.carries)
        for link in plan.links
        if {link.a.task.name, link.b.task.name} & names
    ]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("engine 0", PartTarget(PartKind.ENGINE, 0)),
        ("engine 254", PartTarget(PartKind.ENGINE, 254)),
        ("engine 1 changes", PartTarget(PartKind.CHANGES, 1)),
        ("flash 0", PartTarget(PartKind.FLASH, 0)),
        ("director.strips", TaskTarget("director", "strips")),
        ("a-b_2.x", TaskTarget("a-b_2", "x")),
        ("engine.x", TaskTarget("engine", "x")),
    ],
)
def test_targets(text: str, target: PartTarget | TaskTarget) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text",
    [
        *("", "engine", "engine ", "engine  0", "engine -1", "engine 0x1", "engine 00000", "engine \u0661"),
        *(
            "flash 0 changes",
            "engine 0 change",
            "Engine 0",
            " engine 0",
            "engine 0 ",
            "engine 0\n",
            "sensor 0",
        ),
        *(".x", "a.", "a.b.c", "a.1", "1a.x", "a b.x", "a. x", "\u00e4.x", f"{'a' * 33}.x"),
    ],
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match="an end is joined to") as error:
        parse_target(text)
    assert str(error.value).endswith(f"not to {text!r}")


@given(st.text(alphabet="aengi flsh0123456789.c-_\n\u0660", max_size=20))
def test_any_text_is_a_target_that_says_the_same_or_is_refused(text: str) -> None:
    try:
        target = parse_target(text)
    except ValueError:
        return
    if isinstance(target, TaskTarget):
        assert f"{target.task}.{target.end}" == text
    else:
        part, number, *changes = text.split(" ")
        assert (target.kind.value, target.number) == (" ".join((part, *changes)), int(number))


@pytest.mark.parametrize(
    ("tasks", "links"),
    [
        ([task(c="engine 1")], [("a.c", "aiengine 1.clients", "commands")]),
        ([task(c="engine 0 changes")], [("aiengine 0.watchers", "a.c", "model notifications")]),
        ([task(c="flash 0")], [("a.c", "flash_server 0.loaders", "reads and writes")]),
        ([task("a", out="b.into"), task("b")], [("a.out", "b.into", "out")]),
        ([task("a", x="b.x"), task("b", y="a.y")], [("a.x", "b.x", "x"), ("b.y", "a.y", "y")]),
        (
            [task(x="engine 0", y="engine 0")],
            [(f"a.{end}", "aiengine 0.clients", "commands") for end in "xy"],
        ),
    ],
    ids=["an engine", "its changes", "a flash chip", "a task", "each other", "one engine twice"],
)
def test_what_tasks_are_joined_to(tasks: list[TaskSpec], links: list[tuple[str, str, str]]) -> None:
    assert joined(*tasks) == links


def test_a_task_comes_on_the_next_core_of_its_tile() -> None:
    plan = plan_of(Board(spi=None, tasks=(task("a", 1), task("b", 0), task("c", 1))))
    assert [each.name for each in plan.cores(0)] == ["aiengine 0", "b"]
    assert [each.name for each in plan.cores(1)] == ["XUD", "usb_ep0", "usb_data", "a", "c"]


def test_ends_of_a_task_are_counted_on_its_tile() -> None:
    plain = plan_of(Board(spi=None))
    plan = plan_of(Board(spi=None, tasks=(task("a", 1, c="engine 0", out="b.c"), task("b", 0))))
    ends = [plan.channel_ends(tile) - plain.channel_ends(tile) for tile in (0, 1)]
    assert ends == [2, 2]


def test_boards_with_tasks_can_be_compared_and_hashed() -> None:
    one, same, other = (
        Board(tasks=(task(c=f"engine {engine}"),), engines=engines_on(0, 0)) for engine in (0, 0, 1)
    )
    assert (one == same, one == other) == (True, False)
    assert len({one, same, other}) == 2


def test_tasks_are_drawn() -> None:
    board = Board(
        spi=None,
        tasks=(TaskSpec("director", "my_tasks:direct", 0, {"engine": "engine 0"}), task("camera", 1)),
    )
    text = draw_board(board)
    assert "│ 1 director " in text
    assert "│ 3 camera " in text
    assert "  director (0)  ──  aiengine 0 (0)  commands" in text.splitlines()
    tables = text.partition("\ntasks\n")[2].splitlines()
    assert tables[:3] == ["  director  tile 0  my_tasks:direct", "  camera    tile 1  module:function", ""]


@pytest.mark.parametrize("name", ["a", "A", "a-1", "a_", "a" * 32])
def test_names_at_the_edge(name: str) -> None:
    plan_of(Board(tasks=(task(name),))).check()


@pytest.mark.parametrize("count", [7, 0])
def test_as_many_tasks_as_there_are_cores(count: int) -> None:
    plan_of(Board(tasks=tuple(task(f"t{number}") for number in range(count)))).check()


@pytest.mark.parametrize(
    ("tasks", "message", "setting"),
    [
        ([task("")], "a task's name is a letter and up to 31 letters, digits, - and _, not ''", (0, "name")),
        (
            [task("a"), task("a" * 33)],
            f"a task's name is a letter and up to 31 letters, digits, - and _, not '{'a' * 33}'",
            (1, "name"),
        ),
        (
            [task("aiengine 0")],
            "a task's name is a letter and up to 31 letters, digits, - and _, not 'aiengine 0'",
            (0, "name"),
        ),
        (
            [task("a\x1b")],
            "a task's name is a letter and up to 31 letters, digits, - and _, not 'a\\x1b'",
            (0, "name"),
        ),
        ([task("a"), task("b"), task("a")], "two tasks are called 'a'", (2, "name")),
        ([task("a", 2)], "the task 'a' is on tile 2; the node has tiles 0 and 1", (0, "tile")),
        ([task("a", -1)], "the task 'a' is on tile -1; the node has tiles 0 and 1", (0, "tile")),
        (
            [TaskSpec("a", "function")],
            "the task 'a': a function is written \"module:function\", not 'function'",
            (0, "task"),
        ),
        (
            [TaskSpec("a", "module.py:function()")],
            "the task 'a': a function is written \"module:function\", not 'module.py:function()'",
            (0, "task"),
        ),
        (
            [TaskSpec("a", ".module:function")],
            "the task 'a': a function is written \"module:function\", not '.module:function'",
            (0, "task"),
        ),
        (
            [task(c="sensor")],
            (
                'an end is joined to "engine 0", "engine 0 changes", "flash 0" or "TASK.END" of another '
                "task, not to 'sensor'"
            ),
            (0, "ends", "c"),
        ),
        ([task(c="engine 1")], "engine 1 is not there; the board has 1", (0, "ends", "c")),
        ([task(c="engine 9999")], "engine 9999 is not there; the board has 1", (0, "ends", "c")),
        ([task(c="engine 1 changes")], "engine 1 is not there; the board has 1", (0, "ends", "c")),
        ([task(c="flash 0")], "flash 0 is not there; the board has 0", (0, "ends", "c")),
        (
            [task("a"), task("b", c="c.x")],
            "unknown task 'c'; others are a",
            (1, "ends", "c"),
        ),
        ([task(c="b.x")], "unknown task 'b'; others are none", (0, "ends", "c")),
        ([task(c="a.x")], "a.x is an end of the same task", (0, "ends", "c")),
        ([task("a", c="b.x"), task("b", x="a.c")], "the end b.x is joined twice", (1, "ends", "x")),
        ([task("a", c="b.x"), task("b", x="engine 0")], "the end b.x is joined twice", (1, "ends", "x")),
        ([task("a", c="b.x", d="b.x"), task("b")], "the end b.x is joined twice", (0, "ends", "d")),
        (
            [task(node="engine 0")],
            "'node' is for the task's own node: give the end another name",
            (0, "ends", "node"),
        ),
        (
            [task("a", c="b.tile"), task("b")],
            "'tile' is for the task's own tile: give the end another name",
            (0, "ends", "c"),
        ),
        (
            [TaskSpec("a", "m:f", 0, {"class": "engine 0"})],
            "an end has the name of a parameter; 'class' is not one",
            (0, "ends", "class"),
        ),
        (
            [TaskSpec("a", "m:f", 0, {"a b": "engine 0"})],
            "an end has the name of a parameter; 'a b' is not one",
            (0, "ends", "a b"),
        ),
        (
            [task("a", c="b.if"), task("b")],
            "an end has the name of a parameter; 'if' is not one",
            (0, "ends", "c"),
        ),
    ],
)
def test_a_task_that_cannot_be(tasks: list[TaskSpec], message: str, setting: tuple[Any, ...]) -> None:
    with pytest.raises(BoardError) as error:
        Board(tasks=tuple(tasks))
    assert (str(error.value), error.value.setting) == (message, ("tasks", *setting))


@pytest.mark.parametrize(
    "name", ["XUD", "usb_ep0", "usb_data", "spi_slave", "spi_buffer", "sensor", "acquire", "program"]
)
def test_a_name_that_the_board_has_already(name: str) -> None:
    with pytest.raises(BoardError) as error:
        plan_of(replace(BOARDS["camera"], tasks=(task("a"), task(name)))).check()
    assert str(error.value) == f"the board has a task {name!r} already: give this one another name"
    assert error.value.setting == ("tasks", 1, "name")


def test_no_core_is_free() -> None:
    tasks = (task("here", 0), *(task(f"t{number}", 1) for number in range(4)))
    with pytest.raises(BoardError) as error:
        plan_of(Board(tasks=tasks)).check()
    assert str(error.value) == (
        "tile 1 needs 9 cores: XUD, usb_ep0, usb_data, spi_slave, spi_buffer, t0, t1, t2, t3; it has 8"
    )
    assert error.value.setting == ("tasks", 4, "tile")


def test_no_channel_end_is_free() -> None:
    ends = {f"c{number}": "engine 0" for number in range(13)}
    plan_of(Board(tasks=(TaskSpec("a", "m:f", 0, dict(list(ends.items())[:13])),))).check()
    with pytest.raises(BoardError) as error:
        plan_of(Board(tasks=(TaskSpec("a", "m:f", 0, {**ends, "more": "engine 0"}),))).check()
    assert str(error.value) == "tile 0 needs 33 channel ends: aiengine 0 18, program 1, a 14; it has 32"
