"""How the parts are made in which time passes on the chip: buses, chips, engines, frames.

A device in device time has another factory, `aisrv.device.timed_parts`; nothing else asks which it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from aisrv.inference.engine import InferenceEngine
from phy.spi.bus import SpiBus
from phy.usb.aisrv_data import UsbData
from phy.usb.bus import UsbBus

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisrv.board import EngineSpec, FlashSpec
    from aisrv.device.time_account import TimeAccount
    from aisrv.protocol.usb_descriptors import Descriptors
    from aisrv.sensors.image.frame import FrameSource
    from flash_server.chip.chip import FlashChip
    from flash_server.chip.storage import Storage
    from phy.spi.spi_buffer import SpiBuffer

T = TypeVar("T")


class PartFactory(Protocol):
    """Makes the parts of a device in which time passes on the chip."""

    @property
    def account(self) -> TimeAccount | None:
        """What the device's time was spent on; None where nothing takes time."""

    def usb_data(self) -> Callable[..., UsbData]:
        """Return what makes the data task of the AI server's protocol."""

    def usb(self, descriptors: Descriptors) -> UsbBus:
        """Make the device's side of a USB bus."""

    def spi(self) -> SpiBus:
        """Make an SPI bus."""

    def spi_buffer(self) -> Callable[..., SpiBuffer]:
        """Return what makes the task between an SPI slave and its engine."""

    def make(self, plain: type[T], timed: str) -> T:
        """Make what an add-on has in two classes: plain, or at a place its subclass for device time."""

    async def i2c_transfer(self) -> None:
        """Wait as long as the write of a sensor's register takes."""

    def graph_pass(self, calls: int, nbytes: int) -> None:
        """Count a pass of a graph's interpreter, with its calls of nodes and the bytes that these moved."""

    def flash_chip(self, spec: FlashSpec, storage: Storage) -> FlashChip:
        """Make a flash chip."""

    def engine(self, spec: EngineSpec) -> Callable[..., InferenceEngine]:
        """Return what makes the inference engine of a specification."""

    def source(self, source: FrameSource) -> FrameSource:
        """Return a source whose frames are there when they are due."""


class PlainParts(PartFactory):
    """Parts that take no time, but for flash chips and frames with a pace of their own."""

    @property
    def account(self) -> None:
        return None

    def usb_data(self) -> Callable[..., UsbData]:
        return UsbData

    def usb(self, descriptors: Descriptors) -> UsbBus:
        return UsbBus(descriptors)

    def spi(self) -> SpiBus:
        return SpiBus()

    def spi_buffer(self) -> Callable[..., SpiBuffer]:
        from phy.spi.spi_buffer import SpiBuffer

        return SpiBuffer

    def make(self, plain: type[T], timed: str) -> T:  # noqa: ARG002 - of the other factory
        return plain()

    async def i2c_transfer(self) -> None:
        return

    def graph_pass(self, calls: int, nbytes: int) -> None:
        pass

    def flash_chip(self, spec: FlashSpec, storage: Storage) -> FlashChip:
        from flash_server.chip.chip import FlashChip

        pace = trio.sleep if spec.paced else None
        return FlashChip(spec.part, storage, clock_hz=spec.clock_hz, width=spec.width, pace=pace)

    def engine(self, spec: EngineSpec) -> Callable[..., InferenceEngine]:  # noqa: ARG002 - one for all
        return InferenceEngine

    def source(self, source: FrameSource) -> FrameSource:
        return source
