"""The data task: both dialects at every size, failures, wrong packets, several engines."""

import logging

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import TransferFailed
from phy.usb.urb import TransferStatus
from tests.support.benches.scripted_engine import (
    BAD_CMD,
    CLASSIC,
    DESIGN,
    DIALECTS,
    MODEL_ERR,
    OKAY,
    Recorded,
    ScriptedDevice,
    command_packet,
    usb_device,
)
from tests.support.benches.simulation import simulated
from tests.support.peers.usb_host import In, Out, pattern

GET_ID, GET_OUTPUT, SET_INPUT, START_INFER = 0x10, 0x05, 0x83, 0x84
ID = bytes.fromhex("78563412")
OUT, IN = 0x01, 0x81
SIZES = (0, 1, 3, 4, 511, 512, 513, 1024, 65535, 65536, 65537, 66048, 100_000)
"""Around packets of 512 bytes and around the bursts of 128 packets in which the task passes data on."""


def ends_of(*requests: Out | In) -> list[list[tuple[TransferStatus, object]]]:
    return [[*request.ended] for request in requests]


async def assert_still_right(device: ScriptedDevice) -> None:
    """The device answers the next commands of both dialects as if nothing had been."""
    device.engine.answers[GET_ID] = ID
    before = len(device.engine.commands)
    for dialect in DIALECTS:
        assert await device.get(dialect, GET_ID, tensor=1) == ID
        assert await device.set(dialect, SET_INPUT, pattern(1025), tensor=2) == OKAY
    expected = [Recorded(GET_ID, 1), Recorded(SET_INPUT, 2, pattern(1025))] * 2
    await wait_all_tasks_blocked()
    assert device.engine.commands[before:] == expected


# Sizes.


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("size", SIZES)
async def test_set_reaches_the_engine_whole(dialect: str, size: int) -> None:
    async with usb_device() as device:
        assert await device.set(dialect, SET_INPUT, pattern(size), tensor=7) == OKAY
        await wait_all_tasks_blocked()
        assert device.engine.commands == [Recorded(SET_INPUT, 7, pattern(size))]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("size", SIZES)
async def test_get_reaches_the_host_whole(dialect: str, size: int) -> None:
    async with usb_device() as device:
        device.engine.answers[GET_OUTPUT] = pattern(size)
        assert await device.get(dialect, GET_OUTPUT, tensor=7) == pattern(size)
        assert device.engine.commands == [Recorded(GET_OUTPUT, 7)]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_set_data_may_come_in_many_requests(dialect: str) -> None:
    data = pattern(5000)
    async with usb_device() as device:
        await device.host.write(command_packet(dialect, SET_INPUT))
        for start, end in [(0, 512), (512, 2048), (2048, 4608), (4608, 5000)]:
            assert await device.host.write(data[start:end]) == end - start
        await wait_all_tasks_blocked()
        assert device.engine.commands == [Recorded(SET_INPUT, 0, data)]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_set_data_may_arrive_in_any_pieces(dialect: str) -> None:
    data = pattern(1501)
    async with usb_device() as device:
        await device.host.write(command_packet(dialect, SET_INPUT))
        request = Out(device.bus.out_endpoint, length=len(data))
        for start, end in [(0, 1), (1, 511), (511, 513), (513, 1300), (1300, 1501)]:
            await wait_all_tasks_blocked()
            assert request.ended == []
            request.feed(data[start:end])
        await wait_all_tasks_blocked()
        assert request.ended == [(TransferStatus.OKAY, 1501)]
        assert device.engine.commands == [Recorded(SET_INPUT, 0, data)]


async def test_get_data_may_be_fetched_in_many_requests() -> None:
    async with usb_device() as device:
        device.engine.answers[GET_OUTPUT] = pattern(5000)
        await device.host.write(command_packet(CLASSIC, GET_OUTPUT))
        parts = [await device.host.read(length) for length in (512, 1536, 2560, 512)]
        assert [len(part) for part in parts] == [512, 1536, 2560, 392]
        assert b"".join(parts) == pattern(5000)


async def test_host_may_ask_for_the_answer_before_the_command() -> None:
    async with usb_device() as device:
        device.engine.answers[GET_ID] = ID
        read = In(device.bus.in_endpoint, 512)
        await device.host.write(command_packet(CLASSIC, GET_ID))
        await wait_all_tasks_blocked()
        assert read.ended == [(TransferStatus.OKAY, ID)]


