"""The flash chip: what its commands do, what it ignores, its protection, its time, its verbs."""

from collections.abc import Callable

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from flash_server.chip.chip import FlashChip
from flash_server.chip.nor import COMMANDS, Nor, StatusBit
from flash_server.chip.part import MX25R3235F, MX25R6435F, Erase, FlashPart
from flash_server.chip.sfdp import sfdp_of
from flash_server.chip.storage import MemoryStorage
from flash_server.errors import PartError, ProtectedError

WREN, WRDI, RDSR, WRSR, RDCR, RDID = b"\x06", b"\x04", b"\x05", b"\x01", b"\x15", b"\x9f"
SMALL = FlashPart("small", 32768, 0xC22817, erases=(Erase(0x20, 4096, 0.048), Erase(0x52, 16384, 0.24)))
END = MX25R6435F.size


def at(opcode: int, address: int, data: bytes = b"") -> bytes:
    return bytes((opcode,)) + address.to_bytes(3, "big") + data


class Wire:
    """A state machine whose operations are over at once."""

    def __init__(self, part: FlashPart = MX25R6435F) -> None:
        self.nor = Nor(part, MemoryStorage(part.size))

    def __call__(self, out: bytes, read: int = 0) -> bytes:
        answer = self.nor.execute(out, read)
        if self.nor.operation is not None:
            self.nor.finish()
        return answer

    def enabled(self, out: bytes) -> None:
        self(WREN)
        self(out)

    def set_status(self, *registers: int) -> None:
        self.enabled(WRSR + bytes(registers))

    @property
    def status(self) -> int:
        return self(RDSR, 1)[0]


def changed(wire: Wire) -> list[int]:
    """Addresses that are not erased."""
    storage, found = wire.nor.storage, []
    for start in range(0, storage.size, 4096):
        piece = storage.read(start, 4096)
        if piece != b"\xff" * 4096:
            found += [start + place for place, byte in enumerate(piece) if byte != 0xFF]
    return found


# Identity


@pytest.mark.parametrize(("part", "density"), [(MX25R6435F, 0x17), (MX25R3235F, 0x16)])
def test_identity(part: FlashPart, density: int) -> None:
    wire = Wire(part)
    assert wire(RDID, 3) == bytes((0xC2, 0x28, density))
    assert wire(at(0x90, 0), 4) == bytes((0xC2, density, 0xC2, density))
    assert wire(at(0x90, 1), 2) == bytes((density, 0xC2))
    assert wire(at(0xAB, 0), 2) == bytes((density, density))


def test_table_of_parameters() -> None:
    wire = Wire()
    assert wire(at(0x5A, 0, b"\0"), 112) == sfdp_of(MX25R6435F)
    assert wire(at(0x5A, 110, b"\0"), 4) == b"\xff" * 4
    assert wire(at(0x5A, 0xFFFFFF, b"\0"), 2) == b"\xff" * 2


# Reading


@pytest.mark.parametrize(
    "header",
    [
        at(0x03, 16),
        at(0x0B, 16, bytes(1)),
        at(0x3B, 16, bytes(1)),
        at(0xBB, 16, bytes(1)),
        at(0x6B, 16, bytes(1)),
        at(0xEB, 16, bytes(3)),
    ],
)
def test_every_read_command(header: bytes) -> None:
    wire = Wire()
    wire.nor.storage.write(16, b"content")
    assert wire(header, 9) == b"content\xff\xff"


def test_dummy_bytes_may_be_clocked_as_read_ones() -> None:
    wire = Wire()
    wire.nor.storage.write(16, b"content")
    assert wire(at(0x0B, 16), 3) == b"\xffco"


def test_bytes_sent_past_the_header_count_as_read() -> None:
    wire = Wire()
    wire.nor.storage.write(16, b"content")
    assert wire(at(0x03, 16, b"??"), 3) == b"nte"


def test_a_read_wraps_at_the_end_of_the_array() -> None:
    wire = Wire()
    wire.nor.storage.write(END - 2, b"zz")
    wire.nor.storage.write(0, b"aa")
    assert wire(at(0x03, END - 2), 5) == b"zzaa\xff"
    assert wire(at(0x03, 0xFFFFFE), 2) == b"zz"


