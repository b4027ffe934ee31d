"""What tests of pins share: a node with a nursery, drivers, a recording as sigrok decodes it."""

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
import trio

from aisrv.addons.pins.peripherals.vcd import PinsVcd
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.ports.pin import Pin
from tests.support.programs import run_process


class Line:
    """A driver of pins."""

    def __init__(self, name: str = "test", *, open_drain: bool = False) -> None:
        self.name = name
        self.open_drain = open_drain


class Runs(Protocol):
    """A peripheral."""

    async def run(self, task_status: trio.TaskStatus[None] = ...) -> None: ...


class PinBench(NamedTuple):
    """A node, and peripherals on its pins."""

    node: Node
    nursery: trio.Nursery

    def pins(self, *names: str) -> list[Pin]:
        """Return pins of tile 0."""
        return [self.node.tiles[0].pin(name) for name in names]

    async def start(self, *peripherals: Runs) -> None:
        """Start peripherals."""
        for each in peripherals:
            await self.nursery.start(each.run)

    async def until(self, tick: int) -> None:
        """Wait until a tick has come, and everything that happens at it."""
        await trio.sleep_until(self.node.clock.deadline(tick))
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def pin_bench(recording: Path | None = None, **names: str) -> AsyncIterator[PinBench]:
    """Open a node. With `recording` its pins are recorded, those in `names` under these names."""
    async with open_node() as node, trio.open_nursery() as nursery:
        if recording is None:
            yield PinBench(node, nursery)
        else:
            pins = {f"bus.{name}": node.tiles[0].pin(pin) for name, pin in names.items()}
            with PinsVcd(recording, node, pins) as vcd:
                nursery.start_soon(vcd.run)
                yield PinBench(node, nursery)
        nursery.cancel_scope.cancel()


def drive_changes(pin: Pin, changes: Sequence[tuple[int, int]], driver: Line) -> None:
    """Drive levels at ticks of the past or future."""
    pin.drive_at([tick for tick, _ in changes], [level for _, level in changes], driver)


def sigrok(path: Path, decoder: str, annotations: str) -> list[str]:
    """Decode a recording by sigrok, which others wrote; return what it prints, a line each."""
    found = shutil.which("sigrok-cli")
    if found is None:
        reason = "Debian's package sigrok-cli is not installed; .ci/packages does that"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    done = run_process([found, "-i", path, "-I", "vcd", "-P", decoder, "-A", annotations], check=True)
    assert done.stderr == ""
    return [line.partition(": ")[2] for line in done.stdout.splitlines()]
