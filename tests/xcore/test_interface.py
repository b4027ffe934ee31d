"""XC's interfaces: calls, several clients, notifications, and what goes wrong."""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from aisrv.xcore.interface import Interface
from aisrv.xcore.interface_methods import InterfaceError
from aisrv.xcore.interface_server import Request, Server
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.notification import Notification, clears_notification
from aisrv.xcore.select import Case, select, select_or_default
from aisrv.xcore.traps import Deadlock, SizeError, Trap, TrapKind
from tests.support.simulation import Started, settle, simulated


class Point(msgspec.Struct):
    """A value of several words."""

    x: int
    y: int


class Box(Interface):
    """Holds words."""

    filled = Notification()

    @abstractmethod
    async def put(self, word: int, times: int = 1) -> None:
        """Put a word into the box so many times."""

    @clears_notification
    @abstractmethod
    async def take(self) -> int:
        """Take the word out."""

    @abstractmethod
    async def swap(self, points: list[Point], label: str) -> tuple[str, list[Point]]:
        """Swap the coordinates."""


class Words(Box):
    """A box of this program."""

    def __init__(self) -> None:
        self.words: list[int] = []

    async def put(self, word: int, times: int = 1) -> None:
        self.words += [word] * times

    async def take(self) -> int:
        return self.words.pop(0)

    async def swap(self, points: list[Point], label: str) -> tuple[str, list[Point]]:
        return label[::-1], [Point(each.y, each.x) for each in points]


class Boxes:
    """A server on tile 0, and clients on tile 1, with a nursery."""

    def __init__(self, node: Node, tasks: trio.Nursery, clients: int) -> None:
        self.node = node
        self.tasks = tasks
        self.server: Server[Box]
        self.server, self.clients = Box.connect(node.tiles[0], *[node.tiles[1]] * clients)


@asynccontextmanager
async def boxes(clients: int = 1) -> AsyncIterator[Boxes]:
    async with open_node(seed=1) as node, trio.open_nursery() as tasks:
        yield Boxes(node, tasks, clients)
        tasks.cancel_scope.cancel()


@simulated
async def test_a_call_waits_for_the_server_and_returns_its_answer() -> None:
    async with boxes() as bench:
        call = Started(bench.tasks, bench.clients[0].take)
        await settle()
        assert not call.done
        request = await bench.server.accept()
        assert (request.client, request.method, request.arguments) == (0, "take", ())
        assert not call.done
        await request.answer(77)
        await settle()
        assert call.value() == 77


@simulated
async def test_arguments_come_by_place_with_defaults_and_types() -> None:
    async with boxes() as bench:
        box = bench.clients[0]
        for call, expected in (
            (lambda: box.put(5), (5, 1)),
            (lambda: box.put(times=3, word=4), (4, 3)),
            (lambda: box.put(-1, 2**40), (-1, 2**40)),
        ):
            started = Started(bench.tasks, call)
            match await bench.server.accept():
                case Request(0, "put", arguments) as request:
                    assert arguments == expected
                    await request.answer()
            await settle()
            assert started.value() is None


@simulated
async def test_an_implementation_carries_calls_out() -> None:
    async with boxes() as bench:
        bench.tasks.start_soon(bench.server.serve, Words())
        box = bench.clients[0]
        await box.put(9, 2)
        assert [await box.take(), await box.take()] == [9, 9]
        long = "x" * 100_000 + "y"
        assert await box.swap([Point(1, 2), Point(3, 4)], long) == (
            "y" + "x" * 100_000,
            [Point(2, 1), Point(4, 3)],
        )


@simulated
async def test_each_client_gets_its_own_answer_and_none_is_left_out() -> None:
    async with boxes(clients=5) as bench:
        calls = [Started(bench.tasks, box.put, number) for number, box in enumerate(bench.clients)]
        order = []
        for _ in calls:
            request = await bench.server.accept()
            assert request.arguments == (request.client, 1)
            assert bench.server.caller == request.client
            order.append(request.client)
            await request.answer()
            await settle()
            assert [call.done for call in calls] == [number in order for number in range(5)]
        assert sorted(order) == [0, 1, 2, 3, 4]
        assert bench.server.caller is None


