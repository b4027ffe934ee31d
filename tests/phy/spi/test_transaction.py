"""A transaction by itself: what each command makes of its bytes, however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import Spi, Status, commands_of
from phy.spi.shared_memory import SharedMemory
from phy.spi.transaction import SpiTransaction
from tests.support.benches import spi_master as spi
from tests.support.peers.usb_host import pattern

SPEC_WORDS = spi.SPEC + bytes(4)
ANSWERS = {
    spi.GET_STATUS: bytes((0x24, 0, 0, 0)),
    spi.GET_ID: spi.ID,
    spi.GET_SPEC: SPEC_WORDS,
    spi.GET_TIMINGS: spi.TIMINGS,
    spi.GET_OUTPUT: spi.OUTPUT,
    spi.GET_DEBUG_LOG: spi.LOG,
}
QUIET = (0x00, 0x55, 0xAA, 0xAB)
ACTIONS = (0x04, 0x83, 0x84, 0x86, 0x87, 0x8C)
OURS = commands_of(Spi.READ) - set(ANSWERS)
UNKNOWN = sorted(set(range(256)) - set(ANSWERS) - set(QUIET) - set(ACTIONS) - OURS)


def memory(status: int = 0x24) -> SharedMemory:
    return SharedMemory(Status(status), {**ANSWERS})


def clock(shared: SharedMemory, mosi: bytes) -> tuple[bytes, int | None]:
    transaction = SpiTransaction(shared)
    return transaction.shift(mosi), transaction.deselect()


# Reads.


@pytest.mark.parametrize("command", ANSWERS, ids=hex)
def test_what_the_master_sends_beside_a_read_does_not_matter(command: int) -> None:
    answer = ANSWERS[command]
    assert clock(memory(), bytes((command,)) + b"\x86" * (2 + len(answer))) == (bytes(3) + answer, None)


@pytest.mark.parametrize("command", ANSWERS, ids=hex)
@pytest.mark.parametrize("beyond", [0, 1, 3, 512, 1024])
def test_read_answers_after_two_dummy_bytes_and_then_zeros(command: int, beyond: int) -> None:
    answer = ANSWERS[command]
    mosi = bytes((command,)) + bytes(2 + len(answer) + beyond)
    assert clock(memory(), mosi) == (bytes(3) + answer + bytes(beyond), None)


@pytest.mark.parametrize("command", ANSWERS, ids=hex)
def test_read_before_the_buffer_knows_anything_brings_zeros(command: int) -> None:
    assert clock(SharedMemory(), bytes((command,)) + bytes(34)) == (bytes(35), None)


def test_read_keeps_the_answer_of_its_first_data_byte() -> None:
    shared = memory()
    transaction = SpiTransaction(shared)
    miso = transaction.shift(bytes((spi.GET_OUTPUT, 0, 0)))
    shared.answers[spi.GET_OUTPUT] = b"abcdef"
    miso += transaction.shift(bytes(3))
    shared.answers[spi.GET_OUTPUT] = b"uvwxyz"
    assert miso + transaction.shift(bytes(4)) == bytes(3) + b"abcdef" + bytes(1)


# The status.


@pytest.mark.parametrize(("size", "left"), [(0, 0x27), (1, 0x27), (2, 0x27), (3, 0x27), (4, 0x03), (7, 0x03)])
def test_status_loses_its_error_bits_once_a_data_byte_was_clocked(size: int, left: int) -> None:
    shared = memory(0x27)
    clock(shared, bytes((spi.GET_STATUS,) * size))
    assert shared.status == left


def test_error_that_comes_while_the_status_is_read_stays() -> None:
    shared = memory(0x04)
    transaction = SpiTransaction(shared)
    miso = transaction.shift(bytes((spi.GET_STATUS, 0, 0, 0)))
    shared.status |= Status.ERROR_INFER_ERR
    assert (miso + transaction.shift(bytes(3)), shared.status) == (bytes((0, 0, 0, 4, 0, 0, 0)), 0x10)


@pytest.mark.parametrize("command", [each for each in ANSWERS if each != spi.GET_STATUS], ids=hex)
def test_other_reads_leave_the_status(command: int) -> None:
    shared = memory(0x26)
    clock(shared, bytes((command,)) + bytes(34))
    assert shared.status == 0x26


# Writes and bare commands.


@pytest.mark.parametrize("command", ACTIONS, ids=hex)
@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024])
def test_write_leaves_a_block_of_512_bytes_at_most(command: int, size: int) -> None:
    shared = memory(0)
    block = pattern(size)
    assert clock(shared, bytes((command,)) + block) == (bytes(1 + size), command)
    assert (shared.block, shared.block_length, shared.status) == (block[:512], size, 0x01)


def test_write_acts_at_chip_select_high_only() -> None:
    shared = memory(0)
    SpiTransaction(shared).shift(bytes((spi.SET_INPUT,)) + pattern(100))
    assert shared == memory(0)


# What does nothing, and what is refused.


@pytest.mark.parametrize("status", [0x00, 0x01, 0x26])
@pytest.mark.parametrize("command", QUIET, ids=hex)
@pytest.mark.parametrize("size", [1, 2, 4, 600])
def test_hello_and_none_have_no_effect(command: int, status: int, size: int) -> None:
    shared = memory(status)
    assert clock(shared, bytes((command,)) * size) == (bytes(size), None)
    assert shared == memory(status)


def test_transaction_of_no_bytes_does_nothing() -> None:
    shared = memory(0)
    assert clock(shared, b"") == (b"", None)
    assert shared == memory(0)


@pytest.mark.parametrize("command", UNKNOWN, ids=hex)
def test_command_that_the_wire_does_not_have_is_refused(command: int) -> None:
    shared = memory(0)
    assert clock(shared, bytes((command,)) + pattern(600)) == (bytes(601), None)
    assert shared == memory(spi.BAD_CMD)


@pytest.mark.parametrize(
    "command", [each for each in range(256) if each not in (*QUIET, spi.GET_STATUS)], ids=hex
)
def test_while_busy_everything_but_the_status_is_refused(command: int) -> None:
    shared = memory(0x03)
    assert clock(shared, bytes((command,)) + pattern(40)) == (bytes(41), None)
    assert shared == memory(0x23)


class Log:
    """A debug log of lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        self.lines.append(text)

    def __bytes__(self) -> bytes:
        return "\n".join(self.lines).encode()


