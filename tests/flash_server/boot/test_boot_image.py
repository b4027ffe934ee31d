"""Boot images: their bytes, which one wins, and upgrades that are cut, damaged or refused."""

import struct
import zlib

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from flash_server.boot.boot_image import (
    NO_BOOT_IMAGE,
    NO_BOOT_SLOTS,
    BootHeader,
    BootImageError,
    BootReason,
    BootReport,
    Slot,
    SlotFault,
    build_boot_image,
    build_boot_partition,
    choose,
    parse_boot_image,
)
from flash_server.boot.upgrade import Upgrade, VerifyError, boot_report
from flash_server.chip.chip import FlashChip
from flash_server.chip.partitions import divide
from flash_server.chip.storage import MemoryStorage
from flash_server.errors import StorageError
from flash_server.protocol import FlashCommand, FlashFailure, FlashReadError, FlashRequest
from tests.support.benches.flash_node import KIB, SMALL, FlashNode, Parts, flash_node, image, refused

BOOT = 32 * KIB
SLOT = 16 * KIB
FACTORY = build_boot_image(1, b"factory" * 500)
OLD = build_boot_image(2, b"old upgrade" * 400)
NEW = build_boot_image(3, bytes(index * 13 & 0xFF for index in range(9000)))


def header(version: int) -> BootHeader:
    return BootHeader(version=version, length=5, crc=0x1234)


def partition(factory: bytes = FACTORY, upgrade: bytes = b"") -> bytes:
    """A boot partition put together by hand."""
    return (factory.ljust(SLOT, b"\xff") + upgrade).ljust(BOOT, b"\xff")


def chip_with(boot: bytes) -> tuple[FlashChip, MemoryStorage]:
    storage = MemoryStorage(SMALL.size)
    storage.write(0, boot)
    return FlashChip(SMALL, storage), storage


# Images as values.


def test_bytes_of_an_image() -> None:
    fields = b"XSRV" + struct.pack("<HHIII", 1, 1, 7, 5, 0x3610A686)  # CRC-32 of "hello" as published
    assert build_boot_image(7, b"hello") == fields + struct.pack("<I", zlib.crc32(fields)) + b"hello"


@pytest.mark.parametrize("payload", [b"", b"1", b"123", b"1234", b"x" * 511, b"x" * 513])
def test_image_is_parsed_with_whatever_follows_it(payload: bytes) -> None:
    built = build_boot_image(0xFFFFFFFF, payload)
    assert parse_boot_image(built + b"\xff\xff") == (
        BootHeader(version=0xFFFFFFFF, length=len(payload), crc=zlib.crc32(payload)),
        payload,
    )


@pytest.mark.parametrize("version", [-1, 1 << 32])
def test_version_that_does_not_fit(version: int) -> None:
    with pytest.raises(BootImageError, match=str(version)):
        build_boot_image(version, b"")


@given(st.integers(0, len(NEW) - 1), st.integers(1, 255))
def test_any_changed_byte_is_found(at: int, change: int) -> None:
    damaged = bytearray(NEW)
    damaged[at] ^= change
    with pytest.raises(BootImageError):
        parse_boot_image(bytes(damaged))


@pytest.mark.parametrize("size", [0, 1, 23, 24, 25, len(NEW) - 1])
def test_image_cut_short(size: int) -> None:
    with pytest.raises(BootImageError, match=str(size if size < 24 else size - 24)):
        parse_boot_image(NEW[:size])


@pytest.mark.parametrize(("header_version", "kind"), [(2, 1), (1, 2), (0, 0)])
def test_header_of_another_version_or_kind(header_version: int, kind: int) -> None:
    fields = b"XSRV" + struct.pack("<HHIII", header_version, kind, 1, 0, 0)
    with pytest.raises(BootImageError, match=f"header version {header_version} and kind {kind}"):
        parse_boot_image(fields + struct.pack("<I", zlib.crc32(fields)))


# The choice.

