"""Reset, SET_CONFIGURATION, unplugging and giving up at every stage of a command.

Whatever the stage, the device answers the next commands right, and the engine got each array whole or was
told that it was given up.
"""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.protocol.usb_descriptors import SetupPacket
from phy.usb.urb import TransferStatus
from tests.phy.usb.test_aisrv_data import (
    GET_ID,
    GET_OUTPUT,
    IN,
    OUT,
    SET_INPUT,
    START_INFER,
    assert_still_right,
)
from tests.support.benches.scripted_engine import (
    BAD_CMD,
    CLASSIC,
    DESIGN,
    DIALECTS,
    MODEL_ERR,
    Recorded,
    ScriptedDevice,
    usb_device,
)
from tests.support.benches.scripted_engine import command_packet as packet
from tests.support.peers.usb_host import In, Out, pattern

Requests = list[Out | In]
Stage = Callable[[ScriptedDevice, str], Awaitable[Requests]]
WHOLE = pattern(5_000)
"""Data of a SET."""
ANSWER = pattern(67_000)
"""Data of a GET: more than the task passes on in one go."""


async def idle(device: ScriptedDevice, dialect: str) -> Requests:
    return [In(device.bus.in_endpoint, 512)]


async def command_in_pieces(device: ScriptedDevice, dialect: str) -> Requests:
    """The host's command packet is not all there."""
    return [Out(device.bus.out_endpoint, b"\x83", length=len(packet(dialect, 0)))]


async def after_the_command_packet(device: ScriptedDevice, dialect: str) -> Requests:
    return [Out(device.bus.out_endpoint, packet(dialect, SET_INPUT))]


async def in_the_middle_of_the_data(device: ScriptedDevice, dialect: str) -> Requests:
    return [
        Out(device.bus.out_endpoint, packet(dialect, SET_INPUT)),
        Out(device.bus.out_endpoint, WHOLE[: 3 * 512]),
    ]


async def in_the_middle_of_a_packet(device: ScriptedDevice, dialect: str) -> Requests:
    return [
        Out(device.bus.out_endpoint, packet(dialect, SET_INPUT)),
        Out(device.bus.out_endpoint, WHOLE[:700], length=1024),
    ]


async def before_the_zero_length_packet(device: ScriptedDevice, dialect: str) -> Requests:
    return [
        Out(device.bus.out_endpoint, packet(dialect, SET_INPUT)),
        Out(device.bus.out_endpoint, WHOLE[:1024]),
    ]


async def while_the_engine_works_on_a_set(device: ScriptedDevice, dialect: str) -> Requests:
    device.engine.hold()
    return [
        Out(device.bus.out_endpoint, packet(dialect, SET_INPUT)),
        Out(device.bus.out_endpoint, WHOLE),
        In(device.bus.in_endpoint, 512),
    ]


async def while_the_engine_works_on_what_will_fail(device: ScriptedDevice, dialect: str) -> Requests:
    device.engine.statuses[SET_INPUT] = MODEL_ERR
    return await while_the_engine_works_on_a_set(device, dialect)


async def while_the_next_command_waits(device: ScriptedDevice, dialect: str) -> Requests:
    requests = await while_the_engine_works_on_a_set(device, dialect)
    await wait_all_tasks_blocked()
    return [*requests, Out(device.bus.out_endpoint, packet(dialect, START_INFER))]


async def while_the_engine_works_on_a_get(device: ScriptedDevice, dialect: str) -> Requests:
    device.engine.hold()
    device.engine.answers[GET_OUTPUT] = ANSWER
    return [Out(device.bus.out_endpoint, packet(dialect, GET_OUTPUT)), In(device.bus.in_endpoint, 512)]


async def while_the_engine_works_on_a_get_that_will_fail(device: ScriptedDevice, dialect: str) -> Requests:
    device.engine.statuses[GET_OUTPUT] = MODEL_ERR
    return await while_the_engine_works_on_a_get(device, dialect)


async def status_of_a_set_not_fetched(device: ScriptedDevice, dialect: str) -> Requests:
    """The classic dialect has no status to fetch: there the command is done."""
    return [Out(device.bus.out_endpoint, packet(dialect, SET_INPUT)), Out(device.bus.out_endpoint, WHOLE)]


async def answer_of_a_get_not_fetched(device: ScriptedDevice, dialect: str) -> Requests:
    device.engine.answers[GET_OUTPUT] = ANSWER
    return [Out(device.bus.out_endpoint, packet(dialect, GET_OUTPUT))]


async def short_answer_not_fetched(device: ScriptedDevice, dialect: str) -> Requests:
    device.engine.answers[GET_OUTPUT] = b"short"
    return [Out(device.bus.out_endpoint, packet(dialect, GET_OUTPUT))]