def test_a_read_longer_than_the_array() -> None:
    wire = Wire(SMALL)
    wire.nor.storage.write(SMALL.size - 1, b"z")
    assert (
        wire(at(0x03, SMALL.size - 1), 2 * SMALL.size + 1) == b"z" + (b"\xff" * (SMALL.size - 1) + b"z") * 2
    )


@pytest.mark.parametrize("opcode", [0x6B, 0xEB])
def test_quad_reads_want_quad_enable(opcode: int) -> None:
    wire = Wire()
    wire.nor.storage.write(0, bytes(8))
    wire.set_status(0)
    assert wire(at(opcode, 0, bytes(3)), 4) == b"\xff" * 4


# Programming and erasing


@pytest.mark.parametrize("opcode", [0x02, 0x38])
def test_a_program_clears_bits_only(opcode: int) -> None:
    wire = Wire()
    wire.enabled(at(opcode, 0x100, b"\xf0\x0f"))
    wire.enabled(at(opcode, 0x100, b"\xaa\xff"))
    assert wire(at(0x03, 0xFF), 4) == b"\xff\xa0\x0f\xff"


def test_a_program_wraps_within_its_page() -> None:
    wire = Wire()
    wire.enabled(at(0x02, 0x1FE, b"\1\2\3\4"))
    assert changed(wire) == [0x100, 0x101, 0x1FE, 0x1FF]
    assert wire(at(0x03, 0x100), 2) + wire(at(0x03, 0x1FE), 2) == b"\3\4\1\2"


def test_of_more_than_a_page_the_last_bytes_count() -> None:
    wire = Wire()
    wire.enabled(at(0x02, 0, bytes(2) + bytes(range(1, 255)) + b"\xfe\xfd"))
    assert wire(at(0x03, 0), 257) == b"\xfe\xfd" + bytes(range(1, 255)) + b"\xff"


@pytest.mark.parametrize(("opcode", "size"), [(0x20, 4096), (0x52, 32768), (0xD8, 65536)])
def test_an_erase_clears_its_block_alone(opcode: int, size: int) -> None:
    wire = Wire()
    start = 3 * size
    for place in (start - 1, start, start + size - 1, start + size):
        wire.nor.storage.write(place, b"\0")
    wire.enabled(at(opcode, start + size - 1))
    assert changed(wire) == [start - 1, start + size]


@pytest.mark.parametrize("opcode", [0x60, 0xC7])
def test_a_chip_erase_clears_all(opcode: int) -> None:
    wire = Wire(SMALL)
    for place in range(0, SMALL.size, 4095):
        wire.nor.storage.write(place, b"\0")
    wire.enabled(bytes((opcode,)))
    assert changed(wire) == []


CHANGES = [
    at(0x02, 0, b"\0"),
    at(0x38, 0, b"\0"),
    at(0x20, 4096),
    at(0x52, 0),
    at(0xD8, 0),
    b"\x60",
    b"\xc7",
    b"\x01\xbc",
]


@pytest.mark.parametrize("change", CHANGES, ids=bytes.hex)
def test_nothing_changes_without_write_enable(change: bytes) -> None:
    wire = Wire()
    wire.nor.storage.write(4096, b"\0")
    wire(change)
    wire.enabled(WRDI)
    wire(change)
    assert (changed(wire), wire.status) == ([4096], 0x40)


@pytest.mark.parametrize("change", CHANGES, ids=bytes.hex)
def test_each_change_wants_a_write_enable_of_its_own(change: bytes) -> None:
    wire = Wire()
    wire(WREN)
    assert wire.status & 0x02
    wire(change)
    assert not wire.status & 0x02


@pytest.mark.parametrize("out", [*(at(each, 0, b"\0") for each in (0x20, 0x52, 0xD8)), b"\x60\0", b"\xc7\0"])
def test_an_erase_with_bytes_too_many_is_ignored(out: bytes) -> None:
    wire = Wire()
    wire.nor.storage.write(0, b"\0")
    wire.enabled(out)
    assert changed(wire) == [0]


