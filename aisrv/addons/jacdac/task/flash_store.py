"""Flash storage of a Jacdac device: the engines' models, and the inputs of the Sensor Aggregator.

A model replaces the engine's model in the image of the data partition: it goes to free sectors, its first 8
bytes last, and then a journal changes the headers (`flash_server.image.journal`). Stopped at any moment, the
image has the old model or the new one, and all else as it was. The inputs go to the last sector of the data
partition: "jdsa", u16 length, u16 CRC, bytes.
"""

import binascii
import logging
import struct
from collections import deque
from typing import Final

from aisrv.xcore.mutex import Mutex
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.signal import Signal
from flash_server.client.flash_channel import FlashChannel
from flash_server.errors import FlashError, LayoutError
from flash_server.image.headers import LENGTH_BYTES
from flash_server.image.journal import (
    CLAIM_BYTES,
    CRC_OFFSET,
    RECORD_BYTES,
    SETTINGS_MAGIC,
    Claim,
    ReservedSectors,
    is_claimed,
)
from flash_server.image.replacement import NoRoomError, Replacement, replace_model

logger = logging.getLogger(__name__)

SECTOR: Final = 4096
MOST_SETTINGS: Final = 16
"""Settings that wait to be written."""
FIRST_BYTES: Final = 8
"""Bytes of a model that are written last."""
HEADERS: Final = SECTOR
"""Bytes of headers and alignment beside a model."""

_SETTING: Final = struct.Struct("<4sHH")


class ChipStore:
    """The data partition of one chip, for one user at a time."""

    def __init__(self, flash: FlashChannel, data_bytes: int, engines: int, sector: int = SECTOR) -> None:
        """Use a loader's channel; `engines` have their models on the chip. `sector` is the bytes of one."""
        self._flash = flash
        self._engines = engines
        self._sector = sector
        self._places = ReservedSectors(data_bytes, sector)
        self._lock = Mutex(flash.runtime, "the data partition")

    @property
    def runtime(self) -> Runtime:
        """Runtime that all resources of its node share."""
        return self._flash.runtime

    @property
    def image_bytes(self) -> int:
        """Bytes for images: all but the sectors at the end."""
        return self._places.image_end

    async def replace_model(self, engine: int, model: bytes) -> None:
        """Store a model, or delete it if `model` is empty. Raises FlashError.

        Where there is no room for the new model beside the old one, the old one is deleted first.
        """
        async with self._lock:
            try:
                await self._replace(engine, model)
            except BaseException:
                await self._flash.reload()
                raise

    async def read_setting(self) -> bytes:
        """Return the bytes in the last sector; empty if there are none."""
        place = self._places.settings
        async with self._lock:
            head = await self._flash.read_data(place, _SETTING.size)
            mark, length, crc = _SETTING.unpack(head)
            if mark != SETTINGS_MAGIC or length > self._sector - _SETTING.size:
                return b""
            data = await self._flash.read_data(place + _SETTING.size, length)
        return data if binascii.crc_hqx(data, 0xFFFF) == crc else b""

    async def write_setting(self, data: bytes) -> None:
        """Store bytes in the last sector. Raises FlashError, also if the image reaches into it."""
        place = self._places.settings
        async with self._lock:
            sector = await self._flash.read_data(place, self._sector)
            if sector.strip(b"\xff") and not sector.startswith(SETTINGS_MAGIC):
                raise LayoutError("the image in flash takes the last sector")
            head = _SETTING.pack(SETTINGS_MAGIC, len(data), binascii.crc_hqx(data, 0xFFFF))
            try:
                await self._flash.write_data(place, head + data)
            finally:
                await self._flash.reload()

    async def _replace(self, engine: int, model: bytes) -> None:
        if not self.image_bytes:
            raise LayoutError("the data partition is too small for a model and a journal")
        stored = await self._undo(await self._flash.read_data(0, self.image_bytes))
        try:
            replacements = [replace_model(stored, engine, self._engines, model, self._sector)]
        except NoRoomError:
            deletion = replace_model(stored, engine, self._engines, b"", self._sector)
            replacement = replace_model(deletion.contents, engine, self._engines, model, self._sector)
            replacements = [deletion, replacement]
        for each in replacements:
            await self._change(each)

    async def _change(self, replacement: Replacement) -> None:
        await self._check(replacement)
        await self._flash.write_data(self._places.claim, bytes(replacement.claim))
        if not replacement.is_empty:
            await self._write_parts(replacement)
            await self._write_journal(replacement)
        await self._erase(0)
        await self._flash.reload()  # which makes the change
        if await self._flash.read_data(0, self._sector) != replacement.change.sectors[0][1]:
            raise FlashError("the chip does not hold the headers that were written")
        await self._erase_journal()
        await self._flash.reload()

    async def _check(self, replacement: Replacement) -> None:
        """Raise FlashReadError where an engine runs code in place from a sector that is to change."""
        for start, data in replacement.written:
            await self._flash.check_write(start, len(data))
        for start, contents in replacement.change.sectors:
            await self._flash.check_write(start, len(contents))
        erased = replacement.change.erased
        await self._flash.check_write(erased.start, len(erased))

    async def _write_parts(self, replacement: Replacement) -> None:
        first, end = LENGTH_BYTES, LENGTH_BYTES + FIRST_BYTES
        for start, data in replacement.written:
            held_back = data[first:end]
            await self._flash.write_data(start, data[:first] + b"\xff" * len(held_back) + data[end:])
            await self._flash.write_data(start + first, held_back)

    # The journal.

    async def _undo(self, stored: bytes) -> bytes:
        """Erase an older journal, and what it has claimed if its change was not made; return the image.

        Raises LayoutError where an image reaches into the journal's sectors.
        """
        flash, places = self._flash, self._places
        head = await flash.read_data(places.claim, CLAIM_BYTES)
        if not is_claimed(head):
            if (await flash.read_data(places.claim, places.settings - places.claim)).strip(b"\xff"):
                raise LayoutError(f"the image in flash reaches past {places.claim:#x}: no room for a journal")
            return stored
        claim = Claim.find(head, places)
        image = None if claim is None else claim.unwritten(stored)
        if claim is not None and image is not None:
            for each in claim.written:
                await flash.check_write(each.start, len(each))
                for start in range(each.start, each.stop, self._sector):
                    await self._erase(start)
        await self._erase_journal()
        return image or stored

    async def _erase_journal(self) -> None:
        """Make the record void, then all FF, the claim last."""
        await self._flash.write_data(self._places.record + CRC_OFFSET, bytes(RECORD_BYTES - CRC_OFFSET))
        for place in (*self._places.copies, self._places.claim):
            await self._erase(place)

    async def _write_journal(self, replacement: Replacement) -> None:
        for place, (_, contents) in zip(self._places.copies, replacement.change.sectors, strict=False):
            await self._flash.write_data(place, contents)
        await self._flash.write_data(self._places.record, bytes(replacement.record))

    async def _erase(self, start: int) -> None:
        if (await self._flash.read_data(start, self._sector)).strip(b"\xff"):
            await self._flash.write_data(start, b"\xff" * self._sector)


