"""Tasks and channels of a plan, as values."""

import enum
from typing import NamedTuple

from msgspec import Struct


class TaskKind(enum.Enum):
    """Name of a task's function; tasks of a tile get their cores in this order."""

    XUD = "XUD"
    """XMOS's USB device library, which needs no task here but takes a core."""
    USB_EP0 = "usb_ep0"
    """Answers control transfers on endpoint 0."""
    USB_DATA = "usb_data"
    """Carries commands between the bulk endpoints and the engines."""
    SPI_SLAVE = "spi_slave"
    """Answers the SPI master while it clocks."""
    SPI_BUFFER = "spi_buffer"
    """Carries commands between the SPI slave and its engine."""
    FLASH_SERVER = "flash_server"
    """Reads and writes a flash chip for the engines."""
    SENSOR = "sensor"
    """Waits for the frames of the sensor."""
    ACQUIRE = "acquire"
    """Turns frames into input tensors."""
    AIENGINE = "aiengine"
    """Answers commands and runs a model."""
    PART = "part"
    """A task of a part that an add-on brings."""
    USER = "user"
    """A task of the user's own."""
    PROGRAM = "program"
    """The program that embeds a device: it has channel ends on the tiles, and no core."""


class Task(Struct, frozen=True):
    """A task on a tile."""

    name: str
    """Name of its core, unique on the node."""
    tile: int
    kind: TaskKind
    number: int = 0
    """Number of its engine, flash chip or interpreter, or its place among the user's tasks."""
    part: int = 0
    """Place of its part among those that add-ons bring."""

    def end(self, name: str) -> "End":
        """Return the end of a channel at this task that it knows by `name`, as in "clients"."""
        return End(self, name)


class End(Struct, frozen=True):
    """An end of a channel: its task, and the name that the task knows it by.

    Several ends of a task may have one name; the task gets them in the order of the plan's links.
    """

    task: Task
    name: str


class Link(Struct, frozen=True):
    """A channel: an end on the tile of each of two tasks."""

    a: End
    b: End
    carries: str


class Servers(NamedTuple):
    """The tasks that a part may be a client of."""

    engines: tuple[Task, ...]
    flashes: tuple[Task, ...]
    part: int = 0
    """Place of the part that is asked, among those that add-ons bring."""

    def task(self, name: str, tile: int, number: int = 0) -> Task:
        """Return a task of the part that is asked."""
        return Task(name, tile, TaskKind.PART, number, self.part)