@pytest.mark.parametrize("out", [b"\x02", b"\x02\0\0", b"\x02\0\0\0", b"\x20\0\0", b"\x06\0", b""])
def test_commands_cut_short_or_too_long_are_ignored(out: bytes) -> None:
    wire = Wire()
    if out[:1] != WREN:
        wire(WREN)
    wire(out)
    assert (changed(wire), wire.status & 0x02) == ([], 0x02 if out[:1] != WREN else 0)


@pytest.mark.parametrize("opcode", sorted(set(range(256)) - set(COMMANDS)))
def test_unknown_commands_are_ignored(opcode: int) -> None:
    wire = Wire(SMALL)
    wire(WREN)
    assert wire(at(opcode, 0, bytes(4)), 4) == b"\xff" * 4
    assert (changed(wire), wire.status) == ([], 0x42)


# Status, protection, power


def test_the_status_repeats_while_it_is_clocked() -> None:
    assert Wire()(RDSR, 3) == b"\x40\x40\x40"


@pytest.mark.parametrize(
    ("level", "blocks"),
    [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 64), (8, 128), (15, 128)],
)
@pytest.mark.parametrize("bottom", [False, True])
def test_block_protection(level: int, blocks: int, bottom: bool) -> None:
    """MX25R6435F data sheet, table "Protected area sizes"."""
    wire = Wire()
    wire.set_status(level << 2, 0x08 if bottom else 0)
    size = blocks * 65536
    protected = range(size) if bottom else range(END - size, END)
    bounds = {0, protected.start - 1, protected.start, protected.stop - 1, protected.stop, END - 1}
    for place in bounds - {-1, END}:
        wire.enabled(at(0x02, place, b"\0"))
        done = wire(at(0x03, place), 1) == b"\0"
        assert done == (place not in protected), hex(place)
        assert not wire.status & 0x02


def test_a_protected_block_is_not_erased() -> None:
    wire = Wire()
    wire.nor.storage.write(END - 1, b"\0")
    wire.set_status(0x04)
    for out in (at(0x20, END - 1), at(0xD8, END - 1), b"\x60"):
        wire.enabled(out)
    assert changed(wire) == [END - 1]


def test_the_bottom_bit_can_not_be_cleared() -> None:
    wire = Wire()
    wire.set_status(0x40, 0x08, 0x02)
    wire.set_status(0x40, 0x00, 0x00)
    assert wire(RDCR, 3) == b"\x08\x00\x08"


def test_write_protect_pin_locks_the_status() -> None:
    wire = Wire()
    wire.set_status(0x80)
    wire.nor.write_protect_low = True
    wire.set_status(0x04)
    assert wire.status & ~0x02 == 0x80
    wire.nor.write_protect_low = False
    wire.set_status(0xC4)
    wire.nor.write_protect_low = True  # a data line, once quad is enabled
    wire.set_status(0x40)
    assert wire.status == 0x40


def test_power_down_ignores_commands_until_the_next_select() -> None:
    wire = Wire()
    wire(b"\xb9")
    assert wire(RDID, 3) == b"\xff\xff\xff"
    assert wire(RDID, 3) == b"\xc2\x28\x17"


def test_reset_takes_both_commands_in_a_row() -> None:
    wire = Wire()
    wire(WREN)
    for out in (b"\x99", b"\x66", RDID, b"\x99"):
        wire(out, 0)
    assert wire.status == 0x42
    wire(b"\x66")
    wire(b"\x99")
    assert wire.status == 0x40


def test_while_busy_only_the_registers_are_read() -> None:
    nor = Nor(MX25R6435F, MemoryStorage(END))
    nor.execute(WREN)
    nor.execute(at(0x02, 0, b"\0"))
    assert nor.operation == 0.000_896
    assert nor.execute(RDSR, 1) == b"\x43"
    assert nor.execute(RDCR, 1) == b"\x00"
    for out in (RDID, at(0x03, 0), at(0x5A, 0, b"\0")):
        assert nor.execute(out, 2) == b"\xff\xff"
    nor.execute(at(0x20, 0))
    nor.execute(WRDI)
    nor.finish()
    assert (nor.execute(RDSR, 1), nor.execute(at(0x03, 0), 1)) == (b"\x40", b"\0")


