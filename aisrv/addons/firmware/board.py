"""A task in C of a board: the keys that its table `[[tasks]]` has besides those of all tasks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from msgspec import field

from aisrv.board import BoardError, TaskSpec
from aisrv.values.settings.size import Size
from aisrv.values.settings.tables import Integer

C_ARGUMENTS: Final = 8
"""Arguments of a function in C that a task may have."""
SANITIZERS: Final = ("address", "undefined")
C_BITS: Final = (64, 32)
"""Bits of `long`, `size_t` and pointers that a program in C may have."""
LEAST_STACK: Final = 4096
MOST_STACK: Final = 1 << 24
_C_NAME: Final = re.compile(r"[A-Za-z_]\w{0,62}", re.ASCII)


class CTaskSpec(TaskSpec, frozen=True):
    """A task in C, with its sources in `c` or compiled in `library`."""

    loads: ClassVar[str] = "aisrv.addons.firmware.part:load_c_tasks"
    can_be_usb: ClassVar[bool] = True

    c: tuple[Path, ...] = ()
    """Sources of a task in C. Those of all C tasks of a tile are one program."""
    library: Path | None = None
    """Archive or object file of a task in C that a build of your own makes, with or in place of `c`."""
    command: tuple[str, ...] = ()
    """Command that makes the library, run in the board's folder each time the board is loaded."""
    function: str | None = None
    """The function in C. Default: the task's name."""
    arguments: tuple[str | Integer, ...] | None = None
    """Arguments of the function in C, up to eight: ends by name, and numbers. Default: its ends."""
    defines: Mapping[str, str | bool | Integer] = field(default_factory=dict)
    """Macros of its sources; `true` defines one as 1, `false` none."""
    include: tuple[Path, ...] = ()
    """Folders of headers."""
    sanitize: tuple[str, ...] = ()
    """Sanitizers of the compiler for the tile's program: `address`, `undefined`."""
    bits: Integer = 64
    """Bits of `long`, `size_t` and pointers in the tile's program: 64, or 32 as on the chip."""
    stack: Size = Size(65536)
    """Stack of each core of the tile's program, in bytes; the largest of its tasks holds."""
    post: bool = True
    """Whether outputs to other tiles and ports go with the next call that waits; with `false` in one task, no
    task of its tile does that, and a trap names its very line."""
    debugger: tuple[str, ...] = ()
    """Command that the tile's program runs under, as `["gdb", "-q", "--args"]`; the device waits for it. It
    reads all files, and no filter of system calls holds it."""
    reads: tuple[Path, ...] = ()
    """Folders that the tile's program in C reads, which may read no others. Those of all its tasks count."""
    writes: tuple[Path, ...] = ()
    """Folders that the tile's program in C reads and writes. Those of all its tasks count."""
    network: bool = False
    """Whether the tile's program in C has the network; one of its tasks suffices."""

    @property
    def what(self) -> str:
        return f"{self.c_function} in C"

    @property
    def key(self) -> str:
        return "c" if self.c else "library"

    @property
    def c_function(self) -> str:
        """The name of the function in C."""
        return self.function or self.name

    def check(self, number: int, tasks: Sequence[TaskSpec]) -> None:
        if not self.c and self.library is None:
            self._refuse(number, tasks)
        if self.task:
            raise BoardError(
                f"the task {self.name!r} has both `task`, in Python, and `{self.key}`",
                *("tasks", number, self.key),
            )
        for key, problem in self._problems():
            raise BoardError(problem, "tasks", number, *key)
        first = next(task for task in tasks if isinstance(task, CTaskSpec) and task.tile == self.tile)
        if first.bits != self.bits:
            said = f"{first.name!r} has {first.bits} bits, {self.name!r} has {self.bits}"
            raise BoardError(f"tasks in C of a tile are one program: {said}", "tasks", number, "bits")

    def _refuse(self, number: int, tasks: Sequence[TaskSpec]) -> None:
        """Raise BoardError for a task with keys of C that is none."""
        own = self.__struct_fields__[len(TaskSpec.__struct_fields__) :]
        plain = CTaskSpec(self.name)
        given = [key for key in own if getattr(self, key) != getattr(plain, key)][:1]
        if self.task:
            what = f"`{given[0]}` is for C" if given else "it has keys that are for C"
            raise BoardError(
                f"the task {self.name!r} is in Python, within the device's process: {what}",
                "tasks",
                number,
                *given,
            )
        TaskSpec(self.name).check(number, tasks)

    def _problems(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what is wrong, with the key."""
        if self.command and self.library is None:
            yield ("command",), f"the task {self.name!r} has a `command`, but no `library` that it makes"
        if not _C_NAME.fullmatch(self.c_function):
            key = "name" if self.function is None else "function"
            text = f"{self.c_function!r} is no name of a function in C; give `function`"
            yield (key,), f"the task {self.name!r}: {text}"
        if (count := len(self.arguments or ())) > C_ARGUMENTS:
            text = f"{count} arguments; a function of C has up to {C_ARGUMENTS} here"
            yield ("arguments",), f"the task {self.name!r} has {text}"
        for name in self.defines:
            if not _C_NAME.fullmatch(name):
                yield ("defines", name), f"{name!r} is no name of a macro"
        for name in self.sanitize:
            if name not in SANITIZERS:
                yield ("sanitize",), f"no sanitizer {name!r}; there are {', '.join(SANITIZERS)}"
        if self.bits not in C_BITS:
            yield ("bits",), f"a program in C has 64 bits or 32, not {self.bits}"
        if not LEAST_STACK <= self.stack <= MOST_STACK:
            yield ("stack",), f"a stack has {LEAST_STACK} to {MOST_STACK} bytes, not {self.stack}"
