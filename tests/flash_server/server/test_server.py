"""The flash server: its tokens, its failures, its clients' bounds, and that it goes on serving."""

import struct
from dataclasses import dataclass

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.xcore.channels.channel import (
    Transaction,
    chan_complete_transaction,
    chan_init_transaction_master,
    t_chan_in_buf_byte,
    t_chan_in_word,
    t_chan_out_word,
)
from aisrv.xcore.node import open_node
from aisrv.xcore.tokens import Control
from flash_server.boot.boot_image import NO_BOOT_SLOTS
from flash_server.chip.part import MX25R3235F
from flash_server.chip.partitions import Partition, divide
from flash_server.client.flash_channel import FlashChannel
from flash_server.errors import FlashError, PartError, StorageError
from flash_server.image.headers import Part
from flash_server.protocol import FlashCommand, FlashFailure, FlashReadError, FlashRequest
from tests.support.amounts import in_ci
from tests.support.benches.flash_node import (
    KIB,
    SMALL,
    VERSION,
    FlashNode,
    Parts,
    flash_node,
    image,
    refused,
    start_server,
    swapped,
)
from tests.support.benches.wires import Wiretap

READ_PARAMETERS, READ_MODEL, READ_OPERATORS, READ_XIP = range(4)
CALIBRATION = bytes.fromhex("ff000f0f0f0f0f0fff00ff00ff00ff0031f7ce0831f7ce089c639c639c639c63")

FIRST = Parts(b"model of 0", b"parameters", b"operators", b"execute in place")
SECOND = Parts(b"another model", b"p", None, b"x" * 100)
BOTH = image([FIRST, SECOND])


async def read_segment(c: Transaction, command: int, offset: int, size: int) -> bytes:
    await t_chan_out_word(c, command)
    await t_chan_out_word(c, offset)
    await t_chan_out_word(c, size)
    data = await t_chan_in_buf_byte(c, size)
    await chan_complete_transaction(c)
    return data


async def failure(flash: FlashChannel, request: FlashRequest) -> FlashFailure | int:
    with pytest.raises(FlashReadError) as caught:
        await flash._transact(request, 0)
    return caught.value.code


# The wire of the four commands, by a client that knows no more than lib_xcore.


@pytest.mark.parametrize(
    ("command", "data"),
    [(READ_PARAMETERS, b"parameters"), (READ_OPERATORS, b"operators"), (READ_XIP, b"execute in place")],
)
async def test_segments_are_read_in_one_transaction(command: int, data: bytes) -> None:
    async with flash_node(image([FIRST])) as node:
        c = await chan_init_transaction_master(node.ends[0])
        assert await read_segment(c, command, 2, len(data) - 3) == data[2:-1]


async def test_model_is_read_in_one_transaction() -> None:
    async with flash_node(image([FIRST])) as node:
        c = await chan_init_transaction_master(node.ends[0])
        await t_chan_out_word(c, READ_MODEL)
        length = await t_chan_in_word(c)
        assert await t_chan_in_buf_byte(c, length) == b"model of 0"
        await chan_complete_transaction(c)


async def test_tokens_of_both_sides() -> None:
    async with flash_node(image([FIRST])) as node:
        tap = Wiretap()
        with node.node.tracing(tap):
            assert await node.engines[0].read_parameters(1, 3) == b"ara"
            assert tap.sent(node.ends[0]) == "END 000000000000000100000003 END END"
            await node.engines[0].read_model(100)
        assert tap.sent(node.served[0]) == "END 617261 END END 0000000a" + b"model of 0".hex() + " END"


async def test_tokens_of_a_failure() -> None:
    async with flash_node(image([FIRST])) as node:
        tap = Wiretap()
        with node.node.tracing(tap):
            assert await failure(node.engines[0], FlashRequest(77)) == FlashFailure.UNKNOWN_COMMAND
        assert tap.sent(node.ends[0]) == "END 0000004d END END"
        assert tap.sent(node.served[0]) == "END NACK 00000005 END"


async def test_failure_traps_a_client_that_expects_data() -> None:
    async with flash_node(image([Parts(b"model")])) as node:
        await node.ends[0].outct(Control.END)
        await node.ends[0].chkct(Control.END)
        await node.ends[0].outbytes(struct.pack(">III", READ_XIP, 0, 4))
        await node.ends[0].outct(Control.END)
        assert await node.ends[0].inct() == Control.NACK
        assert await node.ends[0].inuint() == FlashFailure.ABSENT
        await node.ends[0].chkct(Control.END)
        await node.ends[0].outct(Control.END)
        assert await node.engines[0].read_model(5) == b"model"