async def answer_partly_fetched(device: ScriptedDevice, dialect: str) -> Requests:
    requests = await answer_of_a_get_not_fetched(device, dialect)
    if dialect == DESIGN:
        requests.append(In(device.bus.in_endpoint, 512))  # the status
    return [*requests, In(device.bus.in_endpoint, 1024)]


async def last_piece_partly_fetched(device: ScriptedDevice, dialect: str) -> Requests:
    requests = await answer_of_a_get_not_fetched(device, dialect)
    if dialect == DESIGN:
        requests.append(In(device.bus.in_endpoint, 512))
    return [*requests, In(device.bus.in_endpoint, 66_048)]


async def zero_length_packet_not_fetched(device: ScriptedDevice, dialect: str) -> Requests:
    device.engine.answers[GET_OUTPUT] = ANSWER[:512]
    requests: Requests = [
        Out(device.bus.out_endpoint, packet(dialect, GET_OUTPUT)),
        In(device.bus.in_endpoint, 512),
    ]
    return [*requests, In(device.bus.in_endpoint, 512)] if dialect == DESIGN else requests


async def failed(device: ScriptedDevice, dialect: str) -> Requests:
    """The classic dialect is halted, the design's status is not fetched."""
    device.engine.statuses[SET_INPUT] = MODEL_ERR
    return [Out(device.bus.out_endpoint, packet(dialect, SET_INPUT)), Out(device.bus.out_endpoint, WHOLE)]


async def failed_and_one_halt_cleared(device: ScriptedDevice, dialect: str) -> Requests:
    requests = await failed(device, dialect)
    await wait_all_tasks_blocked()
    await device.host.clear_halt(OUT)
    return [*requests, Out(device.bus.out_endpoint, packet(dialect, START_INFER))]


async def failed_and_the_other_halt_cleared(device: ScriptedDevice, dialect: str) -> Requests:
    requests = await failed(device, dialect)
    await wait_all_tasks_blocked()
    await device.host.clear_halt(IN)
    return requests


async def draining_for_an_engine_that_is_not_there(device: ScriptedDevice, dialect: str) -> Requests:
    return [
        Out(device.bus.out_endpoint, packet(dialect, SET_INPUT, 9)),
        Out(device.bus.out_endpoint, WHOLE[:1024]),
    ]


async def refused_for_an_engine_that_is_not_there(device: ScriptedDevice, dialect: str) -> Requests:
    return [Out(device.bus.out_endpoint, packet(dialect, GET_ID, 9))]


STAGES: list[Stage] = [
    idle,
    command_in_pieces,
    after_the_command_packet,
    in_the_middle_of_the_data,
    in_the_middle_of_a_packet,
    before_the_zero_length_packet,
    while_the_engine_works_on_a_set,
    while_the_engine_works_on_what_will_fail,
    while_the_next_command_waits,
    while_the_engine_works_on_a_get,
    while_the_engine_works_on_a_get_that_will_fail,
    status_of_a_set_not_fetched,
    answer_of_a_get_not_fetched,
    short_answer_not_fetched,
    answer_partly_fetched,
    last_piece_partly_fetched,
    zero_length_packet_not_fetched,
    failed,
    failed_and_one_halt_cleared,
    failed_and_the_other_halt_cleared,
    draining_for_an_engine_that_is_not_there,
    refused_for_an_engine_that_is_not_there,
]


async def set_configuration(device: ScriptedDevice, _requests: Requests) -> None:
    await device.host.control(SetupPacket(0, 9, 1, 0, 0))


async def bus_reset(device: ScriptedDevice, _requests: Requests) -> None:
    await device.host.plug_in()


async def bus_reset_twice(device: ScriptedDevice, _requests: Requests) -> None:
    await device.host.plug_in()
    await device.host.plug_in()


async def unplugged_and_plugged_in_later(device: ScriptedDevice, _requests: Requests) -> None:
    device.bus.reset()
    await wait_all_tasks_blocked()
    await device.host.plug_in()


async def given_up_then_reset(device: ScriptedDevice, requests: Requests) -> None:
    for each in requests:
        device.bus.unlink(each.request)
    await wait_all_tasks_blocked()
    await device.host.plug_in()


ANOTHER_RESET = pytest.mark.long("SET_CONFIGURATION and a reset of the bus end each stage every day")
RECOVERIES = [
    set_configuration,
    bus_reset,
    pytest.param(bus_reset_twice, marks=ANOTHER_RESET),
    pytest.param(unplugged_and_plugged_in_later, marks=ANOTHER_RESET),
    pytest.param(given_up_then_reset, marks=ANOTHER_RESET),
]


