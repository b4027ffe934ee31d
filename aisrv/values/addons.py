"""Add-ons: features that the core knows by name alone, and loads when a board, an option or a command asks.

Each names itself once, in the module `addon` of its folder: `ADD_ON`. Those of the product are listed here.
Packages of others name theirs in the entry-point group `aisrv.addons`, which is read where ours do not have
what is asked for, and for lists.
"""

import glob
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

NAMES: Final = (
    "captures",
    "evaluate",
    "firmware",
    "graph",
    "jacdac",
    "kernels",
    "pins",
    "predict",
    "web",
)
"""The add-ons of the product, in the order of lists."""
GROUP: Final = "aisrv.addons"
"""Entry points of those of other packages."""


class Scheme(NamedTuple):
    """A way to devices, by addresses `NAME:spec`."""

    form: str
    """Form of its addresses."""
    module: str
    """Has two functions of the part of an address behind the colon, `open_NAME` and `list_NAME`."""
    as_float32: bool = False
    """Whether tensors travel as float32, whatever the model has."""
    describes_itself: bool = False
    """Whether the module has `describe_NAME`, for devices that do not take the AI server's questions."""


class Options(NamedTuple):
    """A group of options that commands get."""

    place: str
    """A subclass of `AddedOptions`."""
    commands: tuple[str, ...] = ("run",)
    """Subcommands of `aisrv` on devices, of `run`, `exec` and `attach`."""


class Kind(NamedTuple):
    """A kind of engine: what runs models."""

    interpreter: str
    """Place of the class of its interpreters; empty where no model runs."""
    variant: str = ""
    """Place of a subclass of `aisrv.protocol.kind_variant.Variant`, for kinds that have options."""
    form: str = ""
    """Form of its variants in the help, such as `NAME:BACKEND`."""
    rank: int | None = None
    """Place among the product's kinds that may be the default, the lowest first; None for no such kind."""
    module: str = ""
    """Module that must be there for the default; empty where none is needed."""
    most_threads: int = 0
    """Largest number of threads of the host that a variant may run on; 0 where none can be told."""
    takes_fallback: bool = False
    """Whether another kind may run the models that this one refuses."""


class UserTasks(NamedTuple):
    """A kind of tasks of the user's own, known by a key of their table `[[tasks]]`."""

    table: str
    """A subclass of `aisrv.board.TaskSpec`, which says what loads them."""
    runs: str = ""
    """Function that runs files as whole programs, for `aisrv firmware run`: `FirmwareRun` to exit code."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of those files; the first kind that has those of all files runs them."""


class AddOn(NamedTuple):
    """All that an add-on brings; places are `module:name`."""

    tables: Mapping[str, str] = {}
    """Tables of board files: a subclass of `aisrv.board.Part` for each."""
    arrays: Mapping[str, str] = {}
    """Arrays of tables of board files: a subclass of `aisrv.board.Part` that has them as fields."""
    task_kinds: Mapping[str, UserTasks] = {}
    """Kinds of tasks of boards, by a key that tasks of no other kind have."""
    commands: Mapping[str, tuple[str, str]] = {}
    """Subcommands of `aisrv`, each with its line in the help."""
    former_commands: Mapping[str, str] = {}
    """Subcommands of `aisrv` by names that they had once: they work, and are not listed."""
    host_commands: Mapping[str, str] = {}
    """Subcommands of `aisrv-host`."""
    schemes: Mapping[str, Scheme] = {}
    """Addresses of devices."""
    options: Mapping[str, Options] = {}
    """Options of commands on devices, by the title of their group."""
    engine_kinds: Mapping[str, Kind] = {}
    """Kinds of engines."""
    doctor: str = ""
    """Function that yields what `aisrv doctor` says of what it needs of the machine."""
    fixtures: str = ""
    """Module with fixtures for tests."""


def load(place: str) -> Any:  # noqa: ANN401 - whatever is there
    """Import what a place names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def ours() -> tuple[AddOn, ...]:
    """Return the add-ons of the product that are installed; nothing of one is loaded but its names."""
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "addons")  # noqa: PTH118, PTH120 - as below
    there = (name for name in NAMES if os.path.isdir(os.path.join(folder, name)))  # noqa: PTH112, PTH118
    return tuple(load(f"{__name__.partition('.')[0]}.addons.{name}.addon:ADD_ON") for name in there)


@cache
def others() -> tuple[AddOn, ...]:
    """Return the add-ons of other packages that are installed."""
    if not any(map(_has_add_ons, sys.path)):
        return ()
    from importlib.metadata import entry_points  # which takes longer than `aisrv --help`

    return tuple(point.load() for point in entry_points(group=GROUP))


def _has_add_ons(folder: str) -> bool:
    """Check whether a folder of packages has one with an entry point of the group."""
    for path in glob.glob("*.dist-info/entry_points.txt", root_dir=folder or "."):  # noqa: PTH207 - pathlib takes as long again
        with open(os.path.join(folder, path), "rb") as file:  # noqa: PTH118, PTH123
            if GROUP.encode() in file.read():
                return True
    return False


def offered(kind: str) -> dict[str, Any]:
    """Return all that the product's add-ons bring of a kind, a field of `AddOn`, by name."""
    return dict(_all_of(kind, ours()))


def offer(kind: str, name: str) -> Any:  # noqa: ANN401 - a place, or one with its help
    """Return what an add-on brings of a kind under a name; None where none does."""
    found = offered(kind).get(name)
    return dict(_all_of(kind, others())).get(name) if found is None else found


def offered_by_all(kind: str) -> dict[str, Any]:
    """Return what `offer` finds, by name: what the product's add-ons bring, then those of other packages."""
    found = offered(kind)
    return found | {name: value for name, value in _all_of(kind, others()) if name not in found}


def _all_of(kind: str, add_ons: tuple[AddOn, ...]) -> Iterator[tuple[str, Any]]:
    for add_on in add_ons:
        yield from getattr(add_on, kind).items()