@pytest.mark.parametrize(
    ("command", "status", "reason"),
    [(0x7F, 0, "SPI has no such command"), (0x86, 1, "the device is busy")],
)
def test_a_refusal_leaves_a_line_in_the_debug_log(command: int, status: int, reason: str) -> None:
    shared = memory(status)
    shared.log = Log()
    clock(shared, bytes((command,)))
    line = f"SPI: command 0x{command:02x} refused: {reason}".encode()
    assert (bytes(shared.log), shared.answers[spi.GET_DEBUG_LOG]) == (line, line)


# However the bytes are cut.

ANY_BYTES = st.one_of(
    st.binary(max_size=20),
    st.tuples(st.sampled_from([*ANSWERS, *QUIET, *ACTIONS]), st.integers(0, 40)).map(
        lambda each: bytes((each[0],)) + pattern(each[1])
    ),
)


@given(ANY_BYTES, st.lists(st.integers(0, 45), max_size=6), st.sampled_from([0, 1, 2, 0x24, 0x3F]))
def test_the_cuts_of_a_transaction_do_not_matter(mosi: bytes, cuts: list[int], status: int) -> None:
    whole, pieces = memory(status), memory(status)
    transaction = SpiTransaction(pieces)
    miso = b"".join(transaction.shift(each.mosi) for each in spi.cut(mosi, *sorted(cuts)))
    assert (miso, transaction.deselect()) == clock(whole, mosi)
    assert pieces == whole


@given(st.sampled_from(list(ANSWERS)), st.integers(0, 60))
def test_data_byte_i_of_the_answer_is_byte_i_plus_3_of_the_transaction(command: int, size: int) -> None:
    answer = dict(enumerate(ANSWERS[command], start=3))
    miso, _ = clock(memory(), bytes((command,)) + bytes(size))
    assert list(miso) == [answer.get(i, 0) for i in range(1 + size)]
