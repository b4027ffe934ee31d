"""A service of a device: it answers gets and sets from its table, and runs its actions. No I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, Protocol

from aisrv.addons.jacdac.wire.frame import ServicePacket
from aisrv.addons.jacdac.wire.packing import PackingError, Value
from aisrv.addons.jacdac.wire.pipes import InPipes, OutPipe, PipeArgument
from aisrv.addons.jacdac.wire.service_spec import (
    CODE_MASK,
    GET,
    KIND_MASK,
    SET,
    STATUS_CODE_CHANGED,
    Access,
    Event,
    Register,
    ServiceSpec,
)
from aisrv.addons.jacdac.wire.timers import Timers

READY: Final = (0, 0)
"""Value of `status_code`."""
INITIALIZING: Final = (1, 0)


class Host(Protocol):
    """Interface of the device that a service belongs to."""

    @property
    def timers(self) -> Timers: ...

    @property
    def pipes(self) -> InPipes: ...

    @property
    def sender(self) -> object | None:
        """Sender of the frame that is handled now; None if unknown."""

    def has_neighbor(self, device: int) -> bool: ...

    def neighbor_ids(self) -> Iterable[int]: ...

    def neighbor_services(self, device: int) -> Sequence[int] | None:
        """Return the classes of a neighbor's services, from index 1; None if it is not there."""

    def report(self, index: int, command: int, payload: bytes) -> None: ...

    def send_event(self, index: int, event: int, payload: bytes) -> None: ...

    def send_to(self, frame: bytes) -> None: ...

    def open_out_pipe(self, target: PipeArgument, ended: Callable[[], None]) -> OutPipe: ...


Getter = Callable[[], Value]
Setter = Callable[[Value], None]
ActionHandler = Callable[[bytes], None]


class Service:
    """Base of the services. A derived class fills `getters`, `setters` and `actions`, by code."""

    SPEC: ClassVar[ServiceSpec]

    def __init__(self, device: Host, index: int, instance_name: str) -> None:
        self.device: Final = device
        self.index: Final = index
        self._status = READY
        self._client_variant = ""
        self.getters: dict[int, Getter] = {
            0x109: lambda: instance_name,
            0x103: lambda: self._status,
            0x009: lambda: self._client_variant,
        }
        self.setters: dict[int, Setter] = {0x009: self._set_client_variant}
        self.actions: dict[int, ActionHandler] = {}

    def handle(self, packet: ServicePacket) -> bool:
        """Handle a command; return whether the service knows it."""
        kind, code = packet.command & KIND_MASK, packet.command & CODE_MASK
        if kind == GET:
            return self._get(code)
        if kind == SET:
            return self._set(code, packet.payload)
        action = self.actions.get(packet.command)
        if action is None:
            return False
        action(packet.payload)
        return True

    def report_register(self, name: str) -> None:
        """Report a register without having been asked."""
        self._answer(self.SPEC.register(name))

    def reset(self) -> None:
        """Reset the state of the service."""
        self._client_variant = ""

    def sender_left(self, sender: object) -> None:
        """Release what a host holds whose commands came from `sender`, which has left the bus."""

    def set_status(self, status: tuple[int, int]) -> None:
        if status != self._status:
            self._status = status
            self.send_event(STATUS_CODE_CHANGED, status)

    def send_event(self, event: Event, value: Value) -> None:
        self.device.send_event(self.index, event.code, event.packing.pack(value))

    def report(self, code: int, payload: bytes) -> None:
        self.device.report(self.index, code, payload)

    def _get(self, code: int) -> bool:
        register = self.SPEC.by_code.get(code)
        if register is None or code not in self.getters:
            return False
        self._answer(register)
        return True

    def _answer(self, register: Register) -> None:
        value = self.getters[register.code]()
        self.device.report(self.index, GET | register.code, register.packing.pack(value))

    def _set(self, code: int, payload: bytes) -> bool:
        register = self.SPEC.by_code.get(code)
        if register is None or register.access is not Access.RW or code not in self.setters:
            return False
        try:
            value = register.packing.unpack_setting(payload)
        except PackingError:
            return True  # a set has no answer
        if value is not None:
            self.setters[code](value)
        return True

    def _set_client_variant(self, value: Value) -> None:
        self._client_variant = fit_text(str(value))


def fit_text(text: str, limit: int = 232) -> str:
    """Cut a text to a packet's size, not in the middle of a character."""
    return text.encode()[:limit].decode(errors="ignore")


def constants(service: Service, values: Mapping[str, Value]) -> dict[int, Getter]:
    """Return getters of registers that never change."""

    def getter(value: Value) -> Getter:
        return lambda: value

    return {service.SPEC.register(name).code: getter(value) for name, value in values.items()}
