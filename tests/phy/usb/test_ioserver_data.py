"""The ioserver data task: every size, several models, failures and recovery, wrong packets, resets."""

import logging
from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import TransferFailed
from phy.usb.ioserver_data import UsbIoserver
from phy.usb.urb import TransferStatus
from tests.support.benches.scripted_engine import BAD_CMD, Recorded, ScriptedDevice, usb_device
from tests.support.peers.usb_host import In, Out, pattern

INVOKE, READ, WRITE, RESET, EXIT = 1, 2, 3, 7, 8
GET_LENGTH, GET_OUTPUT, SET_INPUT, START_INFER, RESET_VARIABLES = 0x0A, 0x05, 0x83, 0x84, 0x180
INFER_ERR = 0x10
OUT, IN = 0x01, 0x81
SIZES = (1, 3, 4, 5, 511, 512, 513, 1024, 65535, 65536, 65537, 100_000)
"""Around packets of 512 bytes and around the bursts of 128 packets in which the task passes data on."""


ioserver_device = partial(usb_device, task=UsbIoserver)
"""The ioserver data task on tile 1 and a scripted engine for each model; configured."""


def has_input(device: ScriptedDevice, size: int, model: int = 0) -> None:
    device.engines[model].answers[GET_LENGTH] = size.to_bytes(4, "little")


async def send(device: ScriptedDevice, command: int, model: int = 0, tensor: int = 0) -> None:
    assert await device.host.write(bytes((command, model, tensor))) == 3


async def write_input(device: ScriptedDevice, data: bytes, *, model: int = 0, tensor: int = 0) -> None:
    """As hosts do: the data in one write, and where they fill their last packet an empty one."""
    await send(device, WRITE, model, tensor)
    await device.host.write(data)
    if len(data) % 512 == 0:
        await device.host.write(b"")


async def read_output(device: ScriptedDevice, *, model: int = 0, tensor: int = 0) -> bytes:
    """As hosts do: one packet at a time, up to the first that is not full."""
    await send(device, READ, model, tensor)
    data = part = await device.host.read(512)
    while len(part) == 512:
        part = await device.host.read(512)
        data += part
    return data


async def clear_both(device: ScriptedDevice) -> None:
    await device.host.clear_halt(OUT)
    await device.host.clear_halt(IN)


async def assert_still_right(device: ScriptedDevice) -> None:
    """The device does all a host wants as if nothing had been."""
    await wait_all_tasks_blocked()
    for engine in device.engines:
        engine.statuses.clear()
    has_input(device, 1025)
    device.engine.answers[GET_OUTPUT] = pattern(1024)
    before = len(device.engine.commands)
    await write_input(device, pattern(1025), tensor=1)
    await send(device, INVOKE)
    await device.host.write(b"")
    assert await read_output(device, tensor=2) == pattern(1024)
    assert device.engine.commands[before:] == [
        Recorded(GET_LENGTH, 1),
        Recorded(SET_INPUT, 1, pattern(1025)),
        Recorded(START_INFER, 0, b""),
        Recorded(GET_OUTPUT, 2),
    ]


# Sizes.


@pytest.mark.parametrize("size", SIZES)
async def test_input_reaches_the_engine_whole(size: int) -> None:
    async with ioserver_device() as device:
        has_input(device, size)
        await write_input(device, pattern(size), tensor=7)
        await wait_all_tasks_blocked()
        assert device.engine.commands == [Recorded(GET_LENGTH, 7), Recorded(SET_INPUT, 7, pattern(size))]


@pytest.mark.parametrize(("size", "padding"), [(1, 3), (3, 1), (5, 3), (511, 1), (1023, 1)])
async def test_input_may_be_padded_to_whole_words(size: int, padding: int) -> None:
    async with ioserver_device() as device:
        has_input(device, size)
        await write_input(device, pattern(size) + b"\xee" * padding)
        await assert_still_right(device)
        assert device.engine.commands[1] == Recorded(SET_INPUT, 0, pattern(size))


