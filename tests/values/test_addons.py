"""The list of add-ons: those that are installed, and what they bring."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module

import pytest

from aisrv.board import Part, TaskSpec
from aisrv.cli.options.added import AddedOptions
from aisrv.device.parts import RunningPart
from aisrv.values import addons


def places(value: object) -> Iterator[str]:
    """All modules and places that an add-on names."""
    if isinstance(value, str) and re.fullmatch(r"aisrv(\.\w+)+(:\w+)?", value):
        yield value
    elif isinstance(value, Mapping):
        yield from places(tuple(value.values()))
    elif isinstance(value, tuple):
        for each in value:
            yield from places(each)


PLACES = sorted({place for add_on in addons.ours() for place in places(add_on)})


@pytest.mark.parametrize("place", PLACES)
def test_all_that_add_ons_bring_can_be_loaded(place: str) -> None:
    if ":" in place:
        addons.load(place)
    else:
        import_module(place)


@pytest.mark.parametrize("place", addons.offered("options").values())
def test_options_are_groups_of_added_options(place: addons.Options) -> None:
    assert issubclass(addons.load(place.place), AddedOptions)


@pytest.mark.parametrize(
    ("name", "place"), [*addons.offered("tables").items(), *addons.offered("arrays").items()]
)
def test_tables_and_arrays_are_those_of_a_part_that_runs(name: str, place: str) -> None:
    kind = addons.load(place)
    assert issubclass(kind, Part)
    assert name in (kind.arrays or (kind.table,))
    assert set(kind.arrays) <= set(kind.__struct_fields__)
    assert issubclass(addons.load(kind.opens), RunningPart)


@pytest.mark.parametrize(("key", "kind"), addons.offered("task_kinds").items())
def test_kinds_of_tasks_have_a_table_with_their_key(key: str, kind: addons.UserTasks) -> None:
    table = addons.load(kind.table)
    assert issubclass(table, TaskSpec)
    assert key in set(table.__struct_fields__) - set(TaskSpec.__struct_fields__)
    assert callable(addons.load(table.loads))
    assert bool(kind.runs) == bool(kind.suffixes)


def test_add_ons_that_a_distribution_leaves_out_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addons, "NAMES", (*addons.NAMES, "left_out"))
    addons.ours.cache_clear()
    try:
        assert len(addons.ours()) == len(addons.NAMES) - 1
    finally:
        addons.ours.cache_clear()


def test_what_nobody_brings_is_none() -> None:
    assert addons.offer("tables", "nothing") is None
