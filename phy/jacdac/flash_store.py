"""Flash storage of a Jacdac device: the engines' models, and the inputs of the Sensor Aggregator.

A model replaces the engine's model in the image of the data partition. The other parts stay. Its first 8
bytes are written last: an interrupted write leaves no model that could be loaded. The inputs go to the last
sector of the data partition, as long as the image leaves that free: "jdsa", u16 length, u16 CRC, bytes.
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
from flash_server.errors import FlashError, LayoutError, NoImageError
from flash_server.image.build import DataPartition, EngineImage
from flash_server.image.headers import LENGTH_BYTES, Part
from flash_server.image.image_file import erased_tail
from flash_server.image.parse import parse

logger = logging.getLogger(__name__)

SECTOR: Final = 4096
MOST_SETTINGS: Final = 16
"""Settings that wait to be written."""
FIRST_BYTES: Final = 8
"""Bytes of a model that are written last."""
ALIGNMENT: Final = 16
"""Alignment of parts, so that the first bytes of a model never lie in two sectors."""
HEADERS: Final = SECTOR
"""Bytes of headers and alignment beside a model."""

_MARK: Final = b"jdsa"
_SETTING: Final = struct.Struct("<4sHH")


class ChipStore:
    """The data partition of one chip, for one user at a time."""

    def __init__(self, flash: FlashChannel, data_bytes: int, engines: int) -> None:
        """Use a loader's channel; `engines` have their models on the chip."""
        self._flash = flash
        self._engines = engines
        self.image_bytes: Final = max(data_bytes - SECTOR, 0)
        """Bytes for images: all but the last sector."""
        self._lock = Mutex(flash.runtime, "the data partition")

    @property
    def runtime(self) -> Runtime:
        """Runtime that all resources of its node share."""
        return self._flash.runtime

    async def replace_model(self, engine: int, model: bytes) -> None:
        """Store a model, or delete it if `model` is empty. Raises FlashError."""
        async with self._lock:
            engines = await self._read_engines()
            old = engines[engine]
            engines[engine] = EngineImage(model or None, old.parameters, old.operators, old.xip)
            try:
                await self._write(engine, engines)
            finally:
                await self._flash.reload()

    async def read_setting(self) -> bytes:
        """Return the bytes in the last sector; empty if there are none."""
        async with self._lock:
            head = await self._flash.read_data(self.image_bytes, _SETTING.size)
            mark, length, crc = _SETTING.unpack(head)
            if mark != _MARK or length > SECTOR - _SETTING.size:
                return b""
            data = await self._flash.read_data(self.image_bytes + _SETTING.size, length)
        return data if binascii.crc_hqx(data, 0xFFFF) == crc else b""

    async def write_setting(self, data: bytes) -> None:
        """Store bytes in the last sector. Raises FlashError, also if the image reaches into it."""
        async with self._lock:
            sector = await self._flash.read_data(self.image_bytes, SECTOR)
            if sector.strip(b"\xff") and not sector.startswith(_MARK):
                raise LayoutError("the image in flash takes the last sector")
            head = _SETTING.pack(_MARK, len(data), binascii.crc_hqx(data, 0xFFFF))
            try:
                await self._flash.write_data(self.image_bytes, head + data)
            finally:
                await self._flash.reload()

    async def _read_engines(self) -> list[EngineImage]:
        stored = await self._flash.read_data(0, self.image_bytes)
        try:
            found = list(parse(stored, self._engines).engines)
        except NoImageError:
            found = []
        engines = [EngineImage(*(_without_padding(part, each[part]) for part in Part)) for each in found]
        return engines + [EngineImage()] * (self._engines - len(engines))

    async def _write(self, engine: int, engines: list[EngineImage]) -> None:
        if not any(each[part] is not None for each in engines for part in Part):
            await self._flash.write_data(0, b"\xff" * SECTOR)
            return
        partition = DataPartition(tuple(engines), alignment=ALIGNMENT)
        image = partition.build(self.image_bytes)
        await self._flash.check_write(0, len(image))
        if engines[engine].model is None:
            await self._flash.write_data(0, image)
            return
        start = partition.headers()[engine][Part.MODEL] + LENGTH_BYTES
        end = start + FIRST_BYTES
        await self._flash.write_data(0, image[:start] + b"\xff" * (end - start) + image[end:])
        await self._flash.write_data(start, image[start:end])


class EngineStore:
    """The model of one engine on a chip; an `phy.jacdac.engine_client.ModelStore`."""

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


def _without_padding(part: Part, data: bytes | memoryview | None) -> bytes | memoryview | None:
    """Return a part without the FF behind it, which is erased flash; a model's size is known."""
    if data is None or part is Part.MODEL:
        return data
    view = memoryview(data)
    return view[: len(view) - erased_tail(view)]
