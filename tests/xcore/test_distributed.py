"""Distributed servers: calls run in the clients' tasks, one at a time, and take nothing of the tile."""

from abc import abstractmethod
from typing import TYPE_CHECKING

import pytest
import trio

from aisrv.xcore.core import Core, current_core
from aisrv.xcore.distributed import DistributedServer
from aisrv.xcore.interface import Interface
from aisrv.xcore.node import open_node
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Deadlock, Trap, TrapKind
from tests.support.simulation import settle, simulated

if TYPE_CHECKING:
    from aisrv.xcore.chanend import ChanEnd


class Leds(Interface):
    """Lamps."""

    @abstractmethod
    async def light(self, lamp: int, ticks: int) -> str:
        """Light a lamp for a time; returns the core that did."""


class Lamps(Leds):
    """Notes what it does."""

    def __init__(self, server: DistributedServer[Leds] | None = None) -> None:
        self.done: list[str] = []
        self.server = server

    async def light(self, lamp: int, ticks: int) -> str:
        self.done.append(f"on {lamp} of {self.server and self.server.caller}")
        await trio.sleep(ticks / 1e8)
        self.done.append(f"off {lamp}")
        core = current_core()
        return core.name if core else "outside"


@simulated
async def test_calls_run_on_the_cores_of_the_clients_one_after_the_other() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        server, clients = Leds.distribute(tile, 3)
        lamps = Lamps(server)
        server.implement(lamps)
        names: list[str] = []

        async def light(leds: Leds, lamp: int) -> None:
            names.append(await leds.light(lamp, 100))

        for lamp, leds in enumerate(clients):
            tile.start(light, leds, lamp, name=f"client {lamp}")
            await settle()
        assert tile.cores_in_use == 3
        assert tile.chanends_in_use == 0
    assert lamps.done == ["on 0 of 0", "off 0", "on 1 of 1", "off 1", "on 2 of 2", "off 2"]
    assert names == ["client 0", "client 1", "client 2"]


@simulated
async def test_a_cancelled_client_lets_the_next_one_in() -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        server, (first, second, third) = Leds.distribute(node.tiles[0], 3)
        lamps = Lamps(server)
        server.implement(lamps)
        scopes = [trio.CancelScope() for _ in range(3)]

        async def light(scope: trio.CancelScope, leds: Leds, lamp: int) -> None:
            with scope:
                await leds.light(lamp, 100)

        for scope, leds in zip(scopes, (first, second, third), strict=True):
            tasks.start_soon(light, scope, leds, scopes.index(scope))
            await settle()
        scopes[1].cancel()
        scopes[0].cancel()
    assert lamps.done == ["on 0 of 0", "on 2 of 2", "off 2"]


@simulated
async def test_a_call_without_an_implementation_traps() -> None:
    async with open_node() as node:
        _, (leds,) = Leds.distribute(node.tiles[0], 1)
        with pytest.raises(Trap, match=r"Leds\.light on distributed Leds, which nothing implements yet"):
            await leds.light(0, 0)


@simulated
async def test_a_core_of_another_tile_traps() -> None:
    async with open_node(on_trap="halt") as node:
        server, (leds,) = Leds.distribute(node.tiles[0], 1)
        server.implement(Lamps())
        core = node.tiles[1].start(leds.light, 0, 0, name="far")
        await settle()
        assert core.trap is not None
        assert core.trap.kind is TrapKind.ILLEGAL_RESOURCE
        assert "which belongs to tile 0, by tile 1 core 0 (far)" in str(core.trap)


@simulated
async def test_a_call_within_a_call_of_the_same_core_traps() -> None:
    class Calling(Lamps):
        async def light(self, lamp: int, ticks: int) -> str:
            return await leds.light(lamp, ticks)

    async with open_node() as node:
        server, (leds,) = Leds.distribute(node.tiles[0], 1)
        server.implement(Calling())
        with pytest.raises(Trap, match=r"which is in Leds\.light on it") as trap:
            await leds.light(0, 0)
        assert trap.value.kind is TrapKind.RESOURCE_DEP


@simulated
async def test_an_error_of_the_implementation_is_one_of_the_caller_and_the_next_call_goes_on() -> None:
    class Failing(Lamps):
        async def light(self, lamp: int, ticks: int) -> str:
            if not lamp:
                raise ValueError("no lamp 0")
            return await super().light(lamp, ticks)

    async with open_node() as node:
        server, (leds,) = Leds.distribute(node.tiles[0], 1)
        server.implement(Failing())
        with pytest.raises(ValueError, match="no lamp 0"):
            await leds.light(0, 0)
        assert await leds.light(1, 0) == "outside"


@simulated
async def test_a_deadlock_names_the_core_that_is_in_a_call() -> None:
    end: ChanEnd

    class Stuck(Lamps):
        async def light(self, lamp: int, ticks: int) -> str:
            await end.inuint()
            return ""

    async def run() -> None:
        nonlocal end
        async with open_node() as node:
            tile = node.tiles[0]
            end = tile.allocate_chanend()
            server, clients = Leds.distribute(tile, 2)
            server.implement(Stuck())
            for leds in clients:
                tile.start(leds.light, 0, 0)

    with pytest.raises(BaseExceptionGroup) as group:
        await run()
    error = group.value.exceptions[0]
    assert isinstance(error, Deadlock)
    assert "Leds.light on distributed Leds (tile 0 core" in str(error)
    assert "(light) is in Leds.light)" in str(error)


@simulated
async def test_a_tracer_hears_of_calls() -> None:
    heard: list[tuple[str, str]] = []

    class Hearing(Tracer):
        def verb_began(self, core: Core | None, verb: str, resource: object, tick: int) -> None:
            heard.append(("began", verb))

        def verb_ended(self, core: Core | None, verb: str, resource: object, tick: int) -> None:
            heard.append(("ended", verb))

    async with open_node() as node:
        server, (leds,) = Leds.distribute(node.tiles[0], 1)
        server.implement(Lamps())
        with node.tracing(Hearing()):
            await leds.light(0, 0)
    assert heard == [("began", "Leds.light"), ("ended", "Leds.light")]
