"""Which packets open commands, against a data task that takes them one by one."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.monitor.command_stream import CommandStream, aisrv_framing, ioserver_framing

PACKET = 512
GET, SET, UNKNOWN_GET, UNKNOWN_SET = b"\x05\0\0", b"\x83\0\0", b"\x7f\0\0", b"\xff\0\0"
DESIGN_GET, DESIGN_SET = b"\x05" + bytes(11), b"\x83" + bytes(11)
INVOKE, READ, WRITE, RESET = b"\x01\0\0", b"\x02\0\0", b"\x03\0\0", b"\x07\0\0"


def follow(stream: CommandStream, data: bytes, *, zero_packet: bool = False) -> int:
    """Let a request be taken whole; the number of commands so far."""
    last = len(data) % PACKET
    ended = bool(last) or not data or zero_packet
    stream.transfer(len(data), data[len(data) - last :] if ended else None)
    return stream.commands


@pytest.mark.parametrize("command", [GET, UNKNOWN_GET, DESIGN_GET])
def test_commands_without_data_follow_each_other(command: bytes) -> None:
    stream = CommandStream(aisrv_framing)
    assert [follow(stream, command) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("command", [SET, UNKNOWN_SET, DESIGN_SET])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 12, 511, 513, 515, 1027])
def test_data_of_a_set_are_no_command_whatever_their_length(command: bytes, size: int) -> None:
    stream = CommandStream(aisrv_framing)
    assert [follow(stream, each) for each in (command, GET[:1] * size, GET)] == [1, 1, 2]


@pytest.mark.parametrize("size", [512, 1024])
def test_data_of_whole_packets_go_on_to_the_short_one(size: int) -> None:
    stream = CommandStream(aisrv_framing)
    sent = [SET, bytes(size), GET, GET]
    assert [follow(stream, each) for each in sent] == [1, 1, 1, 2]
    follow(stream, SET)
    assert follow(stream, bytes(size), zero_packet=True) == 3
    assert follow(stream, GET) == 4


@pytest.mark.parametrize("size", [0, 2, 4, 11, 13, 511, 512, 514, 1024])
def test_packets_of_other_lengths_open_no_command(size: int) -> None:
    stream = CommandStream(aisrv_framing)
    assert [follow(stream, SET[:1] * size), follow(stream, GET)] == [0, 1]


def test_command_behind_ignored_packets_of_one_request_counts() -> None:
    assert follow(CommandStream(aisrv_framing), bytes(1024) + GET) == 1


def test_reset_ends_the_data_of_a_set() -> None:
    stream = CommandStream(aisrv_framing)
    follow(stream, SET)
    stream.restart()
    assert follow(stream, GET) == 2


def test_request_that_is_not_taken_whole_ends_no_data() -> None:
    stream = CommandStream(aisrv_framing)
    follow(stream, SET)
    stream.transfer(1024, None)
    assert [follow(stream, each) for each in (GET, GET)] == [1, 2]


@pytest.mark.parametrize(
    ("sent", "commands"),
    [
        ([INVOKE, b"", READ], 2),
        ([INVOKE, READ, READ], 2),  # the packet after INVOKE is dropped, whatever it is
        ([INVOKE, bytes(512), READ], 2),
        ([INVOKE, bytes(512) + READ], 2),
        ([WRITE, bytes(512), READ, READ], 2),
        ([WRITE, bytes(515), READ], 2),
        ([RESET, b"", READ], 2),
        ([b"\x85\0\0", b"\x85\0\0"], 2),  # bit 7 means nothing here
        ([DESIGN_GET], 0),
    ],
)
def test_commands_of_ioserver(sent: list[bytes], commands: int) -> None:
    stream = CommandStream(ioserver_framing)
    for each in sent:
        follow(stream, each)
    assert stream.commands == commands


def packets_of(requests: list[bytes]) -> Iterator[bytes]:
    for data in requests:
        yield from (data[at : at + PACKET] for at in range(0, len(data), PACKET))
        if not data:
            yield b""


def count_packet_by_packet(requests: list[bytes]) -> int:
    """The AI server's protocol with one packet at a time."""
    packets = packets_of(requests)
    commands = 0
    for packet in packets:
        if len(packet) in (1, 3, 12):
            commands += 1
            while packet[0] & 0x80 and len(next(packets, b"")) == PACKET:
                pass
    return commands


REQUESTS = st.lists(
    st.one_of(
        st.sampled_from([GET, SET, DESIGN_GET, DESIGN_SET]),
        st.builds(bytes, st.sampled_from([0, 1, 3, 12, 511, 512, 513, 515, 524, 1024])),
        st.builds(
            lambda packets, end: bytes(PACKET * packets) + end, st.integers(1, 3), st.sampled_from([GET, SET])
        ),
    ),
    max_size=12,
)


@given(requests=REQUESTS)
def test_counts_what_a_data_task_takes(requests: list[bytes]) -> None:
    stream = CommandStream(aisrv_framing)
    for data in requests:
        follow(stream, data)
    assert stream.commands == count_packet_by_packet(requests)
