"""Messages between the simulator and the program of a tile, in memory that both share.

A core of the program asks for a verb by a request; the simulator performs it on the substrate and gives the
result back. All numbers are little endian. Source: "Firmware in C on the substrate", section The design.
"""

import enum
import struct
from collections.abc import Iterable
from typing import Final
from zlib import crc32

from msgspec import Struct

from aisrv.addons.firmware.errors import FirmwareError
from aisrv.protocol.commands import Command
from aisrv.xcore.probes import LARGEST_RECORD
from aisrv.xcore.traps import TrapKind

BUFFER_BYTES: Final = 1 << 20
"""The most bytes that go with one verb, either way: twice a tile's memory."""
HALF_BYTES: Final = 9 << 20
"""Room for the requests of all cores, and as much for their results."""
REQUESTS: Final = 4096
RESULTS: Final = REQUESTS + HALF_BYTES
SHARED_BYTES: Final = RESULTS + HALF_BYTES

SAYS_REQUESTS: Final = 1
"""Byte of the program on its pipe: its requests are there."""
SAYS_BUSY: Final = 2
"""Byte of the program on its pipe: at BUSY_REPORT it says where it has been for long, and it goes on."""
SAYS_EXIT: Final = 3
"""Byte of the program on its pipe: it ends now, with the code at EXIT_CODE. No other end is an orderly one.
"""
EXIT_CODE: Final = 16
BUSY_REPORT: Final = 64
LOST_PIPE: Final = 122
"""Exit code of a program that can't speak to the simulator any more."""

POSTED: Final = 0x8000
"""Set in the verb of a request that is not answered."""
MOST_POSTED: Final = 64
START: Final = 0x8000_0000
"""Set in the core of a result that starts a function: `value` is its number."""
ASK_WHERE: Final = 0x4000_0000
"""Set in the core of a result that asks where that core is."""
INTERRUPT: Final = 0x2000_0000
"""Set in the core of a result that runs a callback: its address and its argument's go with it."""
CALLBACKS: Final = 16
"""Added to the number of a coroutine for that of the callbacks that interrupt it."""
START_ARGUMENTS: Final = 8
XUD_VERB_UPDATE: Final = 0xFFFF_FFFF
"""Result of a verb on a USB endpoint where the bus has changed, in place of a packet's length."""
XUD_VERB_ERROR: Final = 0xFFFF_FFFE
"""Result of one at endpoint 0 where the host has begun another transfer."""