class EngineStore:
    """The model of one engine on a chip; an `aisrv.addons.jacdac.task.engine_client.ModelStore`."""

    def __init__(self, chip: ChipStore, engine: int, *, boots: bool = True) -> None:
        """Store the model of the `engine`-th engine of the chip; `boots`: a reset loads it."""
        self._chip = chip
        self._engine = engine
        self._boots = boots

    @property
    def boots(self) -> bool:
        return self._boots

    async def room(self) -> int:
        return max(self._chip.image_bytes - HEADERS, 0)

    async def save(self, model: bytes) -> str:
        try:
            await self._chip.replace_model(self._engine, model)
        except FlashError as error:
            return f"the model is not in flash: {error}"
        return ""


class SettingsStore:
    """The inputs of the Sensor Aggregator, in the last sector of a chip."""

    def __init__(self, chip: ChipStore) -> None:
        self._chip = chip
        self._latest: deque[bytes] = deque()
        self._kept = Signal(chip.runtime, "inputs of the Sensor Aggregator")

    def keep(self, data: bytes) -> None:
        """Queue a setting to be written; dropped if many wait."""
        if len(self._latest) >= MOST_SETTINGS:
            logger.warning("Sensor Aggregator: the flash is too slow, inputs are not kept")
            return
        self._latest.append(data)
        self._kept.set()

    async def read(self) -> bytes:
        """Return the stored setting; empty if there is none."""
        try:
            return await self._chip.read_setting()
        except FlashError as error:
            logger.warning("Sensor Aggregator: the inputs in flash cannot be read: %s", error)
            return b""

    async def run(self) -> None:
        """Write settings until cancelled."""
        while True:
            await self._kept.wait()
            while self._latest:
                try:
                    await self._chip.write_setting(self._latest.popleft())
                except FlashError as error:
                    logger.warning("Sensor Aggregator: the inputs are not kept: %s", error)