@simulated
async def test_the_calls_of_a_client_come_in_its_order() -> None:
    async with boxes(clients=2) as bench:
        words = Words()
        bench.tasks.start_soon(bench.server.serve, words)

        async def put_all(box: Box, first: int) -> None:
            for word in range(first, first + 20):
                await box.put(word)

        async with trio.open_nursery() as puts:
            puts.start_soon(put_all, bench.clients[0], 0)
            puts.start_soon(put_all, bench.clients[1], 100)
        assert [word for word in words.words if word < 100] == list(range(20))
        assert [word for word in words.words if word >= 100] == list(range(100, 120))


@simulated
async def test_a_server_is_a_case_of_a_select_with_guards() -> None:
    async with boxes() as bench:
        timer, server = bench.node.tiles[0].allocate_timer(), bench.server
        late = timer.after(timer.now() + 1000)
        assert await select(server, late) is late
        call = Started(bench.tasks, bench.clients[0].put, 1)
        await settle()
        late = timer.after(timer.now() + 1000)
        assert await select(Case(server, lambda: False), late) is late
        assert await select_or_default(server) is server
        await (await server.accept()).answer()
        await settle()
        assert call.done
        assert await select_or_default(server) is None


@simulated
async def test_a_cancelled_accept_takes_no_call() -> None:
    async with boxes() as bench:
        accept = Started(bench.tasks, bench.server.accept)
        await settle()
        await accept.cancel()
        call = Started(bench.tasks, bench.clients[0].take)
        await settle()
        await (await bench.server.accept()).answer(4)
        await settle()
        assert call.value() == 4


@pytest.mark.parametrize("accepted", [False, True])
@simulated
async def test_a_cancelled_call_is_carried_out_and_the_next_one_waits_for_its_end(accepted: bool) -> None:
    async with boxes() as bench:
        call = Started(bench.tasks, bench.clients[0].put, 1)
        await settle()
        first = await bench.server.accept() if accepted else None
        await call.cancel()
        following = Started(bench.tasks, bench.clients[0].take)
        await settle()
        first = first or await bench.server.accept()
        assert first.arguments == (1, 1)
        await first.answer()
        await (await bench.server.accept()).answer(33)
        await settle()
        assert following.value() == 33


@simulated
async def test_a_server_that_has_not_answered_accepts_no_other_call() -> None:
    async with boxes(clients=2) as bench:
        for box in bench.clients:
            Started(bench.tasks, box.put, 1)
        request = await bench.server.accept()
        with pytest.raises(Trap, match=rf"before Box\.put of client {request.client} was answered") as trap:
            await bench.server.accept()
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE


@simulated
async def test_a_second_answer_traps() -> None:
    async with boxes() as bench:
        Started(bench.tasks, bench.clients[0].put, 1)
        request = await bench.server.accept()
        await request.answer()
        with pytest.raises(Trap, match=r"answer to Box\.put of client 0, which was answered"):
            await request.answer()


@simulated
async def test_two_calls_at_once_of_a_client_trap() -> None:
    async with boxes() as bench:
        Started(bench.tasks, bench.clients[0].take)
        await settle()
        with pytest.raises(Trap, match=r"Box\.put on chanend 0x\w+ while .* is in Box\.take on it") as trap:
            await bench.clients[0].put(1)
        assert trap.value.kind is TrapKind.RESOURCE_DEP


@simulated
async def test_wrong_types_are_refused_before_anything_crosses() -> None:
    async with boxes() as bench:
        box = bench.clients[0]
        with pytest.raises(InterfaceError, match=r"Box\.put: Expected `int`, got `str`"):
            await box.put("one")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="missing a required argument: 'word'"):
            await box.put()  # type: ignore[call-arg]
        with pytest.raises(SizeError, match=r"Box\.swap: 167\d+ bytes are more than 16777215"):
            await box.swap([], "x" * (1 << 24))
        call = Started(bench.tasks, box.take)
        request = await bench.server.accept()
        with pytest.raises(InterfaceError, match=r"the result of Box\.take: Expected `int`, got `None`"):
            await request.answer()
        await request.answer(1)
        await settle()
        assert call.value() == 1