# Layouts.


@pytest.mark.parametrize("preamble", [b"", VERSION, CALIBRATION + VERSION], ids=["design", "1.2", "fast"])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("boot", [0, 8 * KIB])
async def test_every_generation_in_both_orders_of_nibbles(preamble: bytes, swap: bool, boot: int) -> None:
    data = image([FIRST, SECOND], preamble)
    async with flash_node(swapped(data) if swap else data, engines=2, boot=b"\xff" * boot) as node:
        assert await node.engines[0].read_model(100) == b"model of 0"
        assert await node.engines[1].read_model(100) == b"another model"
        assert await node.engines[0].read(Part.XIP, 8, 8) == b"in place"
        assert node.log == []


async def test_design_image_whose_order_only_a_models_length_tells() -> None:
    """Offset 0x1111 reads the same in both orders; the length behind it, 0xf00 or 0xf000, fits in one."""
    data = struct.pack("<4I", 0x1111, 0, 0, 0).ljust(0x1111, b"\xff") + struct.pack("<I", 0xF00)
    async with flash_node(swapped(data + b"\x12" * 0xF00)) as node:
        assert await node.engines[0].read_model(0xF00) == b"\x12" * 0xF00


async def test_model_of_no_bytes() -> None:
    async with flash_node(image([Parts(b"", b"p")])) as node:
        assert await node.engines[0].read_model(0) == b""


@pytest.mark.parametrize("size", [1, 3, 4, 511, 512, 4095, 4096, 4097, 20000])
async def test_sizes_around_the_pieces(size: int) -> None:
    data = bytes(index * 7 & 0xFF for index in range(size))
    async with flash_node(image([Parts(data, data)])) as node:
        assert await node.engines[0].read_model(size) == data
        assert await node.engines[0].read_parameters(0, size) == data
        assert await node.engines[0].read_parameters(size, 0) == b""


# Bounds and failures.


async def test_engine_is_confined_to_its_own_segments() -> None:
    async with flash_node(BOTH, engines=3) as node:
        first, second, third = node.engines
        assert await second.read_parameters(0, 1) == b"p"
        assert await failure(second, FlashRequest(READ_PARAMETERS, (0, 2))) == FlashFailure.OUT_OF_RANGE
        assert await failure(second, FlashRequest(READ_OPERATORS, (0, 1))) == FlashFailure.ABSENT
        assert await failure(first, FlashRequest(READ_XIP, (0, 17))) == FlashFailure.OUT_OF_RANGE
        assert await failure(third, FlashRequest(READ_MODEL)) == FlashFailure.ABSENT


@pytest.mark.parametrize(
    ("offset", "size"), [(11, 0), (10, 1), (0, 11), (0, 0xFFFFFFFF), (0xFFFFFFFF, 1), (0xFFFFFFF0, 0x20)]
)
async def test_offset_and_size_past_the_end(offset: int, size: int) -> None:
    async with flash_node(BOTH) as node:
        request = FlashRequest(READ_PARAMETERS, (offset, size))
        assert await failure(node.engines[0], request) == FlashFailure.OUT_OF_RANGE
        assert await node.engines[0].read_parameters(0, 10) == b"parameters"


@pytest.mark.parametrize("command", [4, 5, 0x0F, 0x12, 0x20, 0x24, 0xFFFFFFFF])
@pytest.mark.parametrize("data", [b"", b"1", b"1234", b"12345678", b"x" * 513, b"x" * 10000])
async def test_unknown_command_with_anything_behind_it(command: int, data: bytes) -> None:
    async with flash_node(BOTH) as node:
        request = FlashRequest(command, (), data)
        assert await failure(node.engines[0], request) == FlashFailure.UNKNOWN_COMMAND
        assert await node.engines[0].read_parameters(0, 10) == b"parameters"


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"\0",
        b"\0\0\0",
        bytes(4),
        bytes(8),
        bytes(11),
        bytes(13),
        bytes(16),
        b"\0\0\0\1\0",
        b"\0\0\0\1" + bytes(5000),
    ],
    ids=lambda wire: str(len(wire)),
)
async def test_request_with_another_number_of_bytes(wire: bytes) -> None:
    async with flash_node(BOTH) as node:
        c = node.ends[0]
        await c.outct(Control.END)
        await c.chkct(Control.END)
        await c.outbytes(wire)
        await c.outct(Control.END)
        assert await c.inct() == Control.NACK
        assert await c.inuint() == FlashFailure.BAD_REQUEST
        await c.chkct(Control.END)
        await c.outct(Control.END)
        assert await node.engines[0].read_parameters(0, 10) == b"parameters"


