"""What each verb of a program in C does on the substrate: a table of handlers, of one part a module."""

from collections.abc import Mapping
from typing import Final

from aisrv.addons.firmware.records import Verb
from aisrv.addons.firmware.verbs.chanends import CHANENDS
from aisrv.addons.firmware.verbs.clock_blocks import CLOCK_BLOCKS
from aisrv.addons.firmware.verbs.cores import CORES
from aisrv.addons.firmware.verbs.events import EVENTS
from aisrv.addons.firmware.verbs.interrupts import INTERRUPTS
from aisrv.addons.firmware.verbs.locks import LOCKS
from aisrv.addons.firmware.verbs.ports import PORTS
from aisrv.addons.firmware.verbs.program_tile import Handler
from aisrv.addons.firmware.verbs.timers import TIMERS
from aisrv.addons.firmware.verbs.usb import USB
from aisrv.addons.firmware.verbs.xscope import XSCOPE

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