class Verb(enum.IntEnum):
    """What a core of the program may ask for."""

    RETURN = enum.auto()
    """The function of this core returned, with `a`; nothing is answered."""
    TRAP = enum.auto()
    """This core broke a rule of kind `a`, at a `Place`; `b` is a `TrapScope`."""
    WHERE = enum.auto()
    """The answer to ASK_WHERE: a `Place`."""
    CATCH_UP = enum.auto()
    """Perform what was posted."""
    LET_TIME_PASS = enum.auto()
    """The clock is read again and again."""
    FORK = enum.auto()
    """Start the jobs whose numbers and names go with it; the result is the number of the join."""
    JOIN = enum.auto()
    """Wait for the jobs of the join `a`."""
    RUN_ASYNC = enum.auto()
    """Start one job that nobody joins."""
    CORES_FREE = enum.auto()
    """The result is how many cores of the tile are free."""
    SELECT = enum.auto()
    """Wait for one of the events that go with it; `a` is 1 for a default, `b` 1 for an ordered one."""
    SPIN = enum.auto()
    """Wait in a loop, at a `Place`, until memory changes; not answered: the core goes on by itself."""

    SETUP_INTERRUPT = enum.auto()
    """Resource `a` has a callback, whose address and its argument's go with it; `b` is a timer's time."""
    ENABLE_INTERRUPT = enum.auto()
    """Resource `a` interrupts from now on; with a `b` of 0 it does not."""
    DISABLE_INTERRUPTS = enum.auto()
    """No resource interrupts this core."""
    TRIGGER_TIME = enum.auto()
    """Timer `a` interrupts after `b`."""
    MASK_INTERRUPTS = enum.auto()
    """Nothing interrupts, with `a`; without, what is enabled does."""

    CHANEND_ALLOC = enum.auto()
    CHANEND_FREE = enum.auto()
    SETD = enum.auto()
    OUTUINT = enum.auto()
    OUTUCHAR = enum.auto()
    OUTCT = enum.auto()
    OUTWORDS = enum.auto()
    OUTBYTES = enum.auto()
    INUINT = enum.auto()
    INUCHAR = enum.auto()
    INCT = enum.auto()
    IN_UNTIL_CONTROL = enum.auto()
    """Data up to a control token; the result is their number, or the token with bit 31 set."""
    INWORDS = enum.auto()
    INBYTES = enum.auto()
    CHKCT = enum.auto()
    TESTCT = enum.auto()
    TESTWCT = enum.auto()
    CHAN_OUT_WORD = enum.auto()
    CHAN_OUT_BYTE = enum.auto()
    CHAN_OUT_BUF_WORD = enum.auto()
    CHAN_OUT_BUF_BYTE = enum.auto()
    CHAN_IN_WORD = enum.auto()
    CHAN_IN_BYTE = enum.auto()
    CHAN_IN_BUF_WORD = enum.auto()
    CHAN_IN_BUF_BYTE = enum.auto()

    TIMER_ALLOC = enum.auto()
    TIMER_FREE = enum.auto()
    WAIT_AFTER = enum.auto()

    LOCK_ALLOC = enum.auto()
    LOCK_FREE = enum.auto()
    LOCK_ACQUIRE = enum.auto()
    LOCK_RELEASE = enum.auto()

    XSCOPE_RECORD = enum.auto()
    """Record on the probe in bits 0 to 7 of `a`, in the `RecordForm` above: `b`, or the bytes."""
    XSCOPE_REGISTER = enum.auto()
    """Register probes: for each its kind and data type, bytes, and its name and unit, which end with 0."""
    XSCOPE_CONTROL = enum.auto()
    """Do what the `XscopeControl` in `a` says."""
    XSCOPE_CONNECT = enum.auto()
    """Have the host send its data to the end `a`."""

    XUD_MAIN = enum.auto()
    """Be the XUD core of the ends and types that go with it, `a` of them for OUT; `b` 1 for full speed."""
    XUD_KILL = enum.auto()
    XUD_INIT_EP = enum.auto()
    """The result is the address of the endpoint that the channel end `a` is joined to."""
    XUD_CLOSE = enum.auto()
    XUD_GET_SETUP = enum.auto()
    XUD_GET_BUFFER = enum.auto()
    """The result is the length of the packet, or XUD_VERB_UPDATE or XUD_VERB_ERROR, as in the next three."""
    XUD_SET_BUFFER = enum.auto()
    XUD_SET_READY = enum.auto()
    """Begin a transfer: of the packet that goes with it, or to the program."""
    XUD_FINISH = enum.auto()
    """Wait for the end of what XUD_SET_READY began."""
    XUD_BUS_STATE = enum.auto()
    XUD_ACKNOWLEDGE = enum.auto()
    """Take note of a change of the bus; the result is its `BusState`."""
    XUD_STALL = enum.auto()
    """Halt the endpoint of the address `a`, or with `b` of 0 no longer."""
    XUD_STALLED = enum.auto()
    XUD_RESET_STATE = enum.auto()
    XUD_SET_ADDRESS = enum.auto()

    CLOCK_ENABLE = enum.auto()
    CLOCK_DISABLE = enum.auto()
    CLOCK_START = enum.auto()
    CLOCK_STOP = enum.auto()
    CLOCK_SET_SOURCE_PORT = enum.auto()
    CLOCK_SET_SOURCE_CLK_REF = enum.auto()
    CLOCK_SET_SOURCE_CLK_XCORE = enum.auto()
    CLOCK_SET_DIVIDE = enum.auto()
    CLOCK_SET_READY_SRC = enum.auto()

    PORT_ENABLE = enum.auto()
    PORT_RESET = enum.auto()
    PORT_DISABLE = enum.auto()
    PORT_START_BUFFERED = enum.auto()
    PORT_SET_TRANSFER_WIDTH = enum.auto()
    PORT_SET_BUFFERED = enum.auto()
    PORT_SET_UNBUFFERED = enum.auto()
    PORT_WRITE_CONTROL_WORD = enum.auto()
    PORT_SET_CLOCK = enum.auto()
    PORT_SET_INOUT_DATA = enum.auto()
    PORT_SET_OUT_CLOCK = enum.auto()
    PORT_SET_INVERT = enum.auto()
    PORT_SET_NO_INVERT = enum.auto()
    PORT_SET_SAMPLE_FALLING_EDGE = enum.auto()
    PORT_SET_SAMPLE_RISING_EDGE = enum.auto()
    PORT_GET_TRIGGER_TIME = enum.auto()
    PORT_SET_TRIGGER_TIME = enum.auto()
    PORT_CLEAR_TRIGGER_TIME = enum.auto()
    PORT_SET_TRIGGER_IN_EQUAL = enum.auto()
    PORT_SET_TRIGGER_IN_NOT_EQUAL = enum.auto()
    PORT_SET_TRIGGER_VALUE = enum.auto()
    PORT_CLEAR_TRIGGER_IN = enum.auto()
    PORT_SET_SHIFT_COUNT = enum.auto()
    PORT_CLEAR_BUFFER = enum.auto()
    PORT_PEEK = enum.auto()
    PORT_OUT = enum.auto()
    PORT_OUT_PART_WORD = enum.auto()
    """Output the lowest bits of `b`; how many goes with it, in a word."""
    PORT_IN = enum.auto()
    PORT_OUT_SHIFT_RIGHT = enum.auto()
    PORT_IN_SHIFT_RIGHT = enum.auto()
    PORT_ENDIN = enum.auto()
    PORT_SYNC = enum.auto()
    PORT_SET_OUT_READY = enum.auto()
    PORT_SET_MASTER = enum.auto()
    PORT_SET_SLAVE = enum.auto()
    PORT_SET_NO_READY = enum.auto()
    PORT_SET_READY_STROBED = enum.auto()
    PORT_SET_READY_HANDSHAKE = enum.auto()
    PORT_PREPARE_INPUT = enum.auto()
    PORT_PREPARE_OUTPUT = enum.auto()