async def test_design_status_is_a_packet_of_its_own_before_the_data() -> None:
    async with usb_device() as device:
        device.engine.answers[GET_ID] = ID
        reads = [In(device.bus.in_endpoint, 512), In(device.bus.in_endpoint, 512)]
        await device.host.write(command_packet(DESIGN, GET_ID))
        await wait_all_tasks_blocked()
        assert ends_of(*reads) == [[(TransferStatus.OKAY, bytes(4))], [(TransferStatus.OKAY, ID)]]


@pytest.mark.parametrize(
    ("dialect", "command", "tensor"),
    [(CLASSIC, 0x00, 0), (CLASSIC, 0x7F, 255), (DESIGN, 0x123, 0), (DESIGN, 0x7FFFFF7F, 0xFFFFFFFF)],
)
async def test_unknown_commands_and_any_tensor_number_go_to_the_engine(
    dialect: str, command: int, tensor: int
) -> None:
    async with usb_device() as device:
        assert await device.get(dialect, command, tensor=tensor) == b""
        assert device.engine.commands == [Recorded(command, tensor)]


@pytest.mark.parametrize(("dialect", "command"), [(CLASSIC, 0x80), (CLASSIC, 0xFF), (DESIGN, 0x180)])
async def test_bit_7_of_any_code_says_that_data_come(dialect: str, command: int) -> None:
    async with usb_device() as device:
        assert await device.set(dialect, command, b"data") == OKAY
        await wait_all_tasks_blocked()
        assert device.engine.commands == [Recorded(command, 0, b"data")]


# While an engine works.


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_next_command_waits_while_the_engine_works(dialect: str) -> None:
    async with usb_device() as device:
        device.engine.answers[GET_ID] = ID
        device.engine.hold()
        await device.host.write(command_packet(dialect, START_INFER))
        await device.host.write(b"")
        reads = [In(device.bus.in_endpoint, 512) for _ in range(2 if dialect == DESIGN else 1)]
        following = Out(device.bus.out_endpoint, command_packet(CLASSIC, GET_ID))
        await wait_all_tasks_blocked()
        assert (following.ended, device.engine.commands) == ([], [Recorded(START_INFER, 0, b"")])
        device.engine.release()
        await wait_all_tasks_blocked()
        assert following.ended == [(TransferStatus.OKAY, 3)]
        assert reads[-1].ended == [(TransferStatus.OKAY, ID)]


async def test_command_taken_back_while_the_engine_works_is_never_carried_out() -> None:
    async with usb_device() as device:
        device.engine.hold()
        await device.host.write(command_packet(CLASSIC, START_INFER))
        await device.host.write(b"")
        with trio.move_on_after(0):
            await device.host.write(command_packet(CLASSIC, GET_ID))
        device.engine.release()
        await wait_all_tasks_blocked()
        assert device.engine.commands == [Recorded(START_INFER, 0, b"")]
        await assert_still_right(device)


async def test_answer_waits_for_a_host_that_took_its_request_back() -> None:
    async with usb_device() as device:
        device.engine.answers[GET_ID] = ID
        device.engine.hold()
        await device.host.write(command_packet(CLASSIC, GET_ID))
        early = In(device.bus.in_endpoint, 512)
        await wait_all_tasks_blocked()
        assert device.bus.unlink(early.request)
        device.engine.release()
        await wait_all_tasks_blocked()
        assert await device.host.read(512) == ID
        assert early.ended == []


# Failures.


@pytest.mark.parametrize("status", [0x01, 0x04, MODEL_ERR, 0x10, BAD_CMD, 0x2C])
async def test_design_answers_the_status_of_a_set_and_never_halts(status: int) -> None:
    async with usb_device() as device:
        device.engine.statuses[SET_INPUT] = status
        assert await device.set(DESIGN, SET_INPUT, pattern(513)) == status
        assert (device.bus.out_endpoint.halted, device.bus.in_endpoint.halted) == (False, False)
        device.engine.statuses.clear()
        await assert_still_right(device)


async def test_design_sends_no_data_after_the_failure_of_a_get() -> None:
    async with usb_device() as device:
        device.engine.statuses[GET_OUTPUT] = MODEL_ERR
        device.engine.answers[GET_ID] = ID
        await device.host.write(command_packet(DESIGN, GET_OUTPUT))
        assert await device.host.read(512) == bytes((MODEL_ERR, 0, 0, 0))
        assert (device.bus.out_endpoint.halted, device.bus.in_endpoint.halted) == (False, False)
        assert await device.get(DESIGN, GET_ID) == ID


