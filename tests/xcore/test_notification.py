"""Notifications of interfaces: raised, taken and cleared, over channels and in distributed servers."""

from abc import abstractmethod
from collections.abc import Callable

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.xcore.distributed import DistributedServer
from aisrv.xcore.interface import Interface
from aisrv.xcore.interface_methods import InterfaceError
from aisrv.xcore.interface_server import Server
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.notification import Notification, clears_notification
from aisrv.xcore.select import select, select_or_default
from aisrv.xcore.traps import SizeError, Trap, TrapKind
from tests.support.amounts import in_ci
from tests.support.simulation import Started, settle, simulated


class Uart(Interface):
    """Receives bytes."""

    data_ready = Notification()

    @clears_notification
    @abstractmethod
    async def input_byte(self, again: bool) -> int:
        """Input a byte."""

    @abstractmethod
    async def poke(self, again: bool) -> None:
        """Have the server raise the notification while it carries this out, or not."""


class Other(Interface):
    """Another interface."""

    ready = Notification()

    @abstractmethod
    async def call(self) -> None:
        """Call."""


class Receiver(Uart):
    """Raises the notification at its caller where it is told to."""

    def __init__(self, server: Server[Uart] | DistributedServer[Uart]) -> None:
        self.server = server

    async def input_byte(self, again: bool) -> int:
        await self.poke(again)
        return 65

    async def poke(self, again: bool) -> None:
        if again and self.server.caller is not None:
            await self.server.notify(self.server.caller, Uart.data_ready)


Bench = tuple[Server[Uart] | DistributedServer[Uart], tuple[Uart, ...]]


def over_channels(node: Node, tasks: trio.Nursery, clients: int) -> Bench:
    server, ends = Uart.connect(node.tiles[0], *[node.tiles[1]] * clients)
    tasks.start_soon(server.serve, Receiver(server))
    return server, ends


def distributed(node: Node, _: trio.Nursery, clients: int) -> Bench:
    server, ends = Uart.distribute(node.tiles[1], clients)
    server.implement(Receiver(server))
    return server, ends


both = pytest.mark.parametrize("connect", [over_channels, distributed])
Connect = Callable[[Node, trio.Nursery, int], Bench]


async def _pending(uart: Uart) -> bool:
    return await select_or_default(uart.data_ready) is not None


@both
@simulated
async def test_a_notification_wakes_a_select_and_stays_until_it_is_cleared(connect: Connect) -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        server, (uart, other) = connect(node, tasks, 2)
        waiting = Started(tasks, select, uart.data_ready)
        await settle()
        assert not waiting.done
        await server.notify(0, Uart.data_ready)
        await settle()
        assert waiting.value() is uart.data_ready
        assert (await _pending(uart), await _pending(other)) == (True, False)
        await uart.poke(False)
        assert await _pending(uart)
        assert await uart.input_byte(False) == 65
        assert not await _pending(uart)
        tasks.cancel_scope.cancel()


@both
@simulated
async def test_one_that_was_taken_is_no_event_again_until_it_is_cleared(connect: Connect) -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        server, (uart,) = connect(node, tasks, 1)
        await server.notify(0, Uart.data_ready)
        await uart.data_ready.take()
        await server.notify(0, Uart.data_ready)
        assert not await _pending(uart)
        await uart.input_byte(False)
        assert not await _pending(uart)
        await server.notify(0, Uart.data_ready)
        assert await _pending(uart)
        tasks.cancel_scope.cancel()


@both
@simulated
async def test_a_clearing_call_may_raise_it_again(connect: Connect) -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        server, (uart,) = connect(node, tasks, 1)
        await server.notify(0, Uart.data_ready)
        await uart.input_byte(True)
        assert await _pending(uart)
        tasks.cancel_scope.cancel()


@simulated
async def test_one_that_crosses_a_clearing_call_is_cleared() -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        server, (uart,) = Uart.connect(node.tiles[0], node.tiles[1])
        call = Started(tasks, uart.input_byte, False)
        await settle()
        await server.notify(0, Uart.data_ready)
        await (await server.accept()).answer(1)
        await settle()
        assert call.value() == 1
        assert not await _pending(uart)
        await server.notify(0, Uart.data_ready)
        assert await _pending(uart)