@pytest.mark.parametrize("size", [0, *SIZES])
async def test_output_reaches_the_host_in_whole_words(size: int) -> None:
    async with ioserver_device() as device:
        device.engine.answers[GET_OUTPUT] = pattern(size)
        assert await read_output(device, tensor=7) == pattern(size) + bytes(-size % 4)
        assert device.engine.commands == [Recorded(GET_OUTPUT, 7)]


@pytest.mark.parametrize("size", [508, 509, 511, 512])
async def test_output_that_fills_its_last_packet_ends_with_an_empty_one(size: int) -> None:
    async with ioserver_device() as device:
        device.engine.answers[GET_OUTPUT] = pattern(size)
        await send(device, READ)
        packets = [await device.host.read(512)]
        if len(packets[0]) == 512:
            packets.append(await device.host.read(512))
        assert [len(packet) for packet in packets] == ([508] if size == 508 else [512, 0])


async def test_input_may_come_in_many_requests() -> None:
    async with ioserver_device() as device:
        has_input(device, 5000)
        await send(device, WRITE)
        for start, end in [(0, 512), (512, 2048), (2048, 4608), (4608, 5000)]:
            await device.host.write(pattern(5000)[start:end])
        await assert_still_right(device)
        assert device.engine.commands[1] == Recorded(SET_INPUT, 0, pattern(5000))


# Commands.


@pytest.mark.parametrize("data", [b"", b"\0", b"\1\0\0", bytes(512)])
async def test_invoke_takes_one_packet_whatever_it_is(data: bytes) -> None:
    async with ioserver_device() as device:
        await send(device, INVOKE)
        await device.host.write(data)
        await assert_still_right(device)
        assert [each.command for each in device.engine.commands].count(START_INFER) == 2
        assert device.engine.commands[0] == Recorded(START_INFER, 0, b"")


async def test_next_command_waits_while_a_model_runs() -> None:
    async with ioserver_device() as device:
        device.engine.answers[GET_OUTPUT] = b"done"
        device.engine.hold()
        await send(device, INVOKE)
        await device.host.write(b"")
        command, answer = Out(device.bus.out_endpoint, bytes((READ, 0, 0))), In(device.bus.in_endpoint, 512)
        await wait_all_tasks_blocked()
        assert (command.ended, answer.ended) == ([], [])
        device.engine.release()
        await wait_all_tasks_blocked()
        assert command.ended == [(TransferStatus.OKAY, 3)]
        assert answer.ended == [(TransferStatus.OKAY, b"done")]


@pytest.mark.parametrize("packets", [[], [b""]])
async def test_reset_reaches_its_model_with_or_without_an_empty_packet(packets: list[bytes]) -> None:
    async with ioserver_device(2) as device:
        await send(device, RESET, 1)
        for packet in packets:
            await device.host.write(packet)
        await assert_still_right(device)
        assert device.engines[1].commands == [Recorded(RESET_VARIABLES, 0, b"")]


async def test_exit_resets_every_model_and_the_device_stays() -> None:
    async with ioserver_device(3) as device:
        await send(device, EXIT)
        await wait_all_tasks_blocked()
        assert [engine.commands for engine in device.engines] == [[Recorded(RESET_VARIABLES, 0, b"")]] * 3
        await assert_still_right(device)


async def test_models_by_number() -> None:
    async with ioserver_device(3) as device:
        for number in (2, 0, 1):
            has_input(device, 4, number)
            device.engines[number].answers[GET_OUTPUT] = bytes((number,) * 4)
            await write_input(device, bytes((number + 10,) * 4), model=number)
            assert await read_output(device, model=number) == bytes((number,) * 4)
        for number, engine in enumerate(device.engines):
            assert engine.commands[1] == Recorded(SET_INPUT, 0, bytes((number + 10,) * 4))


@pytest.mark.parametrize("model", [2, 3, 255])
async def test_model_that_there_is_not_is_model_0(model: int, caplog: pytest.LogCaptureFixture) -> None:
    async with ioserver_device(2) as device:
        device.engines[0].answers[GET_OUTPUT] = b"zero"
        assert await read_output(device, model=model) == b"zero"
    assert f"usb: unknown model {model}, using model 0" in caplog.text


# Failures.


