"""The page of differences: what can be read off the code is on it as it is there."""

import re

from aisrv.addons.graph.nodes.registry import STANDARD_NODES, can_run
from aisrv.addons.graph.run.commands import ReturnMode
from aisrv.addons.graph.run.node_entry import MOST_CALLS
from aisrv.engine.commands import GET_HANDLERS, SET_HANDLERS
from aisrv.model.relocatable.container import EXECUTABLE
from aisrv.protocol.commands import Command, Spi, commands_of
from aisrv.protocol.engine_channel import AT_ONCE
from docs.generate.member_docs import member_docs
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/reference/fidelity.md").read_text()
ITEMS = [" ".join(item.split()) for item in re.split(r"^- ", PAGE, flags=re.MULTILINE)]
OURS = [Command[name] for name, text in member_docs(Command).items() if text.startswith("Ours:")]


def test_the_commands_of_ours_are_told_with_the_ways_to_them() -> None:
    told = dict(re.findall(r"^\| 0x[0-9A-F]{2} \| (\w+) \| (USB|USB and SPI) \|", PAGE, re.MULTILINE))
    over_spi = commands_of(Spi.READ, Spi.BLOCKS, Spi.BARE)
    assert told == {each.name: "USB and SPI" if each in over_spi else "USB" for each in OURS}
    assert {"GET_SENSOR_TENSOR_LENGTH", "GET_SENSOR_FORMAT", "GET_BOOT"} <= set(told)


def test_what_is_carried_out_in_the_task_of_the_client() -> None:
    gets = [command for command, handler in GET_HANDLERS.items() if handler.at_once is None]
    sets = [command for command, handler in SET_HANDLERS.items() if handler.at_once is not None]
    (told,) = [item for item in ITEMS if "in the task of the client" in item]
    names = re.findall(r"[GS]ET_[A-Z_]+", told)
    assert names[: len(sets)] == [Command(each).name for each in sets]
    assert sorted(names[len(sets) :]) == sorted(Command(each).name for each in gets)
    assert f"of up to {AT_ONCE >> 10} KiB" in told


def test_cores_that_are_executed() -> None:
    (told,) = [item for item in ITEMS if item.startswith("Cores are")]
    executed = {core.label.removeprefix("cortex-").upper() for core in EXECUTABLE}
    assert set(re.findall(r"M[0-9]+", told.partition(".")[0])) == executed


def test_nodes_of_graphs_that_run() -> None:
    (told,) = [item for item in ITEMS if "other nodes compile and do not run" in item]
    (public,) = re.findall(r"(.*) agree with the public ones to the bit\.", told)
    run = {name.rpartition("_")[2] for name in STANDARD_NODES if can_run(name)}
    assert set(public.lower().split(" and ")) <= run
    additions = [f"`{name}`" for name in STANDARD_NODES if name.startswith("aisrv_")]
    assert re.findall("`aisrv_.*?`", told) == additions


def test_how_long_a_run_of_a_graph_goes_on() -> None:
    (told,) = [item for item in ITEMS if "called at most" in item]
    assert told.startswith(
        f"Return mode {ReturnMode.STARVED.value} ends after a pass in which no node moved data"
    )
    times = ("", "once", "twice", "three times", "four times")[MOST_CALLS]
    assert f"is called at most {times} a visit" in told