@simulated
async def test_a_select_waits_while_a_cancelled_call_goes_on() -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        server, (uart,) = Uart.connect(node.tiles[0], node.tiles[1])
        call = Started(tasks, uart.poke, False)
        await settle()
        await call.cancel()
        waiting = Started(tasks, select, uart.data_ready)
        await settle()
        await (await server.accept()).answer()
        await settle()
        assert not waiting.done
        await server.notify(0, Uart.data_ready)
        await settle()
        assert waiting.value() is uart.data_ready


@pytest.mark.parametrize("within", [False, True])
@simulated
async def test_a_cancelled_call_passes_on_what_was_raised_meanwhile(within: bool) -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        server, (uart,) = Uart.connect(node.tiles[0], node.tiles[1])
        call = Started(tasks, uart.poke, False)
        await settle()
        await call.cancel()
        waiting = Started(tasks, uart.data_ready.take)
        await settle()
        if not within:
            await server.notify(0, Uart.data_ready)
        request = await server.accept()
        if within:
            await server.notify(0, Uart.data_ready)
        await request.answer()
        await settle()
        assert waiting.done
        assert not await _pending(uart)


@both
@simulated
async def test_a_second_select_on_a_notification_traps(connect: Connect) -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        _, (uart,) = connect(node, tasks, 1)
        Started(tasks, select, uart.data_ready)
        await settle()
        with pytest.raises(Trap, match=r"select on Uart\.data_ready .* is in a select on it") as trap:
            await select(uart.data_ready)
        assert trap.value.kind is TrapKind.RESOURCE_DEP
        tasks.cancel_scope.cancel()


@both
@simulated
async def test_a_server_raises_its_own_at_its_clients_only(connect: Connect) -> None:
    async with open_node() as node, trio.open_nursery() as tasks:
        server, _ = connect(node, tasks, 2)
        with pytest.raises(InterfaceError, match=r"Other\.ready is not a notification of Uart"):
            await server.notify(0, Other.ready)
        for client in (-1, 2):
            with pytest.raises(SizeError, match=f"client of Uart: {client} is not 0 to 1"):
                await server.notify(client, Uart.data_ready)
        tasks.cancel_scope.cancel()


def test_an_implementation_has_no_event() -> None:
    class Nothing(Other):
        async def call(self) -> None:
            """Do nothing."""

    with pytest.raises(AttributeError, match=r"Other\.ready is an event of clients"):
        _ = Nothing().ready


class Model:
    """What the rules say: one client's notification as the server and the client see it."""

    def __init__(self) -> None:
        self.raised = False
        self.pending = False

    def notify(self) -> None:
        if not self.raised:
            self.raised = self.pending = True

    def take(self) -> None:
        self.pending = False

    def clear(self) -> None:
        self.raised = self.pending = False


steps = st.lists(
    st.tuples(
        st.sampled_from(["notify", "take", "input", "input again", "poke", "poke again", "left"]),
        st.integers(0, 2),
    ),
    max_size=40,
)


@settings(max_examples=in_ci(60, every_day=20), deadline=None)
@given(steps=steps)
@both
def test_random_programs_agree_with_the_rules(connect: Connect, steps: list[tuple[str, int]]) -> None:
    @simulated
    async def run() -> None:
        async with open_node() as node, trio.open_nursery() as tasks:
            server, uarts = connect(node, tasks, 3)
            models = [Model() for _ in uarts]
            for action, client in steps:
                uart, model = uarts[client], models[client]
                if action == "notify":
                    await server.notify(client, Uart.data_ready)
                    model.notify()
                elif action == "take":
                    if model.pending:
                        await uart.data_ready.take()
                    model.take()
                elif action == "left":
                    with trio.CancelScope() as scope:
                        scope.cancel()
                        await uart.data_ready.take()
                        model.take()
                else:
                    call = uart.input_byte if action.startswith("input") else uart.poke
                    await call(action.endswith("again"))
                    if action.startswith("input"):
                        model.clear()
                    if action.endswith("again"):
                        model.notify()
                assert [await _pending(each) for each in uarts] == [each.pending for each in models]
            tasks.cancel_scope.cancel()

    run()
