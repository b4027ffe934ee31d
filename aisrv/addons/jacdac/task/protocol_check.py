"""The Protocol Test service: registers of every kind, with a command and an event for each. No I/O."""

from typing import ClassVar, Final

from aisrv.addons.jacdac.task.service import Host, Service
from aisrv.addons.jacdac.wire.frame import FrameError
from aisrv.addons.jacdac.wire.packing import PackingError, Value
from aisrv.addons.jacdac.wire.pipes import LAST_PORT, PipeArgument
from aisrv.addons.jacdac.wire.service_spec import Access, ServiceSpec
from aisrv.addons.jacdac.wire.service_tables import PROTOCOL_TEST

_DEFAULTS: Final[dict[str, Value]] = {
    "rw_bool": 0,
    "rw_u32": 0,
    "rw_i32": 0,
    "rw_string": "",
    "rw_bytes": b"",
    "rw_i8_u8_u16_i32": (0, 0, 0, 0),
    "rw_u8_string": (0, ""),
}


class ProtocolTestService(Service):
    """Exercises clients; the procedure is in Jacdac's specification of the service."""

    SPEC: ClassVar[ServiceSpec] = PROTOCOL_TEST

    def __init__(self, device: Host, index: int) -> None:
        super().__init__(device, index, "protocol test")
        self._values: dict[int, Value] = {}
        for register in self.SPEC.registers:
            if register.name in _DEFAULTS:
                self._add(register.code, _DEFAULTS[register.name])
        self.actions[0x90] = self._report_pipe

    def _add(self, code: int, default: Value) -> None:
        self._values[code] = default
        packing = self.SPEC.by_code[code].packing

        def get() -> Value:
            return self._values[code]

        def change(value: Value) -> None:
            self._values[code] = value
            event = next(event for event in self.SPEC.events if event.code == code)
            self.send_event(event, value)

        def command(payload: bytes) -> None:
            try:
                value = packing.unpack_setting(payload)
            except PackingError:
                return
            if value is not None:
                change(value)

        self.getters |= {code: get, code + 0x100: get}
        self.setters[code] = change
        self.actions[code] = command
        assert self.SPEC.by_code[code].access is Access.RW  # noqa: S101 - what the table declares

    def _report_pipe(self, payload: bytes) -> None:
        try:
            target = PipeArgument.from_bytes(payload)
        except FrameError:
            return
        if not 1 <= target.port <= LAST_PORT:
            return
        pipe = self.device.open_out_pipe(target, lambda: None)
        content = self._values[0x085]
        for byte in content if isinstance(content, bytes) else b"":
            pipe.write(bytes((byte,)))
        pipe.close()
