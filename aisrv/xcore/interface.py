"""XC's interfaces: a class whose methods are calls from one core to another.

    class Box(Interface):
        filled = Notification()

        @abstractmethod
        async def put(self, word: int) -> None: ...

        @clears_notification
        @abstractmethod
        async def take(self) -> int: ...

    server, (box,) = Box.connect(node.tiles[0], node.tiles[1])

A client awaits `box.take()`, and has `box.filled` as a case of a select. The server accepts requests, or has
an implementation of the class carry them out. Sources: XMOS programming guide; XMOS, "How to use
notifications over interfaces".
"""

from abc import ABC
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self

from aisrv.xcore.core import Core, Handed
from aisrv.xcore.distributed import DistributedCalls, DistributedServer
from aisrv.xcore.interface_methods import Method, Methods
from aisrv.xcore.interface_server import ChannelCalls, Server
from aisrv.xcore.notification import NotificationEvent
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import check_size


class Calls(Protocol):
    """The way of a client to its server."""

    @property
    def event(self) -> NotificationEvent:
        """The interface's notification."""

    def assign(self, core: Core) -> None:
        """Note which core is the client, for reports."""

    async def call(self, method: Method, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - a result
        """Call a method and return its result."""


class Interface(ABC, Handed):
    """Base of interfaces: calls are abstract async methods, whose values cross as msgspec encodes them."""

    calls: Calls
    """Of a client: its way to the server."""

    @classmethod
    def connect(cls, server: Tile, *clients: Tile) -> tuple[Server[Self], tuple[Self, ...]]:
        """Join a server on a tile with a client on each of `clients`, by a channel each.

        Raises InterfaceError where the class is no interface; a tile with no channel end left traps.
        """
        check_size(len(clients) - 1, f"clients of {cls.__name__}, without the first")
        methods = Methods(cls)
        ends = [(server.allocate_chanend(), tile.allocate_chanend()) for tile in clients]
        for mine, other in ends:
            mine.join(other)
        made = _client_class(cls, methods)
        return Server(methods, [mine for mine, _ in ends]), tuple(
            made(ChannelCalls(methods, other)) for _, other in ends
        )

    @classmethod
    def distribute(cls, tile: Tile, clients: int) -> tuple[DistributedServer[Self], tuple[Self, ...]]:
        """Join a distributed server with a number of clients on its tile: calls run in the clients' tasks.

        Nothing of the tile is taken. Raises InterfaceError where the class is no interface.
        """
        check_size(clients - 1, f"clients of {cls.__name__}, without the first")
        methods = Methods(cls)
        server: DistributedServer[Self] = DistributedServer(tile.runtime, tile.number, methods, clients)
        made = _client_class(cls, methods)
        return server, tuple(made(DistributedCalls(server, number)) for number in range(clients))

    def handed_to(self, core: Core) -> None:
        """Note which core is the client, for reports."""
        calls: Calls | None = getattr(self, "calls", None)
        if calls is not None:
            calls.assign(core)


def _client_class(interface: type[Any], methods: Methods) -> Callable[[Calls], Any]:
    """Return what makes clients of an interface: each of its methods is a call."""
    bodies: dict[str, Any] = {method.name: _caller(method) for method in methods.by_number}

    def begin(client: Any, calls: Calls) -> None:  # noqa: ANN401 - an interface
        client.calls = calls

    made: Callable[[Calls], Any] = type(interface.__name__, (interface,), {**bodies, "__init__": begin})
    return made


def _caller(method: Method) -> Callable[..., Awaitable[Any]]:
    def call(client: Interface, *args: object, **kwargs: object) -> Awaitable[Any]:
        return client.calls.call(method, method.bind(args, kwargs))

    call.__name__ = method.name
    return call
