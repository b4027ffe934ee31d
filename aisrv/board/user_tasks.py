"""Tasks of the user's own: the table `[[tasks]]`, the targets of their channel ends, and their checks.

An end is joined to "engine 0", as a client of the engine; "engine 0 changes", where the engine notifies of
new models and outputs; "flash 0", as a client of the flash server that may write; or "TASK.END", an end of
another task of the user's, which is written at one of the two tasks only.
"""

import enum
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from msgspec import Struct, field

from aisrv.board.specs import BoardError
from aisrv.values.addons import load, offer, offered
from aisrv.values.settings.tables import Integer, Table

CONTEXT: Final = ("node", "tile")
"""Parameters that a task's function may have besides its ends: no end has such a name."""

_TASK_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_PART: Final = re.compile(r"(engine|flash) ([0-9]{1,4})|(engine) ([0-9]{1,4}) (changes)", re.ASCII)


class PartKind(enum.Enum):
    """A part of the board that a task of the user's can be joined to."""

    ENGINE = "engine"
    CHANGES = "engine changes"
    FLASH = "flash"


class PartTarget(Struct, frozen=True):
    """A part of the board, by its number among those of its kind."""

    kind: PartKind
    number: int


class TaskTarget(Struct, frozen=True):
    """An end of another task of the user's."""

    task: str
    end: str


def parse_target(text: str) -> PartTarget | TaskTarget:
    """Parse the target of an end. Raises ValueError."""
    if (match := _PART.fullmatch(text)) is not None:
        part, number, *changes = filter(None, match.groups())
        return PartTarget(PartKind(" ".join((part, *changes))), int(number))
    task, dot, end = text.partition(".")
    if dot and _TASK_NAME.fullmatch(task) and end.isidentifier():
        return TaskTarget(task, end)
    raise ValueError(
        'an end is joined to "engine 0", "engine 0 changes", "flash 0" or "TASK.END" of another task, '
        f"not to {text!r}"
    )


class TaskSpec(Table, frozen=True):
    """A task of the user's own: a function that runs on a core, with channel ends as arguments.

    Here it is an async function of Python. Add-ons have tasks of other kinds, each in a subclass with further
    keys, by one of which it is known: `AddOn.task_kinds`.
    """

    loads: ClassVar[str] = "aisrv.device.user_task:load_python_tasks"
    """Place of what makes such tasks ready to run, a function as `aisrv.device.user_task.LoadTasks`."""
    can_be_usb: ClassVar[bool] = False
    """Whether such a task can be the USB device."""

    name: str
    """Name in drawings and messages."""
    task: str = ""
    """The function in Python, as "module:function"; the module may be beside the board file."""
    tile: Integer = 0
    """Tile that it runs on."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """Target of each parameter that is a channel end."""

    def __hash__(self) -> int:
        return hash((self.name, self.task, self.tile))

    @property
    def what(self) -> str:
        """The function, as drawings and messages name it."""
        return self.task

    @property
    def key(self) -> str:
        """The key that says what it runs."""
        return "task"

    def check(self, number: int, tasks: Sequence["TaskSpec"]) -> None:
        """Check what its kind wants of it, the task `number` of a board. Raises BoardError."""
        _ = tasks
        if not self.task:
            raise BoardError(
                f"the task {self.name!r} has no function: give `task`, in Python, or `c`, the sources in C",
                *("tasks", number),
            )
        if not _FUNCTION.fullmatch(self.task):
            raise BoardError(
                f'the task {self.name!r}: a function is written "module:function", not {self.task!r}',
                *("tasks", number, "task"),
            )


def task_table(table: Mapping[str, object]) -> type[TaskSpec]:
    """Find the class of a table `[[tasks]]` by the key that only its kind has."""
    added = [key for key in table if key not in TaskSpec.__struct_fields__]
    if not added:
        return TaskSpec
    ours = offered("task_kinds")
    kinds = [ours[key] for key in added if key in ours] or [offer("task_kinds", key) for key in added]
    if (kind := next(filter(None, kinds), None)) is not None:
        found: type[TaskSpec] = load(kind.table)
        return found
    every = task_tables()  # of no kind: the class that has the keys says what they are for
    return next((each for each in every if set(added) & set(each.__struct_fields__)), every[0])


def task_tables() -> tuple[type[TaskSpec], ...]:
    """Load the tables of the kinds of tasks that the product's add-ons bring; with none, that in Python."""
    places = dict.fromkeys(kind.table for kind in offered("task_kinds").values())
    return tuple(map(load, places)) or (TaskSpec,)


def check_tasks(tasks: Sequence[TaskSpec], engines: int, flashes: int) -> None:
    """Check the user's tasks of a board with these numbers of engines and flash chips. Raises BoardError."""
    names: set[str] = set()
    for number, spec in enumerate(tasks):
        if not _TASK_NAME.fullmatch(spec.name):
            raise BoardError(
                f"a task's name is a letter and up to 31 letters, digits, - and _, not {spec.name!r}",
                *("tasks", number, "name"),
            )
        if spec.name in names:
            raise BoardError(f"two tasks are called {spec.name!r}", "tasks", number, "name")
        names.add(spec.name)
        spec.check(number, tasks)
    counts = {PartKind.ENGINE: engines, PartKind.CHANGES: engines, PartKind.FLASH: flashes}
    taken: set[TaskTarget] = set()
    for number, spec in enumerate(tasks):
        for name, target in _targets(number, spec):
            setting = ("tasks", number, "ends", name)
            joined = [TaskTarget(spec.name, name)]
            if isinstance(target, PartTarget):
                _check_part(target, counts[target.kind], setting)
            else:
                _check_task(target, spec, names, setting)
                joined.append(target)
            for end in joined:
                if end in taken:
                    raise BoardError(f"the end {end.task}.{end.end} is joined twice", *setting)
                taken.add(end)


def _targets(number: int, spec: TaskSpec) -> Iterator[tuple[str, PartTarget | TaskTarget]]:
    for name, text in spec.ends.items():
        _check_end_name(name, ("tasks", number, "ends", name))
        try:
            yield name, parse_target(text)
        except ValueError as error:
            raise BoardError(str(error), "tasks", number, "ends", name) from None


def _check_end_name(name: str, setting: tuple[str | int, ...]) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise BoardError(f"an end has the name of a parameter; {name!r} is not one", *setting)
    if name in CONTEXT:
        raise BoardError(f"{name!r} is for the task's own {name}: give the end another name", *setting)


def _check_part(target: PartTarget, count: int, setting: tuple[str | int, ...]) -> None:
    if target.number >= count:
        part = target.kind.value.split()[0]
        raise BoardError(f"{part} {target.number} is not there; the board has {count}", *setting)


def _check_task(target: TaskTarget, spec: TaskSpec, names: set[str], setting: tuple[str | int, ...]) -> None:
    if target.task == spec.name:
        raise BoardError(f"{target.task}.{target.end} is an end of the same task", *setting)
    if target.task not in names:
        known = ", ".join(sorted(names - {spec.name})) or "none"
        raise BoardError(f"unknown task {target.task!r}; others are {known}", *setting)
    _check_end_name(target.end, setting)
