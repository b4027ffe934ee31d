"""Frames of a Jacdac bus in words: what each packet is, by the tables of the services."""

from collections.abc import Iterator

from aisrv.addons.jacdac.wire.announce import Announce
from aisrv.addons.jacdac.wire.frame import (
    ACK_INDEX,
    CONTROL_INDEX,
    PIPE_INDEX,
    Frame,
    ServicePacket,
)
from aisrv.addons.jacdac.wire.packing import Packing, PackingError
from aisrv.addons.jacdac.wire.pipes import CLOSE, COUNTER_MASK, METADATA, PORT_SHIFT
from aisrv.addons.jacdac.wire.service_spec import (
    CODE_MASK,
    EVENT,
    EVENT_CODE_MASK,
    GET,
    KIND_MASK,
    NOT_IMPLEMENTED,
    SET,
    ServiceSpec,
)
from aisrv.addons.jacdac.wire.service_tables import CONTROL, SPECS_BY_CLASS


class BusDecoder:
    """Describes frames; it learns from announces which services a device has."""

    def __init__(self) -> None:
        self._classes: dict[int, tuple[int, ...]] = {}

    def describe(self, frame: Frame) -> Iterator[str]:
        """Yield a line for each packet of a frame."""
        service_class = frame.multicast_class
        who = f"{frame.device:016x}" if service_class is None else f"class {service_class:08x}"
        arrow = "to" if frame.is_command else "from"
        for packet in frame.packets:
            self._learn(frame, packet)
            yield f"{arrow} {who}  {self._packet(frame, packet)}"

    def services(self, device: int) -> tuple[int, ...]:
        """Return the classes of a device's services, from index 1, as it announced them."""
        return self._classes.get(device, ())

    def spec_of(self, device: int, index: int) -> ServiceSpec | None:
        """Return the table of a service; None where it is not known."""
        if index == CONTROL_INDEX:
            return CONTROL
        classes = self.services(device)
        return SPECS_BY_CLASS.get(classes[index - 1]) if 0 < index <= len(classes) else None

    def _learn(self, frame: Frame, packet: ServicePacket) -> None:
        if not frame.is_command and packet[:2] == (CONTROL_INDEX, 0):
            announce = Announce.from_bytes(packet.payload)
            if announce is not None:
                self._classes[frame.device] = announce.classes

    def _packet(self, frame: Frame, packet: ServicePacket) -> str:
        if packet.service == PIPE_INDEX:
            return _pipe(packet)
        if packet.service == ACK_INDEX:
            return f"ACK of {packet.command:04x}"
        if frame.multicast_class is None:
            spec = self.spec_of(frame.device, packet.service)
        else:
            spec = SPECS_BY_CLASS.get(frame.multicast_class)
        name = f"service {packet.service}" if spec is None else f"{spec.name} ({packet.service})"
        return f"{name}: {_command(spec, packet, is_command=frame.is_command)}"


def _pipe(packet: ServicePacket) -> str:
    port, counter = packet.command >> PORT_SHIFT, packet.command & COUNTER_MASK
    flags = " metadata" * bool(packet.command & METADATA) + " close" * bool(packet.command & CLOSE)
    return f"pipe {port} packet {counter}{flags}: {len(packet.payload)} bytes"


def _command(spec: ServiceSpec | None, packet: ServicePacket, *, is_command: bool) -> str:
    kind, code = packet.command & KIND_MASK, packet.command & CODE_MASK
    if packet.command & EVENT:
        code = packet.command & EVENT_CODE_MASK
        event = next((event for event in spec.events if event.code == code), None) if spec else None
        name = f"0x{code:02x}" if event is None else event.name
        return f"event {name}{_value(event.packing if event else None, packet.payload)}"
    if kind in (GET, SET):
        register = spec.by_code.get(code) if spec else None
        name = f"register 0x{code:03x}" if register is None else register.name
        if kind == GET and is_command:
            return f"get {name}"
        verb = "set " if is_command else ""
        return f"{verb}{name}{_value(register.packing if register else None, packet.payload)}"
    if packet.command == NOT_IMPLEMENTED and not is_command:
        unknown = int.from_bytes(packet.payload[:2], "little")
        return f"command 0x{unknown:04x} is not implemented"
    action = next((a for a in spec.actions if a.code == packet.command), None) if spec else None
    if action is None:
        return f"command 0x{packet.command:04x}{_value(None, packet.payload)}"
    return f"{action.name}{_value(action.packing if is_command else action.report, packet.payload)}"


def _value(packing: Packing | None, payload: bytes) -> str:
    if packing is not None:
        try:
            value = packing.unpack(payload)
        except PackingError:
            pass
        else:
            if isinstance(value, tuple) and not value:
                return ""
            return f" = {value.hex() if isinstance(value, bytes) else value!r}"
    return f" = {payload.hex()}" if payload else ""