def whole_or_abandoned(recorded: Recorded) -> bool:
    if recorded.data is None:
        return True
    return recorded.abandoned or recorded.data == WHOLE


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("recover", RECOVERIES)
@pytest.mark.parametrize("stage", STAGES)
async def test_next_command_is_answered_right(
    stage: Stage, recover: Callable[[ScriptedDevice, Requests], Awaitable[None]], dialect: str
) -> None:
    async with usb_device() as device:
        requests = await stage(device, dialect)
        await wait_all_tasks_blocked()
        await recover(device, requests)
        assert (device.bus.out_endpoint.halted, device.bus.in_endpoint.halted) == (False, False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_release_later, device)
            assert await device.get(DESIGN, GET_ID) == b""
        device.engine.statuses.clear()
        commands = device.engine.commands[:-1]
        assert len(commands) <= 1
        assert all(map(whole_or_abandoned, commands))
        await assert_still_right(device)


async def _release_later(device: ScriptedDevice) -> None:
    """Let the engine end its work only when the host's next command waits already."""
    await wait_all_tasks_blocked()
    device.engine.release()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stage", STAGES)
async def test_requests_in_flight_end_at_a_reset(stage: Stage, dialect: str) -> None:
    async with usb_device() as device:
        requests = await stage(device, dialect)
        await wait_all_tasks_blocked()
        waiting = [each for each in requests if not each.ended]
        device.bus.reset()
        assert [each.ended[0][0] for each in waiting] == [TransferStatus.SHUTDOWN] * len(waiting)
        device.engine.release()
        await wait_all_tasks_blocked()
        assert all(len(each.ended) == 1 for each in requests)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stage", STAGES)
async def test_device_can_be_switched_off(stage: Stage, dialect: str) -> None:
    async with usb_device() as device:
        await stage(device, dialect)
        await wait_all_tasks_blocked()
        device.node.stop()


async def test_engine_does_not_hear_of_a_command_whose_data_never_begin() -> None:
    async with usb_device() as device:
        await after_the_command_packet(device, CLASSIC)
        await wait_all_tasks_blocked()
        await device.host.plug_in()
        await wait_all_tasks_blocked()
        assert device.engine.commands == []


@pytest.mark.parametrize("stage", [in_the_middle_of_the_data, in_the_middle_of_a_packet])
async def test_engine_is_told_that_an_array_is_given_up(stage: Stage) -> None:
    async with usb_device() as device:
        requests = await stage(device, CLASSIC)
        await wait_all_tasks_blocked()
        taken = requests[1].request.taken if len(requests) > 1 else 0  # type: ignore[union-attr]
        await device.host.plug_in()
        await wait_all_tasks_blocked()
        assert device.engine.commands == [Recorded(SET_INPUT, 0, WHOLE[:taken], abandoned=True)]


@pytest.mark.parametrize("command", [SET_INPUT, GET_OUTPUT])
async def test_failure_after_a_reset_does_not_halt_the_new_configuration(command: int) -> None:
    async with usb_device() as device:
        device.engine.statuses[command] = BAD_CMD
        device.engine.answers[GET_ID] = b"id"
        device.engine.hold()
        await device.host.write(packet(CLASSIC, command))
        if command & 0x80:
            await device.host.write(b"data")
        await device.host.plug_in()
        write, read = Out(device.bus.out_endpoint, packet(CLASSIC, GET_ID)), In(device.bus.in_endpoint, 512)
        device.engine.release()
        await wait_all_tasks_blocked()
        assert (device.bus.out_endpoint.halted, device.bus.in_endpoint.halted) == (False, False)
        assert (write.ended, read.ended) == ([(TransferStatus.OKAY, 3)], [(TransferStatus.OKAY, b"id")])


async def test_set_interface_abandons_the_command_in_flight_too() -> None:
    async with usb_device() as device:
        await in_the_middle_of_the_data(device, CLASSIC)
        await wait_all_tasks_blocked()
        await device.host.control(SetupPacket(1, 11, 0, 0, 0))
        await wait_all_tasks_blocked()
        await assert_still_right(device)
        assert device.engine.commands[0] == Recorded(SET_INPUT, 0, WHOLE[: 3 * 512], abandoned=True)


async def test_part_of_a_set_taken_back_may_be_followed_by_the_rest() -> None:
    """The packets that were taken count; the host goes on where it was."""
    async with usb_device() as device:
        await device.host.write(packet(CLASSIC, SET_INPUT))
        given_up = Out(device.bus.out_endpoint, pattern(700), length=1024)
        await wait_all_tasks_blocked()
        assert device.bus.unlink(given_up.request)
        assert given_up.request.taken == 512
        await device.host.write(pattern(700)[512:])
        await wait_all_tasks_blocked()
        assert device.engine.commands == [Recorded(SET_INPUT, 0, pattern(700))]