EMPTY, BROKEN = SlotFault("erased", empty=True), SlotFault("broken")
FOREIGN = SlotFault("of another kind", foreign=True)


@pytest.mark.parametrize(
    ("factory", "upgrade", "slot", "reason"),
    [
        (header(1), EMPTY, Slot.FACTORY, BootReason.NO_UPGRADE),
        (header(1), BROKEN, Slot.FACTORY, BootReason.UPGRADE_BROKEN),
        (header(1), header(2), Slot.UPGRADE, BootReason.UPGRADE_NEWER),
        (header(2), header(2), Slot.UPGRADE, BootReason.UPGRADE_NEWER),
        (header(3), header(2), Slot.FACTORY, BootReason.UPGRADE_OLDER),
        (BROKEN, header(2), Slot.UPGRADE, BootReason.FACTORY_BROKEN),
        (EMPTY, header(0), Slot.UPGRADE, BootReason.FACTORY_BROKEN),
        (BROKEN, BROKEN, None, BootReason.NO_IMAGE),
        (EMPTY, BROKEN, None, BootReason.NO_IMAGE),
        (EMPTY, EMPTY, None, BootReason.NO_SLOTS),
        (FOREIGN, EMPTY, None, BootReason.NO_SLOTS),
        (FOREIGN, FOREIGN, None, BootReason.NO_SLOTS),
        (FOREIGN, BROKEN, None, BootReason.NO_IMAGE),
        (header(1), FOREIGN, Slot.FACTORY, BootReason.UPGRADE_BROKEN),
    ],
)
def test_which_image_wins(
    factory: BootHeader | SlotFault, upgrade: BootHeader | SlotFault, slot: Slot | None, reason: BootReason
) -> None:
    report = choose(factory, upgrade)
    assert (report.slot, report.reason) == (slot, reason)
    won = {Slot.FACTORY: factory, Slot.UPGRADE: upgrade, None: header(0)}[slot]
    assert isinstance(won, BootHeader)
    assert report.version == won.version


def test_report_in_bytes_and_text() -> None:
    report = BootReport(Slot.UPGRADE, 3, 9000, 0xABCDEF, BootReason.UPGRADE_NEWER)
    assert bytes(report) == struct.pack("<5I", 1, 3, 9000, 0xABCDEF, 3)
    assert str(report) == "upgrade version 3, 9000 bytes, CRC 00abcdef: the upgrade is the newest"
    assert bytes(NO_BOOT_IMAGE) == struct.pack("<5I", 0xFFFFFFFF, 0, 0, 0, 5)
    assert str(NO_BOOT_IMAGE) == "no image: no slot has a valid image"
    nothing = "no boot images: the boot partition is empty, or has no slots of this kind"
    assert str(NO_BOOT_SLOTS) == nothing
    for each in (report, NO_BOOT_IMAGE):
        assert BootReport.from_bytes(bytes(each)) == each


@pytest.mark.parametrize("data", [b"", bytes(19), bytes(21), struct.pack("<5I", 2, 0, 0, 0, 0), b"\xff" * 20])
def test_bytes_that_are_no_report(data: bytes) -> None:
    with pytest.raises(BootImageError, match="boot report"):
        BootReport.from_bytes(data)


# The partition.


def test_partition_built_from_images() -> None:
    assert build_boot_partition(BOOT, FACTORY, OLD) == partition(FACTORY, OLD)
    assert build_boot_partition(BOOT) == b"\xff" * BOOT


def test_upgrade_slot_begins_at_a_sector() -> None:
    built = build_boot_partition(20 * KIB, b"", OLD)
    assert built.index(b"XSRV") == 8 * KIB