async def fail_classic(device: ScriptedDevice, command: int) -> None:
    """Carry out a classic command that fails."""
    device.engine.statuses[command] = MODEL_ERR
    await device.host.write(command_packet(CLASSIC, command))
    if command & 0x80:
        await device.host.write(pattern(513))
    await wait_all_tasks_blocked()
    device.engine.statuses.clear()


@pytest.mark.parametrize("command", [GET_OUTPUT, SET_INPUT])
async def test_classic_failure_halts_both_endpoints(command: int) -> None:
    async with usb_device() as device:
        read = In(device.bus.in_endpoint, 512)
        await fail_classic(device, command)
        assert (device.bus.out_endpoint.halted, device.bus.in_endpoint.halted) == (True, True)
        assert read.ended == [(TransferStatus.STALL, b"")]
        with pytest.raises(TransferFailed) as failure:
            await device.host.write(command_packet(CLASSIC, GET_ID))
        assert failure.value.status is TransferStatus.STALL


async def test_classic_failure_stalls_the_command_that_waits_already() -> None:
    async with usb_device() as device:
        device.engine.statuses[START_INFER] = MODEL_ERR
        device.engine.hold()
        await device.host.write(command_packet(CLASSIC, START_INFER))
        await device.host.write(b"")
        following = Out(device.bus.out_endpoint, command_packet(CLASSIC, GET_ID))
        device.engine.release()
        await wait_all_tasks_blocked()
        assert following.ended == [(TransferStatus.STALL, 0)]
        assert device.engine.commands == [Recorded(START_INFER, 0, b"")]


@pytest.mark.parametrize("command", [GET_OUTPUT, SET_INPUT])
async def test_no_command_between_the_clear_of_out_and_that_of_in(command: int) -> None:
    async with usb_device() as device:
        await fail_classic(device, command)
        device.engine.answers[GET_ID] = ID
        taken = list(device.engine.commands)
        await device.host.clear_halt(OUT)
        following = Out(device.bus.out_endpoint, command_packet(CLASSIC, GET_ID))
        await wait_all_tasks_blocked()
        assert (following.ended, device.engine.commands, device.bus.in_endpoint.halted) == ([], taken, True)
        await device.host.clear_halt(IN)
        assert await device.host.read(512) == ID
        assert following.ended == [(TransferStatus.OKAY, 3)]
        await assert_still_right(device)


@pytest.mark.parametrize("command", [GET_OUTPUT, SET_INPUT])
async def test_no_command_between_the_clear_of_in_and_that_of_out(command: int) -> None:
    async with usb_device() as device:
        await fail_classic(device, command)
        await device.host.clear_halt(IN)
        following = Out(device.bus.out_endpoint, command_packet(CLASSIC, GET_ID))
        read = In(device.bus.in_endpoint, 512)
        await wait_all_tasks_blocked()
        assert following.ended == [(TransferStatus.STALL, 0)]
        assert device.bus.unlink(read.request)
        await device.host.clear_halt(OUT)
        await assert_still_right(device)


async def test_clearing_one_halt_twice_is_not_clearing_both() -> None:
    async with usb_device() as device:
        await fail_classic(device, SET_INPUT)
        await device.host.clear_halt(IN)
        await device.host.clear_halt(IN)
        await wait_all_tasks_blocked()
        assert (device.bus.out_endpoint.halted, device.bus.in_endpoint.halted) == (True, False)


async def test_halt_set_by_the_host_ends_with_its_clear() -> None:
    async with usb_device() as device:
        device.bus.out_endpoint.halt()
        device.bus.in_endpoint.halt()
        await device.host.clear_halt(OUT)
        await device.host.clear_halt(IN)
        await assert_still_right(device)


# Packets that are not commands.


@pytest.mark.parametrize("length", [0, 2, 4, 11, 13, 511, 512])
async def test_packet_of_another_length_is_ignored_and_logged(
    length: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "phy.usb.data_task"):
        async with usb_device() as device:
            assert await device.host.write(b"\x83" * length) == length
            await wait_all_tasks_blocked()
            assert device.engine.commands == []
            assert (device.bus.out_endpoint.halted, device.bus.in_endpoint.pending) == (False, 0)
            await assert_still_right(device)
    assert caplog.messages == [f"usb: packet ignored: a command packet has 1, 3 or 12 bytes, not {length}"]