async def test_failures_are_logged_with_client_and_request() -> None:
    async with flash_node(BOTH, engines=2) as node:
        await failure(node.engines[1], FlashRequest(READ_PARAMETERS, (0, 2)))
        await failure(node.engines[0], FlashRequest(9))
        assert node.log == [
            "flash, engine 1: READ_PARAMETERS 0 2: 2 bytes at 0 reach past the 1 of engine 1's parameters",
            "flash, engine 0: request of 4 bytes: no engine has command 0x9",
        ]


async def test_error_says_what_was_asked_and_why_it_failed() -> None:
    async with flash_node(BOTH) as node:
        with pytest.raises(FlashReadError, match=r"^READ_XIP 0 17: offset and size reach past the end$"):
            await node.engines[0].read(Part.XIP, 0, 17)


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"", FlashFailure.NO_IMAGE, "the first 4132 bytes are FF"),
        (bytes(64 * KIB), FlashFailure.NO_IMAGE, "the first 4132 bytes are 00"),
        (bytes((1, 3, 0xFE, 0xFC)) + bytes(16), FlashFailure.CORRUPT, "1.3"),
        (CALIBRATION + b"\1\3\xfe\xfc", FlashFailure.CORRUPT, "version word"),
        (b"any old text that was left here, and a bit more", FlashFailure.CORRUPT, "version"),
        (struct.pack("<4I", 0xF0000, 0, 0, 0), FlashFailure.CORRUPT, "engine 0"),
    ],
)
async def test_image_that_cannot_be_used(data: bytes, code: FlashFailure, words: str) -> None:
    async with flash_node(data) as node:
        for request in (
            FlashRequest(READ_MODEL),
            FlashRequest(READ_XIP, (0, 1)),
            FlashRequest(FlashCommand.READ_SIZES),
            FlashRequest(READ_PARAMETERS, (0, 0)),
        ):
            assert await failure(node.engines[0], request) == code
        assert len(node.log) == 5
        assert all(words in line for line in node.log)


async def test_broken_header_harms_its_own_engine_only() -> None:
    data = bytearray(image([FIRST, SECOND], VERSION))
    struct.pack_into("<I", data, 4 + 16 + 4, 0x00F00000)
    async with flash_node(bytes(data), engines=2) as node:
        assert await failure(node.engines[1], FlashRequest(READ_MODEL)) == FlashFailure.CORRUPT
        assert await node.engines[0].read_model(10) == b"model of 0"
        assert "engine 1: parameters at 0xf00000" in node.log[0]


async def test_model_whose_length_lies() -> None:
    data = bytearray(image([FIRST, SECOND], VERSION))
    data[36] += 1
    async with flash_node(bytes(data), engines=2) as node:
        assert await failure(node.engines[0], FlashRequest(READ_MODEL)) == FlashFailure.CORRUPT
        assert await node.engines[0].read_parameters(0, 10) == b"parameters"
        assert await node.engines[1].read_model(13) == b"another model"


@pytest.mark.parametrize("fails_from", [0, 4096, 8192])
async def test_chip_that_fails_in_the_middle(fails_from: int) -> None:
    payload = bytes(range(256)) * 40
    async with flash_node(image([Parts(b"m", payload)])) as node:
        await node.engines[0].read_sizes()
        start = len(image([Parts(b"m")]))
        read = node.storage.read

        def failing(address: int, size: int) -> bytes:
            if address >= start + fails_from:
                raise StorageError("the file is gone")
            return read(address, size)

        node.storage.read = failing  # type: ignore[method-assign]
        with refused(FlashFailure.CHIP_FAILED):
            await node.engines[0].read_parameters(0, len(payload))
        assert node.log == [f"flash, engine 0: READ_PARAMETERS 0 {len(payload)}: the file is gone"]
        node.storage.read = read  # type: ignore[method-assign]
        assert await node.engines[0].read_parameters(0, len(payload)) == payload


async def test_code_that_the_client_does_not_know() -> None:
    async with open_node() as node:
        channel = node.channel(node.tiles[0], node.tiles[1])

        async def newer_server() -> None:
            c = channel.b
            await c.chkct(Control.END)
            await c.outct(Control.END)
            assert await c.inbytes(12) == struct.pack(">III", READ_XIP, 0, 4)
            await c.chkct(Control.END)
            await c.outct(Control.NACK)
            await c.outuint(99)
            await c.outct(Control.END)
            await c.chkct(Control.END)

        node.tiles[1].start(newer_server)
        with refused(99, match="code 99, which is not known"):
            await FlashChannel(channel.a).read(Part.XIP, 0, 4)