@pytest.mark.parametrize("which", ["factory", "upgrade"])
def test_slot_is_filled_to_its_last_byte_and_no_further(which: str) -> None:
    def build(image: bytes) -> bytes:
        if which == "factory":
            return build_boot_partition(BOOT, image)
        return build_boot_partition(BOOT, b"", image)

    fits, too_long = (build_boot_image(1, bytes(SLOT - 24 + more)) for more in (0, 1))
    assert len(build(fits)) == BOOT
    with pytest.raises(BootImageError, match=f"{which} image of 16385 bytes, the slot has 16384"):
        build(too_long)
    with pytest.raises(BootImageError, match="begins with"):
        build(b"something else of enough bytes")


@pytest.mark.parametrize(
    ("boot", "slot", "version", "reason"),
    [
        (partition(), Slot.FACTORY, 1, BootReason.NO_UPGRADE),
        (partition(FACTORY, OLD), Slot.UPGRADE, 2, BootReason.UPGRADE_NEWER),
        (partition(FACTORY, OLD[:-1]), Slot.FACTORY, 1, BootReason.UPGRADE_BROKEN),
        (partition(FACTORY[:-1], OLD), Slot.UPGRADE, 2, BootReason.FACTORY_BROKEN),
        (partition(FACTORY, bytes(100)), Slot.FACTORY, 1, BootReason.UPGRADE_BROKEN),
        (partition(NEW, OLD), Slot.FACTORY, 3, BootReason.UPGRADE_OLDER),
        (partition(b"", b""), None, 0, BootReason.NO_SLOTS),
        (b"", None, 0, BootReason.NO_SLOTS),
        (b"\xff" * 4 * KIB, None, 0, BootReason.NO_SLOTS),
    ],
)
async def test_report_of_a_chip(boot: bytes, slot: Slot | None, version: int, reason: BootReason) -> None:
    chip, _ = chip_with(boot)
    report = await boot_report(divide(chip, len(boot)).boot)
    assert (report.slot, report.version, report.reason) == (slot, version, reason)


async def test_header_whose_length_leaves_the_slot_is_broken() -> None:
    """Its CRC would be that of bytes of the data partition: they do not count."""
    chip, storage = chip_with(partition())
    too_long = build_boot_image(9, bytes(SLOT))
    storage.write(SLOT, too_long)
    report = await boot_report(divide(chip, BOOT).boot)
    assert (report.slot, report.reason) == (Slot.FACTORY, BootReason.UPGRADE_BROKEN)


# Upgrades through the server.


async def upgrade(node: FlashNode, image: bytes) -> None:
    await node.loaders[0].write_server(0, image)
    await node.loaders[0].finish_server()


async def after_reset(node: FlashNode) -> BootReport:
    await node.service.reset()
    return node.service.boot_report


@pytest.mark.parametrize("piece", [1, 3, 255, 256, 512, 4096, 10000])
@pytest.mark.parametrize("old", [b"", OLD], ids=["empty", "over another"])
async def test_upgrade_in_pieces_of_any_size(piece: int, old: bytes) -> None:
    new = NEW if piece > 3 else build_boot_image(3, NEW[:700])
    async with flash_node(boot=partition(FACTORY, old), loaders=1) as node:
        for at in range(0, len(new), piece):
            await node.loaders[0].write_server(at, new[at : at + piece])
        await node.loaders[0].finish_server()
        assert node.storage.read(SLOT, len(new)) == new
        assert node.storage.read(0, SLOT) == partition()[:SLOT]
        assert (await node.loaders[0].read_boot_report()).version == (2 if old else 1)
        assert (await after_reset(node)).version == 3
        assert await node.loaders[0].read_boot_report() == node.service.boot_report


@pytest.mark.parametrize("size", [0, 1, 231, 232, 233, 255, 256, 4072, 4073, SLOT - 24])
async def test_upgrade_of_any_length(size: int) -> None:
    new = build_boot_image(3, NEW[:size].ljust(size, b"."))
    async with flash_node(boot=partition(), loaders=1) as node:
        await upgrade(node, new)
        assert (await after_reset(node)).slot is Slot.UPGRADE
        assert node.storage.read(SLOT, len(new)) == new


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_padding_to_words_is_dropped(size: int) -> None:
    async with flash_node(boot=partition(), loaders=1) as node:
        await upgrade(node, NEW + bytes(size))
        assert node.storage.read(SLOT, len(NEW) + 3) == NEW + b"\xff\xff\xff"


