"""The client's side: streaming, refusing, and giving up at any moment without harm to the server."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from aisrv.xcore.node import open_node
from aisrv.xcore.traps import Trap
from flash_server.boot.boot_image import NO_BOOT_SLOTS
from flash_server.client.flash_channel import FlashChannel, Sizes
from flash_server.errors import FlashError, StorageError
from flash_server.image.headers import Part
from flash_server.protocol import FlashFailure, FlashReadError, FlashRequest
from tests.support.amounts import in_ci
from tests.support.benches.flash_node import KIB, FlashNode, Parts, flash_node, image, refused
from tests.support.benches.wires import END, Wiretap, send_tokens

MODEL = bytes(index * 5 & 0xFF for index in range(20 * KIB))
PARAMETERS = bytes(index * 3 & 0xFF for index in range(9 * KIB))
DATA = image([Parts(MODEL, PARAMETERS, b"operators", b"in place"), Parts(b"second")])


async def check_all_is_well(node: FlashNode) -> None:
    """Every client gets what it asks for: neither the server nor a channel is out of step."""
    with trio.fail_after(60):
        if len(node.engines) > 1:
            assert await node.engines[1].read_model(100) == b"second"
        assert await node.engines[0].read(Part.XIP, 0, 8) == b"in place"
        assert await node.engines[0].read_model(len(MODEL)) == MODEL


async def test_sizes_of_all_segments() -> None:
    async with flash_node(DATA, engines=3) as node:
        assert await node.engines[0].read_sizes() == Sizes(len(MODEL), len(PARAMETERS), 9, 8)
        assert await node.engines[1].read_sizes() == Sizes(6, 0, 0, 0)
        assert await node.engines[2].read_sizes() == Sizes(0, 0, 0, 0)


async def test_sizes_are_indexed_by_part() -> None:
    assert Sizes(1, 2, 3, 4)[Part.OPERATORS] == 3


async def test_each_method_reads_its_segment() -> None:
    async with flash_node(DATA, loaders=1) as node:
        flash = node.engines[0]
        assert await flash.read_parameters(1, 9000) == PARAMETERS[1:9001]
        assert await flash.read(Part.OPERATORS, 0, 9) == b"operators"
        assert await flash.read(Part.XIP, 3, 5) == b"place"
        assert await node.loaders[0].read_boot_report() == NO_BOOT_SLOTS


# The model.


async def test_model_past_its_limit_is_refused_after_its_length() -> None:
    async with flash_node(DATA, engines=2) as node:
        tap = Wiretap()
        with (
            node.node.tracing(tap),
            refused(FlashFailure.REFUSED, match="20480 bytes, there is room for 20479"),
        ):
            await node.engines[0].read_model(len(MODEL) - 1)
        assert (
            len(tap.sent(node.served[0])) < 3 * 4 * KIB
        )  # in hexadecimal digits: a piece, not the whole model
        await check_all_is_well(node)


async def test_model_is_read_in_pieces_of_any_size() -> None:
    async with flash_node(DATA) as node:
        async with node.engines[0].open_model() as model:
            assert (model.length, model.left) == (20 * KIB, 20 * KIB)
            pieces = [await model.read(size) for size in (0, 1, 3, 4096, 5000)]
            buffer = bytearray(1000)
            await model.read_into(memoryview(buffer))
            rest = await model.read(1 << 30)
            assert model.left == 0
            assert await model.read(1) == b""
        assert b"".join((*pieces, buffer, rest)) == MODEL
        await check_all_is_well(node)


async def test_view_longer_than_the_model() -> None:
    async with flash_node(DATA) as node:
        with pytest.raises(ValueError, match="a view of 20481 bytes, 20480 bytes of the model are left"):
            async with node.engines[0].open_model() as model:
                await model.read_into(memoryview(bytearray(20 * KIB + 1)))
        await check_all_is_well(node)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 20 * KIB - 1, 20 * KIB])
async def test_block_left_early(size: int) -> None:
    async with flash_node(DATA, engines=2) as node:
        async with node.engines[0].open_model() as model:
            await model.read(size)
        await check_all_is_well(node)


async def leave_by_key_error(node: FlashNode, size: int) -> None:
    async with node.engines[0].open_model() as model:
        await model.read(size)
        raise KeyError


async def test_block_left_by_an_exception() -> None:
    async with flash_node(DATA, engines=2) as node:
        for size in (100, 20 * KIB):
            with pytest.raises(KeyError):
                await leave_by_key_error(node, size)
        await check_all_is_well(node)


async def test_other_commands_wait_until_the_model_is_left() -> None:
    async with flash_node(DATA, engines=2) as node:
        async with node.engines[0].open_model() as model:
            with pytest.raises(FlashError, match="READ_XIP 0 1 while a model is being read"):
                await node.engines[0].read(Part.XIP, 0, 1)
            assert await model.read(1 << 20) == MODEL
        await check_all_is_well(node)


# Giving up.


async def test_tokens_of_giving_up() -> None:
    async with flash_node(DATA) as node:
        tap = Wiretap()
        with node.node.tracing(tap):
            async with node.engines[0].open_model():
                pass
            await node.engines[0].read(Part.XIP, 0, 2)
        assert tap.sent(node.ends[0]) == "END 00000001 END NACK END END 000000030000000000000002 END END"
        words = tap.sent(node.served[0]).split()
        assert words[0] == "END"
        assert words[1].startswith("00005000")
        assert words[2:] == ["END", "ACK", "END", "END", "696e", "END"]


async def _fail(node: FlashNode) -> None:
    with pytest.raises(FlashReadError):
        await node.engines[0].read(Part.XIP, 0, 9)


async def _write(node: FlashNode) -> None:
    await node.loaders[0].write_data(0, DATA[: 4 * KIB])
    await node.loaders[0].reload()


REQUESTS: dict[str, Callable[[FlashNode], Awaitable[object]]] = {
    "model": lambda node: node.engines[0].read_model(1 << 20),
    "parameters": lambda node: node.engines[0].read_parameters(0, 9000),
    "sizes": lambda node: node.engines[0].read_sizes(),
    "boot report": lambda node: node.loaders[0].read_boot_report(),
    "failure": _fail,
    "write": _write,
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_cancelled_after_any_number_of_turns(
    request_: Callable[[FlashNode], Awaitable[object]],
) -> None:
    """The request is cut at every point at which its task can be cancelled, every day at each third one."""
    finished = 0
    for turns in range(0, 100, in_ci(1, every_day=3)):
        async with flash_node(DATA, engines=2, loaders=1) as node:

            async def request(node: FlashNode) -> None:
                nonlocal finished
                await request_(node)
                finished += 1

            async with trio.open_nursery() as nursery:
                nursery.start_soon(request, node)
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            with trio.fail_after(60):
                await _write(node)
            await check_all_is_well(node)
    assert 0 < finished < 100


@pytest.mark.parametrize("request_", [REQUESTS[name] for name in ("model", "parameters", "sizes")])
@pytest.mark.parametrize("fails", [False, True])
async def test_cancelled_while_the_server_reads_the_chip(
    request_: Callable[[FlashNode], Awaitable[object]], fails: bool
) -> None:
    """Whatever the server had to say, it does not wait for the client that is gone."""
    async with flash_node(DATA, engines=2) as node:
        await node.engines[0].read_sizes()
        read = node.chip.read
        reading, may_read = trio.Event(), trio.Event()

        async def held(address: int, size: int) -> bytes:
            reading.set()
            await may_read.wait()
            if fails:
                raise StorageError("the file is gone")
            return await read(address, size)

        node.chip.read = held  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(request_, node)
            await reading.wait()
            nursery.cancel_scope.cancel()
        node.chip.read = read  # type: ignore[method-assign]
        may_read.set()
        with trio.fail_after(60):
            assert await node.engines[1].read_model(10) == b"second"
        await check_all_is_well(node)


@pytest.mark.parametrize("times", [1, 20])
async def test_cancelled_while_the_server_works_for_another(times: int) -> None:
    """Once, and again before the server took note."""
    async with flash_node(DATA, engines=2) as node:
        async with node.engines[1].open_model() as model:
            for _ in range(times):
                with trio.move_on_after(0) as scope:
                    await node.engines[0].read(Part.XIP, 0, 8)
                assert scope.cancelled_caught
            assert await model.read(6) == b"second"
        await check_all_is_well(node)


async def test_server_is_free_at_once_when_a_client_gives_up() -> None:
    """Another client is served though the first never comes back."""
    async with flash_node(DATA, engines=2) as node:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.engines[0].read_model, 1 << 20)
            for _ in range(6):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert await node.engines[1].read_model(10) == b"second"


async def test_client_that_speaks_without_a_transaction_is_told_so() -> None:
    async with flash_node(DATA, engines=2) as node:
        await send_tokens(node.ends[0], b"hello", 7, b"there", END)
        assert await node.ends[0].inct() == 3
        await node.ends[0].chkct(END)
        await check_all_is_well(node)


# A server that breaks the protocol is loud.


@pytest.mark.parametrize("answer", [(b"123", END), (b"12345", END), (b"12", 7, END)])
async def test_answer_of_another_size_traps(answer: tuple[bytes | int, ...]) -> None:
    async with open_node() as node:
        channel = node.channel(node.tiles[0], node.tiles[1])

        async def broken_server() -> None:
            c = channel.b
            await c.chkct(END)
            await c.outct(END)
            await c.inbytes(len(bytes(FlashRequest(3, (0, 4)))))
            await c.chkct(END)
            await send_tokens(c, *answer)

        node.tiles[1].start(broken_server)
        with pytest.raises(Trap, match="where the answer should go on"):
            await FlashChannel(channel.a).read(Part.XIP, 0, 4)
        node.stop()