@simulated
async def test_a_core_of_another_tile_traps_in_a_call_and_in_accept() -> None:
    async with open_node(on_trap="halt") as node:
        server, (box,) = Box.connect(node.tiles[0], node.tiles[1])
        wrong = [
            node.tiles[0].start(box.put, 1, name="put"),
            node.tiles[1].start(server.accept, name="accept"),
            node.tiles[1].start(select, server, name="select"),
            node.tiles[0].start(select, box.filled, name="filled"),
        ]
        await settle()
        assert [str(core.trap).partition(",")[0].split(" on ")[0] for core in wrong] == [
            "ILLEGAL_RESOURCE (4): Box.put",
            "ILLEGAL_RESOURCE (4): select",
            "ILLEGAL_RESOURCE (4): select",
            "ILLEGAL_RESOURCE (4): select",
        ]


@simulated
async def test_a_deadlock_names_the_call_and_the_server() -> None:
    async def client(box: Box, other: Box) -> None:
        await box.put(1)
        raise AssertionError(other)

    async def serve(server: Server[Box], mine: Box) -> None:
        await server.accept()
        await mine.take()

    async def run() -> None:
        async with open_node() as node:
            server, (box,) = Box.connect(node.tiles[0], node.tiles[1])
            other, (mine,) = Box.connect(node.tiles[1], node.tiles[0])
            node.tiles[1].start(client, box, mine)
            node.tiles[0].start(serve, server, mine)
            other.handed_to(node.tiles[1].cores[0])

    with pytest.raises(BaseExceptionGroup) as group:
        await run()
    error = group.value.exceptions[0]
    assert isinstance(error, Deadlock)
    lines = str(error).splitlines()
    assert lines[1].startswith("  tile 0 core 0 (serve): Box.take on chanend 0x80000102 (destination")
    assert "fed by chanend 0x80010102 of tile 1 core 0 (client)" in lines[1]
    assert lines[2].startswith("  tile 1 core 0 (client): Box.put on chanend 0x80010002 (destination")
    assert "fed by chanend 0x80000002 of tile 0 core 0 (serve)" in lines[2]


class NoCalls(Interface):
    """Has no methods."""


class NotAsync(Interface):
    """Has a call that returns at once."""

    @abstractmethod
    def put(self) -> None:
        """Put."""


class NoTypes(Interface):
    """Has a call whose argument could be anything."""

    @abstractmethod
    async def put(self, word) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
        """Put."""


class NoEncoding(Interface):
    """Has a call with a value that cannot cross."""

    @abstractmethod
    async def put(self, number: complex, *rest: int) -> None:
        """Put."""


class Taken(Interface):
    """Has a call with a name that interfaces have."""

    @abstractmethod
    async def calls(self) -> None:  # type: ignore[override]
        """Call."""


class Two(Box):
    """Has two notifications."""

    emptied = Notification()


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        (NoCalls, "NoCalls has no calls: they are its abstract methods"),
        (NotAsync, "NotAsync.put is not `async def`, as all calls wait for the server"),
        (NoTypes, "NoTypes.put has no type for 'word'"),
        (NoEncoding, "NoEncoding.put must have plain parameters: no * and no **"),
        (Taken, "Taken has a call of the name calls, which is taken"),
        (Two, "Two has 2 notifications: one is the most"),
        (Words, "Words has no calls: they are its abstract methods"),
    ],
)
@simulated
async def test_a_class_that_is_no_interface_is_refused(interface: type[Interface], message: str) -> None:
    async with open_node() as node:
        with pytest.raises(InterfaceError) as error:
            interface.connect(node.tiles[0], node.tiles[1])
        assert str(error.value) == message
        assert node.statistics().chanends_in_use == 0


@simulated
async def test_an_interface_needs_a_client_and_a_channel_end_for_each() -> None:
    async with open_node() as node:
        with pytest.raises(SizeError, match="clients of Box"):
            Box.connect(node.tiles[0])
        with pytest.raises(Trap, match="channel ends"):
            Box.connect(node.tiles[0], *[node.tiles[1]] * 33)
