"""The wiring of a board: its plan carried out, a channel for each link and a core for each task.

It is to a board what the firmware's `main.xc` is to its hardware.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from aisrv.board import Link, Plan, Task, TaskKind
from aisrv.device.ends import Ends
from aisrv.device.parts import DeviceParts
from aisrv.device.tasks import TASKS
from aisrv.xcore.node import Node


def wire(plan: Plan, parts: DeviceParts) -> Ends:
    """Create the channels of a plan and start its tasks; return the ends of the embedding program."""
    ends = _connect(parts.node, plan.links)
    _start(parts, plan.tasks, ends)
    return ends[TaskKind.PROGRAM.value]


def _connect(node: Node, links: Iterable[Link]) -> Mapping[str, Ends]:
    """Create a channel for each link; return the ends of each task, by the task's name."""
    ends: defaultdict[str, Ends] = defaultdict(Ends)
    for link in links:
        channel = node.channel(node.tiles[link.a.task.tile], node.tiles[link.b.task.tile])
        ends[link.a.task.name].add(link.a.name, channel.a)
        ends[link.b.task.name].add(link.b.name, channel.b)
    return ends


def _start(parts: DeviceParts, tasks: Iterable[Task], ends: Mapping[str, Ends]) -> None:
    """Start each task on a core of its tile, with its ends."""
    for task in tasks:
        tile = parts.node.tiles[task.tile]
        create = TASKS[task.kind]
        if create is None:
            tile.reserve_core(task.name)
        else:
            core = tile.start(create(parts, task, ends[task.name]), name=task.name)
            for end in ends[task.name]:
                end.assign(core)