@pytest.mark.parametrize(
    "wrong",
    [
        b"not an image of ours, but of another program" * 20,
        b"\xff" * 1000,
        NEW[:4] + b"\x02" + NEW[5:],
        build_boot_image(9, bytes(SLOT)),
        b"",
        NEW[:23],
    ],
)
async def test_image_refused_before_anything_is_erased(wrong: bytes) -> None:
    before = partition(FACTORY, OLD)
    async with flash_node(boot=before, loaders=1) as node:
        with refused(FlashFailure.BAD_SERVER_IMAGE if wrong else FlashFailure.OUT_OF_ORDER):
            await upgrade(node, wrong)
        assert node.storage.read(0, BOOT) == before
        assert (await after_reset(node)).version == 2


@pytest.mark.parametrize(
    ("wrong", "left"),
    [
        (NEW[:-1], Slot.FACTORY),
        (NEW[:-1] + b"\0", Slot.FACTORY),
        (NEW[:100] + b"\0" + NEW[101:], Slot.FACTORY),
        (NEW + bytes(4), Slot.FACTORY),
        (NEW[:24], Slot.UPGRADE),
        (NEW[:255], Slot.UPGRADE),
        (NEW[:256], Slot.FACTORY),
    ],
)
async def test_damaged_image_is_never_booted(wrong: bytes, left: Slot) -> None:
    """Once the first page was full the older upgrade is gone, and the factory image is what remains."""
    async with flash_node(boot=partition(FACTORY, OLD), loaders=1) as node:
        with refused(FlashFailure.BAD_SERVER_IMAGE):
            await upgrade(node, wrong)
        report = await after_reset(node)
        assert (report.slot, report.version) == (left, 1 + left)
        await upgrade(node, NEW)
        assert (await after_reset(node)).version == 3


async def test_pieces_out_of_order() -> None:
    async with flash_node(boot=partition(), loaders=1) as node:
        loader = node.loaders[0]
        for first, second in ((512, 1), (512, 511), (512, 513), (512, 1024)):
            await loader.write_server(0, NEW[:first])
            with refused(FlashFailure.OUT_OF_ORDER):
                await loader.write_server(second, b"x")
            with refused(FlashFailure.OUT_OF_ORDER):
                await loader.write_server(first, b"x")  # that upgrade is over
        with pytest.raises(FlashReadError):
            await loader.finish_server()


async def test_upgrade_begun_again_counts_from_its_new_beginning() -> None:
    async with flash_node(boot=partition(), loaders=1) as node:
        await node.loaders[0].write_server(0, OLD[:3000])
        await upgrade(node, NEW)
        assert (await after_reset(node)).version == 3


async def test_upgrade_does_not_outlast_a_reset() -> None:
    async with flash_node(boot=partition(), loaders=1) as node:
        await node.loaders[0].write_server(0, NEW[:5000])
        assert (await after_reset(node)).version == 1
        with refused(FlashFailure.OUT_OF_ORDER):
            await node.loaders[0].write_server(5000, NEW[5000:])


async def test_loader_cannot_go_on_with_the_upgrade_of_another() -> None:
    async with flash_node(boot=partition(), loaders=2) as node:
        for finish in (False, True):
            await node.loaders[0].write_server(0, NEW)
            with refused(FlashFailure.OUT_OF_ORDER):
                await (
                    node.loaders[1].finish_server()
                    if finish
                    else node.loaders[1].write_server(len(NEW), b"x")
                )
        assert (await after_reset(node)).version == 1


