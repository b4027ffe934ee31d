"""Distributed servers: no core runs them, as each call is carried out by the client's own.

Source: XMOS, "How to define and use a distributable function": such a task has only cases that respond to
calls, and is on the tile of its clients. One call is carried out at a time, as those of any server are.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from aisrv.xcore.core import Core, User, check_tile, current_user
from aisrv.xcore.interface_methods import Method, Methods
from aisrv.xcore.notification import Notification, NotificationEvent
from aisrv.xcore.report import known_to_use, name_of
from aisrv.xcore.runtime import Parking, Runtime
from aisrv.xcore.traced import traced_verb
from aisrv.xcore.traps import Trap, TrapKind

T = TypeVar("T")


class DistributedServer(Generic[T]):
    """The server's side of an interface whose calls run in the tasks of the clients, all on one tile."""

    def __init__(self, runtime: Runtime, tile: int, methods: Methods, clients: int) -> None:
        self.runtime: Final = runtime
        """What it shares with the resources of its node."""
        self.tile: Final = tile
        """The tile's number."""
        self.name: Final = f"distributed {methods.interface}"
        """What traps and reports call it."""
        self._methods = methods
        self._perform = [traced_verb(each.title)(_perform) for each in methods.by_number]
        self._implementation: T | None = None
        names = (f"{methods.notification_title} of client {client}" for client in range(clients))
        self.events: Final = tuple(NotificationEvent(runtime, tile, name) for name in names)
        """The notification, by client."""
        self._raised = [False] * clients
        self._waiting: deque[tuple[Parking[None], User]] = deque()
        self._user: User | None = None
        self._called = ""
        self.caller: int | None = None
        """The client whose call is carried out now."""

    def implement(self, implementation: T) -> None:
        """Have calls carried out by the methods of an `implementation`, from now on."""
        self._implementation = implementation

    async def notify(self, client: int, notification: Notification) -> None:
        """Raise the interface's `notification` at a `client`, by number; nothing where it is raised already.

        Never blocks. Raises InterfaceError for another interface's, SizeError where there is no such client.
        """
        self._methods.check_notification(notification, client, len(self._raised))
        if not self._raised[client]:
            self._raised[client] = True
            self.events[client].come()

    async def perform(self, client: int, method: Method, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
        """Carry out a call of a client in the running task, once those before it are done."""
        return await self._perform[method.number](self, client, method, arguments)

    async def carry_out(self, client: int, method: Method, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
        """Carry out a call, as `perform` does."""
        place = f"{method.title} on {self.name}"
        check_tile(self.tile, place)
        if self._implementation is None:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which nothing implements yet", place)
        await self.runtime.begin_verb()
        await self._enter(method, place)
        try:
            self._called, self.caller = method.title, client
            if method.clears:
                self._raised[client] = self.events[client].is_pending = False
            return await getattr(self._implementation, method.name)(*arguments)
        finally:
            self._leave()

    async def _enter(self, method: Method, place: str) -> None:
        """Wait until no other call is carried out. A call within another of the same core traps."""
        user = current_user()
        if self._user is None:
            self._user = user
            return
        if self._user is user:
            reason = f"{place} by {name_of(user)}, which is in {self._called} on it"
            raise Trap(TrapKind.RESOURCE_DEP, reason, place)
        waiting: tuple[Parking[None], User] = (self.runtime.parking(self.runtime), user)
        self._waiting.append(waiting)
        await waiting[0].park(method.title, self, lambda: self._waiting.remove(waiting))

    def _leave(self) -> None:
        self.caller = None
        if self._waiting:
            parking, self._user = self._waiting.popleft()
            parking.wake(None)
        else:
            self._user = None

    def wakers(self) -> Sequence[Core | None]:
        """Return the core whose call is carried out; None is somebody outside."""
        return [known_to_use(self._user)]

    def explain_wait(self) -> str:
        """Name who is in a call."""
        return f"{name_of(self._user)} is in {self._called}"


async def _perform(
    server: DistributedServer[Any], client: int, method: Method, arguments: tuple[Any, ...]
) -> Any:  # noqa: ANN401 - a result
    return await server.carry_out(client, method, arguments)


class DistributedCalls:
    """The calls of one client."""

    def __init__(self, server: DistributedServer[Any], client: int) -> None:
        self._server = server
        self._client = client
        self.event: Final = server.events[client]
        """That of the interface's notification."""

    def assign(self, core: Core) -> None:
        """Nothing belongs to a client."""

    async def call(self, method: Method, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - a result
        """Carry a call out and return its result; what is cancelled in the middle ends there."""
        return await self._server.perform(self._client, method, arguments)
