"""Functions of the user's own on the pins of a node."""

from pathlib import Path

import pytest
import trio

from aisrv.addons.pins.errors import PinTaskError
from aisrv.addons.pins.task import PinTask
from aisrv.device.user_module import UserModuleError
from aisrv.xcore.node import open_node
from tests.support.benches.simulation import simulated

MODULE = """
import trio

class Hand:
    name = "a hand"

async def presses(tile):
    await trio.sleep(1e-6)
    tile.pin("1B").drive(1, Hand())

async def both(node, tile):
    assert tile is node.tiles[0]
    node.tiles[1].pin("8A.3").drive(1, Hand())

async def fails(tile):
    tile.pin("9Z")

async def needs(tile, led): ...

def plain(tile): ...
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pins")
    (folder / "wired_pins.py").write_text(MODULE)
    return folder


def levels_with(task: PinTask) -> list[int]:
    """Run a task for 10 us, and return the levels of pin 1B of tile 0 and 8A.3 of tile 1."""
    levels: list[int] = []

    @simulated
    async def run() -> None:
        async with open_node() as node, trio.open_nursery() as nursery:
            await nursery.start(task, node)
            await node.tiles[0].pin("1B").until(1000)
            levels.extend((node.tiles[0].pin("1B").value(), node.tiles[1].pin("8A.3").value()))

    run()
    return levels


@pytest.mark.parametrize(("name", "levels"), [("presses", [1, 0]), ("both", [0, 1])])
def test_a_function_takes_the_node_or_tile_0(folder: Path, name: str, levels: list[int]) -> None:
    assert levels_with(PinTask.load(f"wired_pins:{name}", folder)) == levels


def test_a_function_that_fails_is_named_with_its_line(folder: Path) -> None:
    with pytest.raises(ExceptionGroup) as failed:
        levels_with(PinTask.load("wired_pins:fails", folder))
    assert failed.group_contains(
        PinTaskError, match=r"^wired_pins:fails failed: SizeError: pin '9Z'.*, line 16 of wired_pins\.py$"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wired_pins", "'wired_pins' is not MODULE:FUNCTION"),
        ("wired_pins:", "'wired_pins:' is not MODULE:FUNCTION"),
        ("wired_pins:press", "has no function 'press'; did you mean presses?"),
        ("wired_pins:plain", "'plain' is not an async function: write `async def plain(...)`"),
        ("wired_pins:needs", "needs() needs 'led'; a task has node and tile"),
        ("no_pins_there:f", "there is no module 'no_pins_there'"),
    ],
)
def test_what_is_no_task(folder: Path, name: str, reason: str) -> None:
    with pytest.raises(UserModuleError) as refused:
        PinTask.load(name, folder)
    assert reason in str(refused.value)
