"""lib_xcore, name by name: what is there in C, as our headers say it, and where tasks in Python find it.

A function of `aisrv.xcore` that has its C name is found by itself; the others are listed here.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import aisrv.xcore
from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.port import Port
from docs.generate.c_headers import declared, headers
from docs.generate.markdown import code, table

XCORE: Final = Path(aisrv.xcore.__file__).parent

COUNTERPARTS: Final[Mapping[str, str]] = {
    "port_t": "ports.port.Port",
    "xclock_t": "ports.clockblock.ClockBlock",
    "port_setup_interrupt_callback": "interrupts.api.setup_interrupt_callback",
    "channel_t": "channels.channel.Channel",
    "streaming_channel_t": "channels.channel.Channel",
    "s_chan_out_buf_word": "channels.chanend.ChanEnd.outwords",
    "s_chan_out_buf_byte": "channels.chanend.ChanEnd.outbytes",
    "s_chan_in_buf_word": "channels.chanend.ChanEnd.inwords",
    "s_chan_in_buf_byte": "channels.chanend.ChanEnd.inbytes",
    "s_chan_out_ct": "channels.chanend.ChanEnd.outct",
    "s_chan_in_ct": "channels.chanend.ChanEnd.inct",
    "s_chan_check_ct": "channels.chanend.ChanEnd.chkct",
    "transacting_chanend_t": "channels.channel.Transaction",
    "chanend_t": "channels.chanend.ChanEnd",
    "chanend_out_byte": "channels.chanend.ChanEnd.outuchar",
    "chanend_out_word": "channels.chanend.ChanEnd.outuint",
    "chanend_out_control_token": "channels.chanend.ChanEnd.outct",
    "chanend_in_byte": "channels.chanend.ChanEnd.inuchar",
    "chanend_in_word": "channels.chanend.ChanEnd.inuint",
    "chanend_in_control_token": "channels.chanend.ChanEnd.inct",
    "chanend_check_control_token": "channels.chanend.ChanEnd.chkct",
    "chanend_test_control_token_next_byte": "channels.chanend.ChanEnd.testct",
    "chanend_test_control_token_next_word": "channels.chanend.ChanEnd.testwct",
    "chanend_out_end_token": "channels.channel.s_chan_out_ct_end",
    "chanend_check_end_token": "channels.channel.s_chan_check_ct_end",
    "chanend_setup_interrupt_callback": "interrupts.api.setup_interrupt_callback",
    "SELECT_RES": "select.select",
    "SELECT_RES_ORDERED": "select.select",
    "CASE_THEN": "select.Event",
    "CASE_GUARD_THEN": "select.Case",
    "CASE_NGUARD_THEN": "select.Case",
    "DEFAULT_THEN": "select.select_or_default",
    "SELECT_CONTINUE_RESET": "select.Selection.wait",
    "SELECT_CONTINUE_NO_RESET": "select.Selection.wait",
    "hwtimer_t": "timer.Timer",
    "hwtimer_free": "timer.Timer.free",
    "hwtimer_set_trigger_time": "timer.Timer.after",
    "hwtimer_change_trigger_time": "timer.TimerAfter.change",
    "hwtimer_setup_interrupt_callback": "interrupts.api.setup_interrupt_callback",
    "interrupt_callback_t": "interrupts.api.Callback",
    "triggerable_setup_interrupt_callback": "interrupts.api.setup_interrupt_callback",
    "triggerable_enable_trigger": "interrupts.api.enable_trigger",
    "triggerable_disable_trigger": "interrupts.api.disable_trigger",
    "triggerable_disable_all": "interrupts.api.disable_all_triggers",
    "INTERRUPT_PERMITTED": "interrupts.api.interrupt_permitted",
    "lock_t": "lock.Lock",
    "lock_free": "lock.Lock.free",
    "lock_acquire": "lock.Lock.acquire",
    "lock_release": "lock.Lock.release",
    "PAR_JOBS": "lib_xcore.par",
    "PAR_FUNCS": "lib_xcore.par",
    "synchronizer_t": "synchronizer.Synchronizer",
    "par_jobs_synchronize": "synchronizer.Synchronizer.synchronize",
    "xthread_t": "core.Core",
    "run_async": "tile.Tile.start",
    "xassert": "traps.ecall",
    "xassert_not": "traps.ecall",
    "xscope_EventType": "probes.ProbeKind",
    "xscope_UserDataType": "probes.DataType",
}
"""Where tasks in Python find what has another name there, below `aisrv.xcore`."""

METHODS: Final[Mapping[str, tuple[str, type]]] = {
    "port_": ("ports.port.Port", Port),
    "clock_": ("ports.clockblock.ClockBlock", ClockBlock),
}
"""How names begin that are methods of a class: without that, with an underscore where Python needs one."""

ABSENT: Final[Mapping[str, tuple[str, ...]]] = {
    "xcore/parallel.h": ("synchronizer_t", "par_jobs_synchronize", "PAR_SYNC"),
    "xcore/port.h": ("port_type_t",),
    "xcore/thread.h": (
        "thread_mode_t",
        "local_thread_mode_set_bits",
        "local_thread_mode_get_bits",
        "local_thread_mode_clear_bits",
    ),
    "xcore/triggerable.h": ("TRIGGERABLE_EV_BASE",),
}
"""Names of lib_xcore's headers that ours do not declare at all."""

