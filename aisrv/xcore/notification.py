"""Notifications: what a server raises at a client of its interface, and the client's event for a select.

Source: XMOS, "How to use notifications over interfaces": raising one never blocks the server, and has no
effect until a call of the client has cleared the one before.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Self, TypeVar, overload

from aisrv.xcore.core import Core, check_tile
from aisrv.xcore.listener import Listener
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.select import Selection
from aisrv.xcore.traps import Trap, TrapKind

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
_CLEARS: Final = "_clears_notification"


def clears_notification(method: F) -> F:
    """Mark a `method` of an interface, whose call clears the interface's notification."""
    setattr(method, _CLEARS, True)
    return method


def clears(method: object) -> bool:
    """Return whether the calls of a method of an interface clear its notification."""
    return getattr(method, _CLEARS, False)


class NotificationEvent:
    """The event at one client: ready from when the server raises it until a clearing call, or `take`.

    `name` is what traps and reports call it; it is for the cores of one `tile`.
    """

    def __init__(self, runtime: Runtime, tile: int, name: str) -> None:
        self.runtime: Final = runtime
        """What it shares with the resources of its node."""
        self.tile: Final = tile
        """The tile's number."""
        self.name: Final = name
        self.is_pending = False
        """Whether it came, and was neither cleared nor taken."""
        self._listener: Listener | None = None

    @property
    def ready(self) -> bool:
        """Whether the notification is there."""
        return self.is_pending

    def come(self) -> None:
        """Let the client know: the server raised it."""
        self.is_pending = True
        if self._listener is not None:
            self._listener.fire(self)

    def listen(self, listener: Listener) -> None:
        """Let a select know when it comes; a second one traps with RESOURCE_DEP."""
        place = f"select on {self.name}"
        check_tile(self.tile, place)
        if self._listener is not None:
            reason = f"{place} while {self._listener.user_name} is in a select on it"
            raise Trap(TrapKind.RESOURCE_DEP, reason, place)
        self._listener = listener

    def stop_listening(self, listener: Listener) -> None:
        """Forget a select's listener; that of another select stays."""
        if self._listener is listener:
            self._listener = None

    async def take(self) -> None:
        """Wait for the event and consume it: there is no other until a call has cleared the notification."""
        await Selection(self).wait()
        self.is_pending = False

    def wakers(self) -> Sequence[Core | None]:
        """Return None for anybody: any core of the tile may have the server raise it."""
        return [None]

    def explain_wait(self) -> str:
        """Say that nothing more is known."""
        return "not raised"


class Notification:
    """Declares an interface's notification, of which it has one at most: `filled = Notification()`.

    Of a client it is the event, of the class what a server raises: `await server.notify(0, Box.filled)`.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"{owner.__name__}.{name}"
        """The names of interface and notification."""

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...

    @overload
    def __get__(self, client: object, owner: type) -> NotificationEvent: ...

    def __get__(self, client: object | None, owner: type) -> Self | NotificationEvent:
        if client is None:
            return self
        event = getattr(getattr(client, "calls", None), "event", None)
        if not isinstance(event, NotificationEvent):
            raise AttributeError(f"{self.name} is an event of clients; a server raises it by its `notify`")
        return event