# Against a model: bytes whose bits are only cleared, sectors that are set


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("program"), st.integers(0, 2 * SMALL.size - 1), st.binary(min_size=1, max_size=600)
        ),
        st.tuples(st.just("erase"), st.integers(0, 2 * SMALL.size - 1), st.sampled_from([4096, 16384])),
        st.tuples(st.just("forget"), st.integers(0, SMALL.size - 1), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 2 * SMALL.size - 1), st.integers(0, 700)),
    ),
    max_size=20,
)


@given(STEPS)
def test_against_a_model(steps: list[tuple[str, int, int | bytes]]) -> None:
    wire, model = Wire(SMALL), bytearray(b"\xff" * SMALL.size)
    for verb, address, what in steps:
        place = address % SMALL.size
        if verb == "program":
            assert isinstance(what, bytes)
            wire.enabled(at(0x02, address, what))
            page: dict[int, int] = {}
            for number, byte in enumerate(what):
                page[place & ~0xFF | (place + number) & 0xFF] = byte
            for each, byte in page.items():
                model[each] &= byte
        elif verb == "erase":
            assert isinstance(what, int)
            wire.enabled(at(0x20 if what == 4096 else 0x52, address))
            start = place - place % what
            model[start : start + what] = b"\xff" * what
        elif verb == "forget":
            wire(at(0x02, address, b"\0"))
        else:
            assert isinstance(what, int)
            expected = bytes(model[(place + number) % SMALL.size] for number in range(what))
            assert wire(at(0x03, address), what) == expected
    assert wire.nor.storage.read(0, SMALL.size) == model


@given(st.lists(st.tuples(st.binary(max_size=8), st.integers(0, 300)), max_size=30))
def test_any_bytes_on_the_wire_are_answered(transactions: list[tuple[bytes, int]]) -> None:
    wire = Wire(SMALL)
    for out, read in transactions:
        assert len(wire(out, read)) == read


# The verbs


def chip_of(part: FlashPart = MX25R6435F, **settings: object) -> FlashChip:
    return FlashChip(part, MemoryStorage(part.size), **settings)  # type: ignore[arg-type]  # checked by the call


async def test_verbs() -> None:
    chip = chip_of()
    assert await chip.read_id() == b"\xc2\x28\x17"
    await chip.write_enable()
    assert await chip.read_status() == StatusBit.WEL | StatusBit.QE
    await chip.program_page(0x1FF, b"\1\2")
    assert await chip.read_status() == StatusBit.QE
    assert await chip.read(0x1FF, 1) + await chip.read(0x100, 2) == b"\1\2\xff"
    await chip.write_enable()
    await chip.erase_sector(0xFFF)
    assert await chip.read(0, 4097) == b"\xff" * 4097


async def test_verbs_tell_why_the_chip_refuses() -> None:
    chip = chip_of()
    with pytest.raises(
        ProtectedError, match="program at 0x000010 of MX25R6435F: the chip is not write-enabled"
    ):
        await chip.program_page(0x10, b"a")
    await chip.transact(WREN, 0)
    await chip.transact(WRSR + b"\x04", 0)
    await chip.write_enable()
    with pytest.raises(ProtectedError, match=r"erase at 0x7FF000.*0x7F0000 to 0x7FFFFF is protected"):
        await chip.erase_sector(END - 1)


@pytest.mark.parametrize(
    "verb",
    [
        lambda chip: chip.read(END, 1),
        lambda chip: chip.read(-1, 1),
        lambda chip: chip.program_page(END, b"a"),
        lambda chip: chip.erase_sector(END),
    ],
)
async def test_addresses_that_do_not_exist(verb: Callable[[FlashChip], object]) -> None:
    with pytest.raises(PartError, match="MX25R6435F ends at 0x800000"):
        await verb(chip_of())  # type: ignore[misc]


@pytest.mark.parametrize("clock", [0, -1, 50_000_001])
def test_clocks_that_the_part_does_not_reach(clock: int) -> None:
    with pytest.raises(PartError, match=f"a clock of {clock} Hz; it reaches 50000000"):
        chip_of(clock_hz=clock)


def test_storage_of_another_size() -> None:
    with pytest.raises(PartError, match="storage of 10 bytes for MX25R6435F"):
        FlashChip(MX25R6435F, MemoryStorage(10))


