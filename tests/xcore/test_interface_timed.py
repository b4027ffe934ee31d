"""Interfaces in device time: what calls and notifications take, by docs/inside/device-time.md."""

from abc import abstractmethod

import pytest

from aisrv.xcore.interface import Interface
from aisrv.xcore.interface_server import Server
from aisrv.xcore.notification import Notification, clears_notification
from aisrv.xcore.select import select
from tests.support.timed_node import TimedRun, core_clock, timed_run

SLOT = 5
"""Clocks of an issue slot with up to five cores."""
ROUTE = 48
"""Clocks of a route to the other tile."""


class Port(Interface):
    """Has a call without arguments, and a notification."""

    ready = Notification()

    @clears_notification
    @abstractmethod
    async def read(self) -> None:
        """Read."""


@pytest.mark.parametrize("tiles", [(0, 0), (0, 1)])
def test_a_call_takes_two_packets_and_is_answered_at_the_servers_clock(tiles: tuple[int, int]) -> None:
    log: list[int] = []

    def build(run: TimedRun) -> None:
        server, (port,) = Port.connect(run.node.tiles[tiles[0]], run.node.tiles[tiles[1]])

        async def serve() -> None:
            request = await server.accept()
            log.append(core_clock())
            await request.answer()
            log.append(core_clock())

        run.start(tiles[0], "server", serve)
        run.start(tiles[1], "client", port.read)

    ends = timed_run(build).ends
    route = ROUTE if tiles[0] != tiles[1] else 0
    # Five bytes of words and arguments, and END: a word and a byte of four slots, a token of one.
    packet = (4 + 4 + 1) * SLOT + route
    assert log == [packet, 2 * packet]
    assert ends == {"server": 2 * packet, "client": 2 * packet}


def test_a_notification_comes_after_its_route_and_wakes_the_client_then() -> None:
    log: list[tuple[str, int]] = []

    def build(run: TimedRun) -> None:
        server, (port,) = Port.connect(run.node.tiles[0], run.node.tiles[1])

        async def serve() -> None:
            await server.notify(0, Port.ready)
            log.append(("notified", core_clock()))
            await server.notify(0, Port.ready)
            log.append(("again", core_clock()))
            await (await server.accept()).answer()

        async def client() -> None:
            assert await select(port.ready) is port.ready
            log.append(("heard", core_clock()))
            await port.read()

        run.start(0, "server", serve)
        run.start(1, "client", client)

    timed_run(build)
    times = dict(log)
    assert times["notified"] == times["again"]
    assert ROUTE < times["heard"] <= times["notified"]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_calls_does_not_hang_on_the_order_of_tasks(seed: int) -> None:
    def build(run: TimedRun) -> None:
        server, ports = Port.connect(run.node.tiles[0], *[run.node.tiles[1]] * 4)

        async def serve(server: Server[Port]) -> None:
            for _ in range(12):
                request = await server.accept()
                run.log.append((request.client, core_clock()))
                await request.answer()

        async def client(port: Port) -> None:
            for _ in range(3):
                await port.read()

        run.start(0, "server", lambda: serve(server))
        for number, port in enumerate(ports):
            run.start(1, f"client {number}", lambda port=port: client(port))  # type: ignore[misc]

    first, other = (timed_run(build, seed=each) for each in (1000, seed))
    assert first.log == other.log
    assert first.ends == other.ends