# Many clients, two chips, long reads.


async def test_server_reads_the_chip_in_pieces_and_others_run_meanwhile() -> None:
    model = bytes(range(256)) * (4 * KIB)
    async with flash_node(image([Parts(model)]), part=MX25R3235F) as node:
        largest = 0
        read = node.storage.read

        def watched(address: int, size: int) -> bytes:
            nonlocal largest
            largest = max(largest, size)
            return read(address, size)

        await node.engines[0].read_sizes()
        node.storage.read = watched  # type: ignore[method-assign]
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            assert await node.engines[0].read_model(len(model)) == model
            nursery.cancel_scope.cancel()
        assert largest == 4 * KIB
        assert turns >= len(model) // (4 * KIB)


async def test_two_servers_on_two_chips_of_a_node() -> None:
    async with open_node() as node:
        one = start_server(node, SMALL, image([Parts(b"one", b"1" * 9000)]), engines=1)
        two = start_server(node, SMALL, image([Parts(b"two", b"2" * 9000)]), engines=1)
        read = {}

        async def client(name: str, flash: FlashNode) -> None:
            read[name] = [
                await flash.engines[0].read_model(3),
                await flash.engines[0].read_parameters(0, 9000),
            ]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client, "one", one)
            nursery.start_soon(client, "two", two)
        assert read == {"one": [b"one", b"1" * 9000], "two": [b"two", b"2" * 9000]}
        node.stop()


@dataclass(frozen=True)
class Step:
    engine: int
    request: FlashRequest


ENGINES = [
    Parts(b"m0" * 3000, b"parameters of 0", b"operators 0", b"xip0" * 1200),
    Parts(None, b"q" * 5, None, b"z"),
    Parts(b"m2", None, b"o" * 4097, None),
]
ROUGHLY = st.one_of(st.integers(0, 20), st.sampled_from([4096, 4097, 4799, 4800, 4801, 0xFFFFFFFF]))
STEPS = st.builds(
    Step,
    st.integers(0, 3),
    st.one_of(
        st.just(FlashRequest(READ_MODEL)),
        st.builds(FlashRequest, st.sampled_from([0, 2, 3]), st.tuples(ROUGHLY, ROUGHLY)),
        st.builds(FlashRequest, st.integers(0, 40), st.lists(ROUGHLY, max_size=3).map(tuple)),
    ),
)


def expected(step: Step) -> bytes | FlashFailure:
    """What the request reads, by the image's definition."""
    parts = ENGINES[step.engine] if step.engine < len(ENGINES) else Parts()
    command, arguments = step.request.command, step.request.arguments
    if command == READ_MODEL:
        if arguments:
            return FlashFailure.BAD_REQUEST
        return FlashFailure.ABSENT if parts.model is None else parts.model
    if command == FlashCommand.READ_SIZES:
        if arguments:
            return FlashFailure.BAD_REQUEST
        found = (parts.model, parts.parameters, parts.operators, parts.xip)
        return struct.pack(">4I", *(len(part or b"") for part in found))
    if command == FlashCommand.READ_BOOT:
        return FlashFailure.BAD_REQUEST if arguments else bytes(NO_BOOT_SLOTS)
    names = {READ_PARAMETERS: parts.parameters, READ_OPERATORS: parts.operators, READ_XIP: parts.xip}
    if command not in names:
        return FlashFailure.UNKNOWN_COMMAND
    if len(arguments) != 2:
        return FlashFailure.BAD_REQUEST
    part = names[command]
    if part is None:
        return FlashFailure.ABSENT
    offset, size = arguments
    return part[offset : offset + size] if offset + size <= len(part) else FlashFailure.OUT_OF_RANGE


async def carry_out(flash: FlashChannel, request: FlashRequest, size: int) -> bytes | FlashFailure | int:
    try:
        if request == FlashRequest(READ_MODEL):
            return bytes(await flash.read_model(1 << 20))
        return await flash._transact(request, size)
    except FlashReadError as error:
        return error.code


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=in_ci(60, every_day=20))
def test_any_requests_of_several_clients_are_answered_as_the_image_says(steps: list[Step]) -> None:
    async def run() -> None:
        # the last engine's image ends with a model, so that its operators do not reach to the chip's end
        data = image([*ENGINES, Parts(), Parts(b"end")], VERSION)
        async with flash_node(data, engines=4) as node:

            async def client(engine: int) -> None:
                for step in steps:
                    if step.engine == engine:
                        wanted = expected(step)
                        size = len(wanted) if isinstance(wanted, bytes) else 0
                        assert await carry_out(node.engines[engine], step.request, size) == wanted

            async with trio.open_nursery() as nursery:
                for engine in range(4):
                    nursery.start_soon(client, engine)

    trio.run(run)