async def test_engines_read_on_during_an_upgrade() -> None:
    async with flash_node(image([Parts(b"model")]), boot=partition(), loaders=1) as node:
        await node.loaders[0].write_server(0, NEW[:5000])
        assert await node.engines[0].read_model(5) == b"model"
        await node.loaders[0].write_server(5000, NEW[5000:])
        await node.loaders[0].finish_server()
        assert await node.engines[0].read_model(5) == b"model"


async def test_data_partition_cannot_reach_the_boot_partition() -> None:
    async with flash_node(image([Parts(b"model")]), boot=partition(), loaders=1) as node:
        await node.loaders[0].write_data(0, b"\0" * 32 * KIB)
        assert node.storage.read(0, BOOT) == partition()


async def test_piece_longer_than_the_server_takes() -> None:
    async with flash_node(boot=partition(), loaders=1) as node:
        with refused(FlashFailure.BAD_REQUEST):
            await node.loaders[0]._transact(FlashRequest(FlashCommand.WRITE_SERVER, (0,), NEW[:4097]), 0)


# Power cuts and chips that fail.


class PowerCut(Exception):
    """The supply went away."""


class DyingChip(FlashChip):
    """Loses its supply before the program or erase of that number."""

    def __init__(self, storage: MemoryStorage, changes: int) -> None:
        super().__init__(SMALL, storage)
        self._left = changes

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise PowerCut

    async def program_page(self, address: int, data: bytes) -> None:
        self._spend()
        await super().program_page(address, data)

    async def erase_sector(self, address: int) -> None:
        self._spend()
        await super().erase_sector(address)


@pytest.mark.parametrize("old", [b"", OLD], ids=["empty", "over another"])
def test_cut_after_any_page_leaves_the_old_image_or_the_whole_new_one(old: bytes) -> None:
    async def run(changes: int) -> int:
        storage = MemoryStorage(SMALL.size)
        storage.write(0, partition(FACTORY, old))
        upgrade = Upgrade(divide(DyingChip(storage, changes), BOOT).boot)
        finished = False
        try:
            await upgrade.write(NEW)
            await upgrade.finish()
            finished = True
        except PowerCut:
            pass
        assert storage.read(0, SLOT) == partition()[:SLOT]
        report = await boot_report(divide(FlashChip(SMALL, storage), BOOT).boot)
        allowed = {3} if finished else {1, 2} if old and changes == 0 else {1}
        assert report.version in allowed
        return report.version

    pages, sectors = -(-len(NEW) // 256), -(-len(NEW) // 4096)
    versions = [trio.run(run, changes) for changes in range(pages + sectors + 1)]
    assert versions.index(3) == pages + sectors
    assert versions[0] == (2 if old else 1)


@pytest.mark.parametrize("stuck", [SLOT, SLOT + 100, SLOT + 300, SLOT + len(NEW) - 1])
async def test_chip_that_does_not_keep_a_byte(stuck: int) -> None:
    chip, storage = chip_with(partition())
    write = storage.write

    def worn(address: int, data: bytes) -> None:
        write(address, data)
        write(stuck, b"\xff")

    storage.write = worn  # type: ignore[method-assign]
    upgrade = Upgrade(divide(chip, BOOT).boot)
    await upgrade.write(NEW)
    with pytest.raises(VerifyError, match="reads back"):
        await upgrade.finish()
    report = await boot_report(divide(chip, BOOT).boot)
    assert (report.slot, report.reason) == (Slot.FACTORY, BootReason.NO_UPGRADE)


async def test_chip_that_cannot_be_read_at_reset() -> None:
    async with flash_node(boot=partition(), loaders=1) as node:
        assert (await node.loaders[0].read_boot_report()).version == 1

        def gone(address: int, size: int) -> bytes:
            raise StorageError("the file is gone")

        node.storage.read = gone  # type: ignore[method-assign]
        assert await after_reset(node) == NO_BOOT_IMAGE
        assert node.log[-2:] == [
            "flash: the boot partition cannot be read: the file is gone",
            "flash: the file is gone",
        ]