_FORMAT: Final = 6
"""Changes with the form of records and of the memory."""


def version_of(verbs: Iterable[str]) -> int:
    """Return the version of messages with these verbs, in their order: 31 bits."""
    return crc32(f"{_FORMAT} {' '.join(verbs)}".encode()) >> 1


VERSION: Final = version_of(Verb.__members__)
"""First word of the memory; a program that was built with another one ends."""


class TrapScope(enum.IntEnum):
    """What a trap of the program is of."""

    CORE = 0
    """Its core alone."""
    TILE = 1
    """All cores: the program's memory can't be trusted any more."""
    CPU_LIMIT = 2
    """A core that was halted at the limit of CPU time."""


class RecordForm(enum.IntEnum):
    """What a record of xscope holds."""

    WORD = 0
    LONG = 1
    FLOAT = 2
    DOUBLE = 3
    BYTES = 4
    START = 5
    STOP = 6
    START_WORD = 7
    STOP_WORD = 8


class XscopeControl(enum.IntEnum):
    """What a program may ask of xscope."""

    ENABLE = 0
    DISABLE = 1
    PING = 2


class RecordError(FirmwareError):
    """A program that writes no requests: it was overwritten, or is no program of a tile."""


_MOST_FRAMES: Final = 24
_VERBS: Final = {verb.value: verb for verb in Verb}
_REQUEST: Final = struct.Struct("<HHIIII")
_RESULT: Final = struct.Struct("<IIIII")
_PLACE: Final = struct.Struct("<II")


class Request(Struct, frozen=True):
    """A verb that a core asks for."""

    core: int
    """Number of the coroutine."""
    verb: Verb
    a: int
    b: int
    data: bytes
    """What goes with it."""
    room: int
    """How many bytes may come back."""
    is_posted: bool


def read_requests(message: memoryview) -> list[Request]:
    """Read the requests of a message. Raises RecordError."""
    requests: list[Request] = []
    place, end = 0, len(message)
    while place < end:
        if end - place < _REQUEST.size:
            raise RecordError(f"{end - place} bytes are left, and a request has {_REQUEST.size}")
        core, verb, a, b, size, room = _REQUEST.unpack_from(message, place)
        place += _REQUEST.size
        if size > end - place or size > BUFFER_BYTES or room > BUFFER_BYTES:
            raise RecordError(f"a request of {size} bytes with room for {room}; {end - place} bytes are left")
        if (known := _VERBS.get(verb & ~POSTED)) is None:
            raise RecordError(f"there is no verb {verb & ~POSTED}")
        data = bytes(message[place : place + size]) if size else b""
        requests.append(Request(core, known, a, b, data, room, verb >= POSTED))
        place += size + 3 & ~3
    return requests


def result(core: int, value: int, tick: int, data: bytes = b"", *, time_stands: bool = False) -> bytes:
    """Return the record that gives a core the result of its verb; `tick` is the reference clock.

    With `time_stands` the core's next read of the clock counts as one more of the same loop.
    """
    record = _RESULT.pack(core, value & 0xFFFFFFFF, tick & 0xFFFFFFFF, time_stands, len(data))
    return record + data + bytes(-len(data) % 4) if data else record


