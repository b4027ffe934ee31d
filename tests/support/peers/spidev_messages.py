"""Messages of spidev's ioctl, as the kernel lays them out."""

import struct
from typing import Final

MESSAGE_OF_1: Final = 0x40206B00
MESSAGE_OF_2: Final = 0x40406B00
"""SPI_IOC_MESSAGE of so many transfers."""


def ioc_transfer(tx: int, rx: int, length: int, cs_change: int = 0) -> bytes:
    """`struct spi_ioc_transfer`."""
    return struct.pack("<QQIIHBBBBBx", tx, rx, length, 0, 0, 0, cs_change, 0, 0, 0)
