"""What each verb of a program in C does on the substrate: a table of handlers, of one part a module."""

from collections.abc import Mapping
from typing import Final

from aisrv.firmware.records import Verb
from aisrv.firmware.verbs.chanends import CHANENDS
from aisrv.firmware.verbs.clock_blocks import CLOCK_BLOCKS
from aisrv.firmware.verbs.cores import CORES
from aisrv.firmware.verbs.events import EVENTS
from aisrv.firmware.verbs.interrupts import INTERRUPTS
from aisrv.firmware.verbs.locks import LOCKS
from aisrv.firmware.verbs.ports import PORTS
from aisrv.firmware.verbs.program_tile import Handler
from aisrv.firmware.verbs.timers import TIMERS
from aisrv.firmware.verbs.usb import USB
from aisrv.firmware.verbs.xscope import XSCOPE

VERBS: Final[Mapping[Verb, Handler]] = {
    **CORES,
    **EVENTS,
    **INTERRUPTS,
    **CHANENDS,
    **TIMERS,
    **LOCKS,
    **CLOCK_BLOCKS,
    **PORTS,
    **USB,
    **XSCOPE,
}
"""Every verb but RETURN, which ends a core, and WHERE, which answers a question."""
