"""Tasks of the user's own: the targets of their channel ends, and the checks of a board's tasks.

An end is joined to "engine 0", as a client of the engine; "engine 0 changes", where the engine notifies of
new models and outputs; "flash 0", as a client of the flash server that may write; or "TASK.END", an end of
another task of the user's, which is written at one of the two tasks only.
"""

import enum
import keyword
import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from aisrv.board.specs import BoardError, TaskSpec

CONTEXT: Final = ("node", "tile")
"""Parameters that a task's function may have besides its ends: no end has such a name."""

_TASK_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_C_NAME: Final = re.compile(r"[A-Za-z_]\w{0,62}", re.ASCII)
C_ARGUMENTS: Final = 8
"""Arguments of a function in C that a task may have."""
SANITIZERS: Final = ("address", "undefined")
C_BITS: Final = (64, 32)
"""Bits of `long`, `size_t` and pointers that a program in C may have."""
_OF_C: Final = ("reads", "writes", "network")
"""Keys that nothing would heed in a task in Python."""
LEAST_STACK: Final = 4096
MOST_STACK: Final = 1 << 24
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
        if not spec.is_in_c and not spec.task:
            raise BoardError(
                f"the task {spec.name!r} has no function: give `task`, in Python, or `c`, the sources in C",
                *("tasks", number),
            )
        if spec.is_in_c:
            _check_c(number, spec)
        elif given := next((key for key in _OF_C if getattr(spec, key)), None):
            raise BoardError(
                f"the task {spec.name!r} is in Python, within the device's process: `{given}` is for C",
                *("tasks", number, given),
            )
        elif not _FUNCTION.fullmatch(spec.task):
            raise BoardError(
                f'the task {spec.name!r}: a function is written "module:function", not {spec.task!r}',
                *("tasks", number, "task"),
            )
    _check_bits(tasks)
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


def _check_c(number: int, spec: TaskSpec) -> None:
    """Check what concerns a task in C alone."""
    if spec.task:
        key = "c" if spec.c else "library"
        raise BoardError(
            f"the task {spec.name!r} has both `task`, in Python, and `{key}`", "tasks", number, key
        )
    if spec.command and spec.library is None:
        raise BoardError(
            f"the task {spec.name!r} has a `command`, but no `library` that it makes",
            "tasks",
            number,
            "command",
        )
    if not _C_NAME.fullmatch(spec.c_function):
        raise BoardError(
            f"the task {spec.name!r}: {spec.c_function!r} is no name of a function in C; give `function`",
            *("tasks", number, "name" if spec.function is None else "function"),
        )
    if (count := len(spec.arguments or ())) > C_ARGUMENTS:
        raise BoardError(
            f"the task {spec.name!r} has {count} arguments; a function of C has up to {C_ARGUMENTS} here",
            *("tasks", number, "arguments"),
        )
    for name in spec.defines:
        if not _C_NAME.fullmatch(name):
            raise BoardError(f"{name!r} is no name of a macro", "tasks", number, "defines", name)
    for name in spec.sanitize:
        if name not in SANITIZERS:
            known = ", ".join(SANITIZERS)
            raise BoardError(f"no sanitizer {name!r}; there are {known}", "tasks", number, "sanitize")
    if spec.bits not in C_BITS:
        raise BoardError(f"a program in C has 64 bits or 32, not {spec.bits}", "tasks", number, "bits")
    if not LEAST_STACK <= spec.stack <= MOST_STACK:
        raise BoardError(
            f"a stack has {LEAST_STACK} to {MOST_STACK} bytes, not {spec.stack}", "tasks", number, "stack"
        )


def _check_bits(tasks: Sequence[TaskSpec]) -> None:
    """Check that tasks in C of a tile, which are one program, have the same bits."""
    first: dict[int, TaskSpec] = {}
    for number, spec in enumerate(tasks):
        if spec.is_in_c and (other := first.setdefault(spec.tile, spec)).bits != spec.bits:
            said = f"{other.name!r} has {other.bits} bits, {spec.name!r} has {spec.bits}"
            raise BoardError(f"tasks in C of a tile are one program: {said}", "tasks", number, "bits")


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