NOTES: Final[Mapping[str, str]] = {
    "xcore/assert.h": (
        "`ecall(reason)` is what a failed assertion does. Traps are exceptions, "
        "`aisrv.xcore.traps.Trap`, with the numbers of `trycatch.h`."
    ),
    "xcore/chanend.h": "Further verbs of an end in Python: `inbytes`, `outbytes`, `in_until_control`.",
    "xcore/channel.h": "In Python a count takes the place of a buffer, and the data are returned.",
    "xcore/hwtimer.h": (
        "In Python a trigger time is an event for a select. There is none to clear: a read of the "
        "timer never waits."
    ),
    "xcore/interrupt_wrappers.h": "In Python a callback is any async function.",
    "xcore/parallel.h": (
        "`par` takes functions; jobs need no declaration. `Tile.allocate_synchronizer` allocates "
        "synchronizers."
    ),
    "xcore/clock.h": (
        "In Python a block comes from `Tile.allocate_clock_block`, or by its resource id from "
        "`Tile.clock_block`."
    ),
    "xcore/port.h": (
        "In Python a port comes from `Tile.port`, by its name or its resource id; `set_trigger_time` may "
        "wait. [Ports](substrate.md#ports) has the rules."
    ),
    "xcore/select.h": (
        "In Python a resource is a case by itself; `ordered=True` takes the first that is ready. A "
        "guard is a function, evaluated as the select is entered. For a default with a guard, call "
        "`select` or `select_or_default`."
    ),
    "xcore/thread.h": "In Python, to wait for what was started use `par`.",
    "xcore/triggerable.h": "In Python events are for a select.",
}
"""What a reader needs to know besides, by header."""


@cache
def python_name(name: str) -> str | None:
    """Return where tasks in Python find what a C name is for, below `aisrv.xcore`; None where nowhere."""
    return COUNTERPARTS.get(name) or _method(name) or _same_names().get(name)


def _method(name: str) -> str | None:
    for prefix, (path, kind) in METHODS.items():
        rest = name.removeprefix(prefix)
        for method in (rest, f"{rest}_") if rest != name else ():
            if hasattr(kind, method):
                return f"{path}.{method}"
    return None


def lib_xcore_tables() -> str:
    """Write a table for each header."""
    return "\n\n".join(_section(header) for header in headers())


def names_of(header: str) -> Mapping[str, str]:
    """Return the names of a header, each with whether it is there in C: "yes", or why it is not."""
    found = {name: f"no: {why}" if why else "yes" for name, why in declared(header).items()}
    return {**found, **dict.fromkeys(ABSENT.get(header, ()), "no")}


def _section(header: str) -> str:
    names = names_of(header)
    parts = [f"### {header}"]
    if any(map(python_name, names)) or header in NOTES:
        rows = [(code(name), names[name], _python_cell(name)) for name in names]
        parts.append(table(("name", "in C", "in Python"), rows))
    else:
        parts += _lists(names)
    parts += [NOTES[header]] if header in NOTES else []
    return "\n\n".join(parts)


def _python_cell(name: str) -> str:
    found = python_name(name)
    return "" if found is None else code(found)


def _lists(names: Mapping[str, str]) -> Iterator[str]:
    """Write names without a counterpart in Python: those that are there, then the refused by their reason."""
    by_answer: dict[str, list[str]] = {}
    for name, there in names.items():
        by_answer.setdefault(there, []).append(name)
    for answer, group in sorted(by_answer.items(), key=lambda each: each[0] != "yes"):
        why = answer.removeprefix("no").removeprefix(": ")
        what = "In C" if answer == "yes" else f"Not in C ({why})" if why else "Not in C"
        yield f"{what}: {', '.join(map(code, group))}."


@cache
def _same_names() -> Mapping[str, str]:
    """Find what modules of `aisrv.xcore` define, by its name; the first module that has it."""
    first: Sequence[str] = ("lib_xcore", "channels.channel", "xscope")
    every = (".".join(path.relative_to(XCORE).with_suffix("").parts) for path in XCORE.rglob("*.py"))
    modules = [*first, *sorted(name for name in every if name not in first)]
    found: dict[str, str] = {}
    for module in modules:
        tree = ast.parse(XCORE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
        for name in _defined(tree):
            found.setdefault(name, f"{module}.{name}")
    return found


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
