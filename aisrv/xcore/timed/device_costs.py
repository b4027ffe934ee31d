"""What communication takes on the chip, in issue slots, clocks of a core or ticks of 10 ns, with the basis.

"Facts" names a published source. "Estimate" stands where nobody published a figure: the architecture of the
switch is known, its latency is not.
"""

from fractions import Fraction
from typing import Final

TICK_HZ: Final = 100_000_000
"""Ticks of 10 ns in a second."""
ISSUE_SLOTS: Final = 5
"""Clocks between two instructions of a core, however few run (XS3 architecture)."""

TOKEN_SLOTS: Final = 2
"""A lone token or word: an instruction on either side."""
WORD_SLOTS: Final = 4
"""A word of a run, or a byte of its tail: `in, out, sub, bt` (lib_tflite_micro, fast_flash_read_loop.S)."""
CONTROL_SLOTS: Final = 1
"""A control token of a run, such as the END of an array."""
NORMAL_WORD_SLOTS: Final = 10
"""A word with its handshake (`chan_out_word`)."""
STATUS_SLOTS: Final = 5
"""The status of a SET: a word and END."""

RESOURCE_SLOTS: Final = 1
"""Estimate: an instruction on a lock, a synchronizer or a timer, `setd`, `getr`, a select."""
DEFAULT_CASE_SLOTS: Final = 5
"""Estimate: the default case of a select, with the loop around it."""
JOB_SLOTS: Final = 20
"""Estimate: the start of a job on a core of its own, as by `par`."""

INTERRUPT_ENTER_SLOTS: Final = 14
INTERRUPT_LEAVE_SLOTS: Final = 8
"""Before and after the function of a callback: the instructions of lib_xcore's wrapper, `kentsp` to `kret`
(McCrea/lib_xcore_c 6c784a2, xcore_interrupt_wrappers_impl.h and xcore_c_interrupt.S). What the chip itself
takes until the first of them is not published, and counted as nothing."""

ROUTE_CLOCKS: Final = 48
"""A route opened to the other tile. Estimate: no latency of the switch is published."""
NORMAL_WORD_ROUTES: Final = 4
ARRAY_ROUTES: Final = 2
STATUS_ROUTES: Final = 1
"""Routes that a normal word, an array and a status open."""

USB_TURN_TICKS: Final = 830
"""After each packet, until the task or the endpoint has it. Estimate: 498 clocks of 60 MHz, which XUD takes
from an OUT to an IN packet of one task (lib_xud, tests/test_iso_loopback.py)."""
SPI_CLOCK_HZ: Final = 10_000_000
"""Clock of a master that states none. Decision."""
SPI_IDLE_TICKS: Final = 20
SPI_SETUP_TICKS: Final = 10
SPI_HOLD_TICKS: Final = 10
"""Chip select high before a transaction, low before its first clock and after its last: the least."""
JACDAC_BYTE_TICKS: Final = 1_000
"""A byte on a Jacdac bus: 10 bits at 1 Mbaud (Jacdac's protocol)."""
I2C_WRITE_TICKS: Final = 29_000
"""The write of a sensor's register: 29 bits at 100 kbit/s. Estimate: its clock is not published."""
GRAPH_PASS_SLOTS: Final = 20
"""Estimate: a pass of a graph's interpreter."""
GRAPH_CALL_SLOTS: Final = 20
"""Estimate: a call of a node in a pass. Each word that the node takes or gives is `WORD_SLOTS` besides."""
LOAD_TICKS: Final = 5760
"""Initialization and planning of a model, for each operator. Estimate: (99,717 + 171,000) ticks of vww with
47 operators (XMOS ai_tools, app_profiling README)."""


def word_run_slots(nbytes: int) -> int:
    """Slots of the data of an array: whole words, then bytes."""
    words, tail = divmod(nbytes, 4)
    return WORD_SLOTS * (words + tail)


def usb_transaction_ticks(nbytes: int) -> int:
    """Ticks of a bulk transaction of up to 512 bytes on a high-speed bus that is always busy.

    55 bytes of overhead, and 13 such transactions in a microframe of 7,500 bytes (USB 2.0, table 5-10); the
    rest of the microframe is spread over them.
    """
    return -(-(nbytes + 65) * 5 // 3)


def usb_control_ticks(nbytes: int) -> int:
    """Ticks of a control transfer with `nbytes` of data, and a turn for each stage.

    173 bytes are overhead (USB 2.0, section 5.5.4).
    """
    return -(-(nbytes + 173) * 5 // 3) + 3 * USB_TURN_TICKS


def spi_byte_ticks(clock_hz: int) -> Fraction:
    """Ticks of a byte on SPI at a clock."""
    return Fraction(8 * TICK_HZ, clock_hz)


def spi_transaction_ticks(nbytes: int, clock_hz: int) -> Fraction:
    """Ticks of a transaction: idle and chip select at its least lengths, 400 ns in all, and its bytes."""
    chip_select = SPI_IDLE_TICKS + SPI_SETUP_TICKS + SPI_HOLD_TICKS
    return chip_select + nbytes * spi_byte_ticks(clock_hz)


def graph_pass_slots(calls: int, nbytes: int) -> int:
    """Slots of a pass of a graph's interpreter, in which nodes were called and moved bytes in or out."""
    return GRAPH_PASS_SLOTS + GRAPH_CALL_SLOTS * calls + WORD_SLOTS * -(-nbytes // 4)