def start(
    core: int, function: int, tick: int, arguments: list[tuple[int, int]], logical_core: int = 0
) -> bytes:
    """Return the record that starts a function on a free core, with up to eight arguments.

    Each of `arguments` is a word, and the destination where it is a channel end that has one, else 0.
    `logical_core` is the number of the core that runs it.
    """
    pairs = [*arguments, *[(0, 0)] * (START_ARGUMENTS - len(arguments))]
    words = (*sum(pairs, ()), logical_core)
    return result(core | START, function, tick, struct.pack(f"<{len(words)}I", *words))


def interrupt(core: int, tick: int, callback: int, argument: int) -> bytes:
    """Return the record that runs a callback, by its address, on the core of a coroutine."""
    return result(core + CALLBACKS | INTERRUPT, 0, tick, struct.pack("<QQ", callback, argument))


class BusyReport(Struct, frozen=True):
    """A core that runs for long without a verb."""

    core: int
    """Number of the coroutine."""
    seconds: float
    """CPU time since its last verb."""
    frames: tuple[int, ...]

    @classmethod
    def from_memory(cls, memory: memoryview) -> "BusyReport":
        """Read the report that the memory holds."""
        core, milliseconds, count = struct.unpack_from("<III", memory, BUSY_REPORT)
        frames = struct.unpack_from(f"<{min(count, _MOST_FRAMES)}Q", memory, BUSY_REPORT + 16)
        return cls(core, milliseconds / 1000, frames)


class Place(Struct, frozen=True):
    """Where a core is: addresses of its code, innermost first, and what is to be said of it."""

    frames: tuple[int, ...]
    text: str

    @classmethod
    def from_bytes(cls, data: bytes) -> "Place":
        """Read a place. Raises RecordError."""
        if len(data) < _PLACE.size or len(data) < _PLACE.size + 8 * (count := _PLACE.unpack_from(data)[0]):
            raise RecordError(f"{len(data)} bytes are no place of a core")
        frames = struct.unpack_from(f"<{count}Q", data, _PLACE.size)
        return cls(frames, data[_PLACE.size + 8 * count :].decode(errors="replace"))


def header() -> str:
    """Return `verbs.h`, which tells a program of all this."""
    numbers = {
        "VERSION": VERSION,
        "BUFFER_BYTES": BUFFER_BYTES,
        "HALF_BYTES": HALF_BYTES,
        "REQUESTS": REQUESTS,
        "RESULTS": RESULTS,
        "SHARED_BYTES": SHARED_BYTES,
        "SAYS_REQUESTS": SAYS_REQUESTS,
        "SAYS_BUSY": SAYS_BUSY,
        "SAYS_EXIT": SAYS_EXIT,
        "EXIT_CODE": EXIT_CODE,
        "LOST_PIPE": LOST_PIPE,
        "BUSY_REPORT": BUSY_REPORT,
        "POSTED": POSTED,
        "MOST_POSTED": MOST_POSTED,
        "START": START,
        "ASK_WHERE": ASK_WHERE,
        "INTERRUPT": INTERRUPT,
        "CALLBACKS": CALLBACKS,
        "START_ARGUMENTS": START_ARGUMENTS,
        "XUD_VERB_UPDATE": XUD_VERB_UPDATE,
        "XUD_VERB_ERROR": XUD_VERB_ERROR,
        **{f"VERB_{verb.name}": verb.value for verb in Verb},
        "LARGEST_RECORD": LARGEST_RECORD,
        **{f"FORM_{form.name}": form.value for form in RecordForm},
        **{f"CONTROL_{control.name}": control.value for control in XscopeControl},
        **{f"COMMAND_{command.name}": command.value for command in Command},
        **{f"TRAP_{kind.name}": kind.value for kind in TrapKind},
        **{f"TRAP_OF_{scope.name}": scope.value for scope in TrapScope},
    }
    lines = [f"#define {name} {number}" + "u" * (number >= 1 << 31) for name, number in numbers.items()]
    return "\n".join(("/* Made from aisrv/addons/firmware/records.py. */", *lines, _STRUCTURES))


_STRUCTURES: Final = """
#include <stdint.h>
typedef struct { uint16_t core, verb; uint32_t a, b, bytes, room; } request_t;
typedef struct { uint32_t core, value, tick, time_stands, bytes; } result_t;
typedef struct { void *function; int is_main; } runtime_task_t;
extern const runtime_task_t runtime_tasks[];
"""