# Writing the data partition.


async def test_engines_and_loaders_may_ask_what_was_booted() -> None:
    async with flash_node(BOTH, loaders=1) as node:
        assert await node.engines[0].read_boot_report() == NO_BOOT_SLOTS
        assert await node.loaders[0].read_boot_report() == NO_BOOT_SLOTS


async def test_image_written_by_a_loader_is_read_after_reload() -> None:
    async with flash_node(BOTH, loaders=1) as node:
        flash, loader = node.engines[0], node.loaders[0]
        new = image([Parts(b"n" * 9000)], VERSION)
        progress: list[int] = []
        await loader.write_data(0, new, progress.append)
        assert progress == [4096, 8192, len(new)]
        assert await failure(flash, FlashRequest(READ_MODEL)) == FlashFailure.NO_IMAGE
        await loader.reload()
        assert await flash.read_model(9000) == b"n" * 9000
        assert await loader.read_data(0, len(new)) == new


async def test_chip_written_behind_the_servers_back_is_read_after_reload() -> None:
    async with flash_node(loaders=1) as node:
        assert await failure(node.engines[0], FlashRequest(READ_MODEL)) == FlashFailure.NO_IMAGE
        node.storage.write(0, BOTH)
        await node.loaders[0].reload()
        assert await node.engines[0].read_model(10) == b"model of 0"


@pytest.mark.parametrize("command", sorted(set(FlashCommand) - {FlashCommand.READ_BOOT}))
async def test_engines_and_loaders_have_commands_of_their_own(command: FlashCommand) -> None:
    async with flash_node(BOTH, loaders=1) as node:
        client = node.loaders[0] if command < 0x11 else node.engines[0]
        assert await failure(client, FlashRequest(command)) == FlashFailure.UNKNOWN_COMMAND


@pytest.mark.parametrize(("offset", "size"), [(56 * KIB, 1), (56 * KIB - 1, 2), (0xFFFFFFFF, 1)])
async def test_loader_stays_in_the_data_partition(offset: int, size: int) -> None:
    async with flash_node(BOTH, loaders=1, boot=b"b" * 8 * KIB) as node:
        write = FlashRequest(FlashCommand.WRITE_DATA, (offset,), bytes(size))
        assert await failure(node.loaders[0], write) == FlashFailure.OUT_OF_RANGE
        read = FlashRequest(FlashCommand.READ_DATA, (offset, size))
        assert await failure(node.loaders[0], read) == FlashFailure.OUT_OF_RANGE
        assert await node.engines[0].read_model(10) == b"model of 0"
        assert node.storage.read(0, 8 * KIB) == b"b" * 8 * KIB


async def test_piece_over_bytes_that_were_not_erased_is_found_out() -> None:
    async with flash_node(BOTH, loaders=1) as node:
        write = FlashRequest(FlashCommand.WRITE_DATA, (16,), b"\xff" * 16)
        assert await failure(node.loaders[0], write) == FlashFailure.CHIP_FAILED


# Partitions.


def test_partitions_are_whole_sectors_of_the_chip() -> None:
    from flash_server.chip.chip import FlashChip
    from flash_server.chip.storage import MemoryStorage

    chip = FlashChip(SMALL, MemoryStorage(SMALL.size))
    parts = divide(chip, 8 * KIB)
    assert [(part.name, part.start, part.size) for part in (parts.boot, parts.data)] == [
        ("boot", 0, 8 * KIB),
        ("data", 8 * KIB, 56 * KIB),
    ]
    for boot in (1, 4095, -4096, 68 * KIB):
        with pytest.raises(PartError):
            divide(chip, boot)


async def test_partition_refuses_what_lies_outside() -> None:
    async with flash_node() as node:
        partition = Partition(node.chip, "middle", 4 * KIB, 8 * KIB)
        assert await partition.read(8 * KIB, 0) == b""
        for offset, size in ((8 * KIB, 1), (-1, 1), (0, 8 * KIB + 1), (0, -1)):
            with pytest.raises(FlashError, match="do not fit the middle partition"):
                await partition.read(offset, size)
        with pytest.raises(FlashError, match="do not fit"):
            await partition.erase_sector(8 * KIB)
        await partition.program(250, b"abcdefghij")
        assert node.storage.read(4 * KIB + 250, 10) == b"abcdefghij"
