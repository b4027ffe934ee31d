"""The wiring of a board: its plan carried out, a channel for each link and a core for each task.

It is to a board what the firmware's `main.xc` is to its hardware.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aisrv.board import Link, Plan, Task, TaskKind
from aisrv.device.ends import Ends
from aisrv.device.parts import DeviceParts
from aisrv.device.tasks import TASKS
from aisrv.xcore.channels.channel import Channel
from aisrv.xcore.node import Node


class Wiring(NamedTuple):
    """What a plan has become."""

    program: Ends
    """The ends of the embedding program."""
    channels: tuple[Channel, ...]
    """A channel for each link of the plan, in its order; end `a` is that of the link's `a`."""


def wire(plan: Plan, parts: DeviceParts) -> Wiring:
    """Create the channels of a plan and start its tasks."""
    channels: list[Channel] = []
    ends = _connect(parts.node, plan.links, channels)
    _start(parts, plan.tasks, ends)
    return Wiring(ends[TaskKind.PROGRAM.value], tuple(channels))


def _connect(node: Node, links: Iterable[Link], channels: list[Channel]) -> Mapping[str, Ends]:
    """Create a channel for each link; return the ends of each task, by the task's name."""
    ends: defaultdict[str, Ends] = defaultdict(Ends)
    for link in links:
        channel = node.channel(node.tiles[link.a.task.tile], node.tiles[link.b.task.tile])
        channels.append(channel)
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
