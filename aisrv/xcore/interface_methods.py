"""The methods of an interface, as its clients and its server know them: numbers, and arguments as bytes."""

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_type_hints

import msgspec

from aisrv.xcore.notification import Notification, clears
from aisrv.xcore.traps import SizeError, XcoreError

LENGTH_BITS: Final = 24
"""Bits of the length of arguments, or of a result, in bytes."""
MOST_METHODS: Final = 128
_RESERVED: Final = frozenset(("calls", "connect", "distribute"))


class InterfaceError(XcoreError, TypeError):
    """A class that is no interface, or a value that does not have the type which its method declares."""


class _Values:
    """Turns values of declared types to bytes and back: MessagePack, which knows what msgspec knows."""

    def __init__(self, declared: Any, what: str) -> None:  # noqa: ANN401 - any type
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(declared)
        self._encoder = msgspec.msgpack.Encoder()
        self._what = what

    def pack(self, values: object) -> bytes:
        """Return the bytes of values. Raises InterfaceError for other types, SizeError for too many bytes."""
        try:
            data = self._encoder.encode(values)
            self._decoder.decode(data)
        except (msgspec.ValidationError, TypeError, OverflowError) as error:
            raise InterfaceError(f"{self._what}: {error}") from None
        if len(data) >> LENGTH_BITS:
            raise SizeError(f"{self._what}: {len(data)} bytes are more than {(1 << LENGTH_BITS) - 1}")
        return data

    def unpack(self, data: bytes) -> Any:  # noqa: ANN401 - of the declared type
        """Return the values."""
        return self._decoder.decode(data)


class Method:
    """One method of an interface, with its number."""

    def __init__(self, interface: type, number: int, name: str) -> None:
        function = getattr(interface, name)
        self.name: Final = name
        self.title: Final = f"{interface.__name__}.{name}"
        """What traps and reports call it."""
        self.number: Final = number
        self.clears: Final = clears(function)
        """Whether a call clears the notification."""
        if not inspect.iscoroutinefunction(function):
            raise InterfaceError(f"{self.title} is not `async def`, as all calls wait for the server")
        self._signature = inspect.signature(function)
        self._names = tuple(self._signature.parameters)[1:]
        try:
            hints = get_type_hints(function)
            declared = [hints[each] for each in self._names]
            returned = hints["return"]
        except (KeyError, NameError) as error:
            raise InterfaceError(f"{self.title} has no type for {error}") from None
        kinds = {each.kind for each in self._signature.parameters.values()}
        if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY}:
            raise InterfaceError(f"{self.title} must have plain parameters: no * and no **")
        try:
            self.arguments: Final = _Values(types.GenericAlias(tuple, tuple(declared)), self.title)
            self.result: Final = _Values(returned, f"the result of {self.title}")
        except TypeError as error:
            raise InterfaceError(f"{self.title}: {error}") from None

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of a call by place. Raises TypeError where they do not fit."""
        if not kwargs and len(args) == len(self._names):
            return tuple(args)
        bound = self._signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        return bound.args[1:]


class Methods:
    """All methods of an interface: its abstract ones, by their order in the classes."""

    def __init__(self, interface: type) -> None:
        self.interface: Final = interface.__name__
        """Name of the class."""
        abstract: frozenset[str] = getattr(interface, "__abstractmethods__", frozenset())
        order = [name for each in reversed(interface.__mro__) for name in vars(each) if name in abstract]
        names = list(dict.fromkeys(order))
        if not names:
            raise InterfaceError(f"{self.interface} has no calls: they are its abstract methods")
        if wrong := _RESERVED.intersection(names):
            raise InterfaceError(f"{self.interface} has a call of the name {min(wrong)}, which is taken")
        if len(names) > MOST_METHODS:
            raise InterfaceError(f"{self.interface} has {len(names)} calls, more than {MOST_METHODS}")
        self.by_number: Final = tuple(Method(interface, *each) for each in enumerate(names))
        declared = [inspect.getattr_static(interface, name) for name in dir(interface)]
        found = [each for each in declared if isinstance(each, Notification)]
        if len(found) > 1:
            raise InterfaceError(f"{self.interface} has {len(found)} notifications: one is the most")
        self.notification: Final = found[0] if found else None

    @property
    def notification_title(self) -> str:
        """What traps and reports call the notification."""
        return f"{self.interface}.notification" if self.notification is None else self.notification.name

    def check_notification(self, notification: Notification, client: int, clients: int) -> None:
        """Raise InterfaceError for another interface's, SizeError for a client that is not there."""
        if notification is not self.notification:
            raise InterfaceError(f"{notification.name} is not a notification of {self.interface}")
        if not 0 <= client < clients:
            raise SizeError(f"client of {self.interface}: {client} is not 0 to {clients - 1}")
