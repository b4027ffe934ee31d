"""Halts and resets over USB/IP, before, between and in the middle of requests."""

from trio.testing import wait_all_tasks_blocked

from tests.support.benches.usb_firmware import idle, loopback
from tests.support.peers.usbip_host import (
    CLEAR_HALT_IN,
    CLEAR_HALT_OUT,
    EPIPE,
    ESHUTDOWN,
    SET_CONFIGURATION,
    Answer,
    control_in,
    control_out,
    served,
    submit_in,
    submit_out,
)

GET_STATUS = bytes.fromhex("8000000000000200")


async def test_halted_endpoints_stall_until_cleared() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit_in(1, 512))
        await wait_all_tasks_blocked()
        server.bus.in_endpoint.halt()
        server.bus.out_endpoint.halt()
        assert await host.answer() == Answer(3, 1, EPIPE)
        assert await host.ask(submit_in(2, 512)) == Answer(3, 2, EPIPE)
        assert await host.ask(submit_out(3, b"refused")) == Answer(3, 3, EPIPE)
        assert await host.ask(control_out(4, CLEAR_HALT_OUT)) == Answer(3, 4, 0)
        assert await host.ask(submit_in(5, 512)) == Answer(3, 5, EPIPE)
        assert await host.ask(control_out(6, CLEAR_HALT_IN)) == Answer(3, 6, 0)
        await host.works()


async def test_large_request_to_a_halted_endpoint_is_read_to_its_end() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        server.bus.out_endpoint.halt()
        assert await host.ask(submit_out(1, bytes(4 << 20))) == Answer(3, 1, EPIPE)
        assert await host.ask(control_out(2, CLEAR_HALT_OUT)) == Answer(3, 2, 0)
        await host.works()


async def test_halt_in_the_middle_of_a_request() -> None:
    """What the firmware took counts; the rest of the data leaves the stream in step."""
    async with served(idle) as server:
        host = await server.attach()
        server.bus.out_endpoint.acknowledge_reset()
        message = submit_out(1, bytes(1 << 20))
        await host.send(message[:400_048])
        await wait_all_tasks_blocked()
        assert len((await server.bus.out_endpoint.get_buffer(2048)).data) == 2048
        server.bus.out_endpoint.halt()
        assert await host.answer() == Answer(3, 1, EPIPE, 2048)
        await host.send(message[400_048:])
        assert (await host.ask(control_in(2, GET_STATUS))).data == b"\0\0"


async def test_reset_in_the_middle_of_a_request() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        message = submit_out(1, bytes(1 << 20))
        await host.send(message[:500_000], b"")
        await wait_all_tasks_blocked()
        server.bus.configure(1)
        answer = await host.answer()
        assert (answer.seqnum, answer.status) == (1, ESHUTDOWN)
        await host.send(message[500_000:])
        await host.works()


async def test_set_configuration_ends_what_waits() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit_in(1, 512), submit_in(2, 512), control_out(3, SET_CONFIGURATION))
        assert await host.answers(3) == [
            Answer(3, 1, ESHUTDOWN),
            Answer(3, 2, ESHUTDOWN),
            Answer(3, 3, 0),
        ]
        await host.works()
