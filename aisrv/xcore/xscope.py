"""The functions of `xscope.h` for cores in Python, under their names; the core is always recorded.

Source: XMOS XTC tools, "xSCOPE target library". What is recorded goes to the tracers of the node.
"""

from typing import Final

from aisrv.xcore.core import current_core
from aisrv.xcore.probes import LARGEST_RECORD, Probe, ProbeEvent, Value, Xscope
from aisrv.xcore.runtime import current_runtime
from aisrv.xcore.traps import Trap, TrapKind

_WORD: Final = 0xFFFFFFFF


def _here() -> tuple[Xscope, int]:
    runtime, core = current_runtime(), current_core()
    if runtime is None or core is None:
        raise Trap(TrapKind.ILLEGAL_RESOURCE, "xscope outside of any core", "xscope")
    return runtime.xscope, core.tile


def _record(number: int, event: ProbeEvent, value: Value, bits: int = 32) -> None:
    xscope, tile = _here()
    xscope.record(tile, number, event, value, bits)


def xscope_register(*probes: Probe) -> None:
    """Give the core's tile its `probes`, numbered from 0, where no config file has."""
    xscope, tile = _here()
    xscope.register(tile, probes)


def xscope_number(name: str) -> int:
    """Return the number of a probe by its `name`: in C a macro of the config file's."""
    xscope, tile = _here()
    return xscope.number_of(name, tile)


def xscope_char(number: int, data: int) -> None:
    """Record a byte, `data`, on the probe of that `number`."""
    _record(number, ProbeEvent.VALUE, data & 0xFF)


def xscope_short(number: int, data: int) -> None:
    """Record 16 bits of `data` on the probe of that `number`."""
    _record(number, ProbeEvent.VALUE, data & 0xFFFF)


def xscope_int(number: int, data: int) -> None:
    """Record a word, `data`, on the probe of that `number`."""
    _record(number, ProbeEvent.VALUE, data & _WORD)


def xscope_longlong(number: int, data: int) -> None:
    """Record 64 bits of `data` on the probe of that `number`."""
    _record(number, ProbeEvent.VALUE, data & (1 << 64) - 1, 64)


def xscope_float(number: int, data: float) -> None:
    """Record `data` on the probe of that `number`."""
    _record(number, ProbeEvent.VALUE, float(data))


xscope_double: Final = xscope_float


def xscope_bytes(number: int, data: bytes) -> None:
    """Record `data` on the probe of that `number`; more than LARGEST_RECORD bytes trap with ECALL."""
    if len(data) > LARGEST_RECORD:
        raise Trap(TrapKind.ECALL, f"xscope_bytes: {len(data)} bytes are more than {LARGEST_RECORD}")
    _record(number, ProbeEvent.VALUE, bytes(data))


def xscope_start(number: int) -> None:
    """Record the start of a block on the probe of that `number`."""
    _record(number, ProbeEvent.START, None)


def xscope_stop(number: int) -> None:
    """Record the end of a block on the probe of that `number`."""
    _record(number, ProbeEvent.STOP, None)


def xscope_start_int(number: int, data: int) -> None:
    """Record the start of a block with a word, `data`, on the probe of that `number`."""
    _record(number, ProbeEvent.START, data & _WORD)


def xscope_stop_int(number: int, data: int) -> None:
    """Record the end of a block with a word, `data`, on the probe of that `number`."""
    _record(number, ProbeEvent.STOP, data & _WORD)


def xscope_enable() -> None:
    """Record what the core's tile sends from now on."""
    xscope, tile = _here()
    xscope.enable(tile)


def xscope_disable() -> None:
    """Record nothing of what the core's tile sends from now on."""
    xscope, tile = _here()
    xscope.enable(tile, is_on=False)


def xscope_ping() -> None:
    """Record that the program pings."""
    xscope, tile = _here()
    xscope.ping(tile)