async def assert_halted(device: ScriptedDevice) -> None:
    with pytest.raises(TransferFailed) as out:
        await device.host.write(b"\1\0\0")
    with pytest.raises(TransferFailed) as into:
        await device.host.read(512)
    assert (out.value.status, into.value.status) == (TransferStatus.STALL, TransferStatus.STALL)


@pytest.mark.parametrize("size", [0, 64, 512, 100_000])
async def test_write_to_an_input_that_there_is_not_fails_before_its_data(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with ioserver_device() as device:
        device.engine.statuses[GET_LENGTH] = BAD_CMD
        await send(device, WRITE, 0, 9)
        with pytest.raises(TransferFailed) as failure:
            await device.host.write(pattern(size))
        assert (failure.value.status, failure.value.transferred) == (TransferStatus.STALL, 0)
        assert device.engine.commands == [Recorded(GET_LENGTH, 9)]
        await assert_halted(device)
        await clear_both(device)
        await assert_still_right(device)
    assert "TENSOR_RECV_INPUT, model 0, tensor 9: the engine answered" in caplog.text


async def test_read_of_an_output_that_there_is_not_fails() -> None:
    async with ioserver_device() as device:
        device.engine.statuses[GET_OUTPUT] = BAD_CMD
        await send(device, READ, 0, 9)
        with pytest.raises(TransferFailed) as failure:
            await device.host.read(512)
        assert (failure.value.status, failure.value.transferred) == (TransferStatus.STALL, b"")
        await clear_both(device)
        await assert_still_right(device)


async def test_inference_that_fails_halts() -> None:
    async with ioserver_device() as device:
        device.engine.statuses[START_INFER] = INFER_ERR
        await send(device, INVOKE)
        await device.host.write(b"")
        await assert_halted(device)
        await clear_both(device)
        await assert_still_right(device)


@pytest.mark.parametrize(("size", "sent"), [(64, 63), (64, 3), (513, 512), (1024, 1023), (2, 1)])
async def test_too_few_data_halt_after_them(size: int, sent: int, caplog: pytest.LogCaptureFixture) -> None:
    async with ioserver_device() as device:
        has_input(device, size)
        await write_input(device, pattern(sent))
        await assert_halted(device)
        assert device.engine.commands == [Recorded(GET_LENGTH, 0)]
        await clear_both(device)
        await assert_still_right(device)
    assert f"the tensor has {size} bytes, the host sent {sent}" in caplog.text


async def test_no_data_halt() -> None:
    async with ioserver_device() as device:
        has_input(device, 64)
        await send(device, WRITE)
        await device.host.write(b"")
        await assert_halted(device)
        await clear_both(device)
        await assert_still_right(device)


@pytest.mark.parametrize(
    ("size", "sent", "status"),
    [
        (64, 65, TransferStatus.OKAY),  # its only packet is taken before anyone can judge it
        (63, 65, TransferStatus.OKAY),
        (512, 515, TransferStatus.OKAY),
        (0, 1, TransferStatus.OKAY),
        (64, 512, TransferStatus.OKAY),
        (64, 513, TransferStatus.STALL),
        (512, 1025, TransferStatus.STALL),
        (70_000, 1 << 20, TransferStatus.STALL),
    ],
)
async def test_too_many_data_halt_and_nothing_of_them_counts(
    size: int, sent: int, status: TransferStatus
) -> None:
    async with ioserver_device() as device:
        has_input(device, size)
        await send(device, WRITE)
        write = Out(device.bus.out_endpoint, pattern(sent))
        await wait_all_tasks_blocked()
        assert [ended for ended, _ in write.ended] == [status]
        await assert_halted(device)
        assert device.engine.commands == [Recorded(GET_LENGTH, 0)]
        await clear_both(device)
        await assert_still_right(device)


@pytest.mark.parametrize("first", [OUT, IN])
async def test_device_waits_until_both_halts_are_cleared(first: int) -> None:
    async with ioserver_device() as device:
        device.engine.statuses[GET_OUTPUT] = BAD_CMD
        await send(device, READ)
        await wait_all_tasks_blocked()
        await device.host.clear_halt(first)
        if first == OUT:
            command = Out(device.bus.out_endpoint, bytes((EXIT, 0, 0)))
            await wait_all_tasks_blocked()
            assert command.ended == []
            await device.host.clear_halt(IN)
            await wait_all_tasks_blocked()
            assert command.ended == [(TransferStatus.OKAY, 3)]
        else:
            with pytest.raises(TransferFailed):
                await device.host.write(bytes((EXIT, 0, 0)))
            await device.host.clear_halt(OUT)
        await assert_still_right(device)


# Wrong packets.


@pytest.mark.parametrize("size", [1, 2, 4, 12, 511, 512, 1024])
async def test_packet_that_is_no_command_is_ignored_and_logged(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with ioserver_device() as device:
        await device.host.write(bytes(size))
        await assert_still_right(device)
    assert f"has 3 bytes, not {min(size, 512)}" in caplog.text


async def test_empty_packet_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with ioserver_device() as device:
        await device.host.write(b"")
        await assert_still_right(device)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("command", [0, 4, 5, 6, 9, 0x10, 0x83, 0x84, 0x86, 255])
async def test_unknown_command_is_ignored_and_logged(command: int, caplog: pytest.LogCaptureFixture) -> None:
    async with ioserver_device() as device:
        await send(device, command)
        await assert_still_right(device)
    assert f"usb: packet ignored: unknown ioserver command {command}" in caplog.messages


# Resets.


@pytest.mark.parametrize("sent", [0, 512, 65536, 66048])
async def test_reset_in_the_middle_of_an_input(sent: int) -> None:
    async with ioserver_device() as device:
        has_input(device, 100_000)
        await send(device, WRITE)
        if sent:
            await device.host.write(pattern(sent))
        await device.engine.asked.wait()  # a task in C runs in a process of its own
        await device.host.plug_in()
        assert device.engine.commands == [Recorded(GET_LENGTH, 0)]
        await assert_still_right(device)


@pytest.mark.parametrize("taken", [0, 512, 65536, 99_840])
async def test_reset_in_the_middle_of_an_output(taken: int) -> None:
    async with ioserver_device() as device:
        device.engine.answers[GET_OUTPUT] = pattern(100_000)
        await send(device, READ)
        if taken:
            assert await device.host.read(taken) == pattern(100_000)[:taken]
        await device.host.plug_in()
        await assert_still_right(device)


async def test_reset_between_invoke_and_its_packet() -> None:
    async with ioserver_device() as device:
        await send(device, INVOKE)
        await device.host.plug_in()
        await assert_still_right(device)
        assert len(device.engine.commands) == 4


async def test_reset_while_a_model_runs() -> None:
    async with ioserver_device() as device:
        device.engine.hold()
        await send(device, INVOKE)
        await device.host.write(b"")
        await device.host.plug_in()
        device.engine.release()
        await wait_all_tasks_blocked()
        await assert_still_right(device)


async def test_reset_clears_halts() -> None:
    async with ioserver_device() as device:
        device.engine.statuses[GET_OUTPUT] = BAD_CMD
        await send(device, READ)
        await wait_all_tasks_blocked()
        await device.host.plug_in()
        await assert_still_right(device)


@given(st.lists(st.binary(max_size=600) | st.binary(min_size=3, max_size=3), max_size=12))
def test_any_packets_leave_a_device_that_a_reset_brings_back(writes: list[bytes]) -> None:
    async def main() -> None:
        async with ioserver_device(2) as device:
            for engine in device.engines:
                engine.answers.update({GET_LENGTH: (700).to_bytes(4, "little"), GET_OUTPUT: pattern(700)})
                engine.statuses[START_INFER] = INFER_ERR
            for data in writes:
                Out(device.bus.out_endpoint, data)
                await wait_all_tasks_blocked()
            await device.host.plug_in()
            await wait_all_tasks_blocked()
            await assert_still_right(device)

    logging.getLogger("phy.usb.ioserver_data").setLevel(logging.ERROR)
    try:
        trio.run(main)
    finally:
        logging.getLogger("phy.usb.ioserver_data").setLevel(logging.NOTSET)