@simulated
async def test_ignored_packets_are_counted_and_logged_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    async with usb_device() as device:
        await device.host.write(bytes(1024 + 10))
        await assert_still_right(device)
        await trio.sleep(0.99)
        await device.host.write(bytes(11))
        await wait_all_tasks_blocked()
        assert len(caplog.messages) == 1
        await trio.sleep(0.01)
        await device.host.write(bytes(13))
        await assert_still_right(device)
    wrong = "usb: packet ignored: a command packet has 1, 3 or 12 bytes, not"
    assert caplog.messages == [f"{wrong} 512", f"{wrong} 13; 3 more since the last line"]


# The early framing: a command packet is the command alone.


async def test_early_hosts_send_the_command_alone() -> None:
    data = pattern(1025)
    async with usb_device(engines=2) as device:
        device.engine.answers[GET_ID] = ID
        await device.host.write(bytes((GET_ID,)))
        assert await device.host.read(512) == ID
        await device.host.write(bytes((SET_INPUT,)))
        await device.host.write(data, zero_packet=True)
        await device.host.write(bytes((START_INFER,)))
        await device.host.write(b"", zero_packet=True)
        await wait_all_tasks_blocked()
        await assert_still_right(device)
        expected = [Recorded(GET_ID, 0), Recorded(SET_INPUT, 0, data), Recorded(START_INFER, 0, b"")]
        assert device.engine.commands[:3] == expected


async def test_the_failure_of_an_early_command_halts_both_endpoints() -> None:
    async with usb_device() as device:
        device.engine.statuses[GET_OUTPUT] = MODEL_ERR
        await device.host.write(bytes((GET_OUTPUT,)))
        with pytest.raises(TransferFailed):
            await device.host.read(512)
        assert (device.bus.out_endpoint.halted, device.bus.in_endpoint.halted) == (True, True)
        await device.host.clear_halt(OUT)
        await device.host.clear_halt(IN)
        await assert_still_right(device)


# Engines by number.


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_engine_number_chooses_the_engine(dialect: str) -> None:
    async with usb_device(engines=2) as device:
        device.engines[0].answers[GET_ID], device.engines[1].answers[GET_ID] = b"zero", b"one"
        assert await device.get(dialect, GET_ID, engine=1) == b"one"
        assert await device.get(dialect, GET_ID, engine=0) == b"zero"
        await device.set(dialect, SET_INPUT, b"data", engine=1, tensor=3)
        await wait_all_tasks_blocked()
        assert device.engines[0].commands == [Recorded(GET_ID, 0)]
        assert device.engines[1].commands == [Recorded(GET_ID, 0), Recorded(SET_INPUT, 3, b"data")]


ABSENT = [(CLASSIC, 2), (CLASSIC, 255), (DESIGN, 2), (DESIGN, 0x100), (DESIGN, 0xFFFFFFFF)]


@pytest.mark.parametrize(("dialect", "engine"), ABSENT)
@pytest.mark.parametrize("size", [0, 3, 12, 512, 100_000])
async def test_set_for_an_engine_that_is_not_there_drains_its_data(
    dialect: str, engine: int, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with usb_device(engines=2) as device:
        status = await device.set(dialect, SET_INPUT, pattern(size), engine=engine)
        await wait_all_tasks_blocked()
        halted = dialect == CLASSIC
        assert (status, device.bus.out_endpoint.halted, device.bus.in_endpoint.halted) == (
            0 if halted else BAD_CMD,
            halted,
            halted,
        )
        for endpoint in (OUT, IN):
            await device.host.clear_halt(endpoint)
        assert [each.commands for each in device.engines] == [[], []]
        await assert_still_right(device)
    assert caplog.messages == [f"usb: command 0x83 for engine {engine}, there are 2"]


@pytest.mark.parametrize(("dialect", "engine"), ABSENT)
async def test_get_from_an_engine_that_is_not_there(dialect: str, engine: int) -> None:
    async with usb_device(engines=2) as device:
        await device.host.write(command_packet(dialect, GET_ID, engine))
        if dialect == DESIGN:
            assert await device.host.read(512) == bytes((BAD_CMD, 0, 0, 0))
            assert not device.bus.out_endpoint.halted
        else:
            with pytest.raises(TransferFailed, match=r"^the transfer ended with a stall"):
                await device.host.read(512)
            for endpoint in (OUT, IN):
                await device.host.clear_halt(endpoint)
        assert [each.commands for each in device.engines] == [[], []]
        await assert_still_right(device)