# Time


def timed(work: Callable[[FlashChip], object], clock_hz: int = 25_000_000, width: int = 4) -> float:
    async def main() -> float:
        chip = chip_of(clock_hz=clock_hz, width=width, pace=trio.sleep)
        start = trio.current_time()
        await work(chip)  # type: ignore[misc]
        return trio.current_time() - start

    return trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("size", "clock", "seconds"),
    [(0, 25_000_000, 20 / 25e6), (4096, 25_000_000, 8212 / 25e6), (4096, 50_000_000, 8212 / 50e6)],
)
def test_a_quad_read_takes_20_clocks_and_2_a_byte(size: int, clock: int, seconds: float) -> None:
    assert timed(lambda chip: chip.read(0, size), clock) == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize(("width", "clocks"), [(1, 8 + 32 + 8 * 4096), (2, 8 + 16 + 4 * 4096)])
def test_a_read_on_fewer_lines_takes_more_clocks(width: int, clocks: int) -> None:
    assert timed(lambda chip: chip.read(0, 4096), width=width) == pytest.approx(clocks / 25e6, rel=1e-6)


def test_lines_that_no_chip_has() -> None:
    with pytest.raises(PartError, match="MX25R6435F: 3 lines; data cross on 1, 2, 4"):
        chip_of(width=3)


def test_programs_and_erases_take_their_typical_times() -> None:
    async def program(chip: FlashChip) -> None:
        await chip.write_enable()
        await chip.program_page(0, bytes(256))

    async def erase(chip: FlashChip) -> None:
        await chip.write_enable()
        await chip.erase_sector(0)

    assert timed(program) == pytest.approx((8 + 14 + 512) / 25e6 + 0.000_896, rel=1e-6)
    assert timed(erase) == pytest.approx((8 + 32) / 25e6 + 0.048, rel=1e-6)


def test_the_wire_shows_that_the_chip_is_busy() -> None:
    async def work(chip: FlashChip) -> None:
        await chip.transact(WREN, 0)
        await chip.transact(at(0x20, 0), 0)
        assert await chip.transact(RDSR, 1) == b"\x43"
        assert await chip.transact(RDID, 1) == b"\xff"
        await trio.sleep(0.0479)
        assert await chip.transact(RDSR, 1) == b"\x43"
        await trio.sleep(0.0001)
        assert await chip.transact(RDSR, 1) == b"\x40"

    timed(work)


def test_a_verb_waits_for_what_the_wire_has_begun() -> None:
    async def work(chip: FlashChip) -> None:
        await chip.transact(WREN, 0)
        await chip.transact(at(0x02, 0, b"a"), 0)
        assert await chip.read(0, 2) == b"a\xff"

    assert timed(work) == pytest.approx((8 + 32 + 8 + 24) / 25e6 + 0.000_896, rel=1e-6)


def test_a_programmer_has_its_own_clock() -> None:
    assert timed(lambda chip: chip.transact(RDID, 3, clock_hz=1_000_000)) == pytest.approx(32e-6, rel=1e-6)


def test_a_cancelled_verb_has_been_done_whole() -> None:
    async def work(chip: FlashChip) -> None:
        await chip.write_enable()
        with trio.move_on_after(0.001):
            await chip.erase_sector(0)
        assert (await chip.read_status()) & StatusBit.WIP
        await chip.write_enable()  # waits for the rest
        assert trio.current_time() == pytest.approx(0.048, abs=1e-5)
        with trio.move_on_after(0):
            await chip.program_page(0, b"a")
        assert await chip.read(0, 1) == b"\xff"

    timed(work)


async def test_a_pace_that_takes_no_time_does_not_hang() -> None:
    passed: list[float] = []

    async def pace(seconds: float) -> None:
        passed.append(seconds)
        await trio.lowlevel.checkpoint()

    chip = chip_of(pace=pace)
    await chip.write_enable()
    await chip.erase_sector(0)
    assert passed[-1] == pytest.approx(0.048, abs=0.001)


async def test_clients_share_the_bus() -> None:
    chip = chip_of()
    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(chip.read, number, 4096)
        await wait_all_tasks_blocked()
    assert await chip.read(0, 1) == b"\xff"
