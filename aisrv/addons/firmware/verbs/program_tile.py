"""What handlers of verbs are given: the tile whose program asks, and its request."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from aisrv.addons.firmware.callbacks import Callbacks
from aisrv.addons.firmware.host_data import HostData
from aisrv.addons.firmware.program_resources import ProgramResources, Resource
from aisrv.addons.firmware.records import Request
from aisrv.addons.firmware.usb_bus import FirmwareBus
from aisrv.xcore.lib_xcore import Join
from aisrv.xcore.ports.port import Port
from aisrv.xcore.tile import Tile
from aisrv.xcore.timer import Timer
from aisrv.xcore.traps import Trap


class UsbSide:
    """A USB bus on which the program is the device, and the channel ends of its XUD core."""

    def __init__(self, bus: FirmwareBus) -> None:
        """Have no XUD core yet."""
        self.bus: Final = bus
        self.addresses: dict[int, int] = {}
        """Addresses of endpoints by the id of XUD's end of their channel."""


class ProgramTile(Protocol):
    """What verbs need of the tile whose program asks for them."""

    @property
    def tile(self) -> Tile:
        """The tile."""

    @property
    def resources(self) -> ProgramResources:
        """What the program knows by an id."""

    @property
    def joins(self) -> dict[int, Join]:
        """Jobs that were forked and not joined yet, by number."""

    @property
    def host_data(self) -> HostData:
        """What the host sends over xscope."""

    @property
    def file(self) -> Path:
        """The program."""

    @property
    def usb(self) -> UsbSide | None:
        """The device's side of a USB bus, where the program has one."""

    def own_timer(self, number: int) -> Timer:
        """Return the timer that XC's delays of a coroutine use."""

    def start_job(self, number: int, name: str) -> None:
        """Run a job of the program on a core of its own that nobody joins."""

    def fork(self, jobs: Sequence[tuple[int, str]]) -> int:
        """Start jobs by number and name, and return the number of their join."""

    def callbacks_of(self, number: int) -> Callbacks:
        """Return the interrupts of a coroutine, also for a callback of it."""

    async def spin(self, request: Request) -> None:
        """Sleep as a core of the program in a loop, until that asks for its next verb."""

    async def poll(self) -> None:
        """Let time pass for a core that reads the clock in a loop."""

    async def let_drive(self) -> None:
        """Let an output of this tick be on its pins, before the port is taken away, as code takes no time."""

    async def poll_pins(self, port: Port) -> None:
        """Let time pass, until the pins change, for a core that looks at a port in a loop."""

    def lose(self, trap: Trap) -> None:
        """End the program and all its cores."""


Answer = tuple[int, bytes]
"""The result of a verb, and the bytes that come back."""
Handler = Callable[[ProgramTile, Request], Awaitable[Answer]]
DONE: Final[Answer] = (0, b"")


class Freeable(Resource, Protocol):
    """A resource that a program gives back."""

    def free(self) -> None:
        """Give it back to its tile."""


F = TypeVar("F", bound=Freeable)


def frees(kind: type[F]) -> Handler:
    """Return the handler that gives back a resource of one kind."""

    async def handler(tile: ProgramTile, request: Request) -> Answer:
        tile.resources.find(request.a, kind, request.verb).free()
        tile.resources.forget(request.a)
        return DONE

    return handler
