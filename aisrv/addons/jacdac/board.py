"""The table `[jacdac]` of a board: a device on a Jacdac bus, and the ways to the bus."""

from collections.abc import Iterator
from typing import ClassVar, Final

from aisrv.board import Board, BoardError, Link, Part, Servers, Task
from aisrv.values.settings.tables import Integer

MOST_RUNNERS: Final = 46
"""Engines of a Jacdac device: service indexes end at 48, of which two are for others."""


class Jacdac(Part, frozen=True):
    """A device on a Jacdac bus; without this table there is none."""

    table: ClassVar[str] = "jacdac"
    opens: ClassVar[str] = "aisrv.addons.jacdac.device:JacdacOnDevice"

    tile: Integer = 1
    """Tile of its task."""
    device_id: Integer | None = None
    """64 bits that name the device on the bus. Default: made of the USB serial number."""
    port: Integer | None = None
    """TCP port of `aisrv run` for the bus. Default: the command's."""
    websocket_port: Integer | None = None
    """TCP port of `aisrv run` for WebSockets. Default: the command's."""
    hub: str | None = None
    """`HOST:PORT` of another hub that `aisrv run` joins, such as that of `devs devtools`."""
    protocol_test: bool = False
    """Whether there is a Protocol Test service."""
    resets_after_load: bool = False
    """Whether the device resets itself when a model has been set over the bus."""

    def check(self, board: Board) -> None:
        board.check_tile("the Jacdac device", self.tile, "jacdac")
        board.check_tcp_port(self.port, "jacdac")
        board.check_tcp_port(self.websocket_port, "jacdac", setting="websocket_port")
        if self.device_id is not None and not 0 < self.device_id < 1 << 64:
            raise BoardError(
                f"the Jacdac device: an id of {self.device_id:#x}, it has 64 bits and is not 0",
                *("jacdac", "device_id"),
            )
        if len(board.engines) > MOST_RUNNERS:
            raise BoardError(
                f"the Jacdac device: {len(board.engines)} engines; it has room for {MOST_RUNNERS}", "jacdac"
            )
        host, colon, port = (self.hub or ":1").rpartition(":")
        if not (colon and port.isdecimal() and 1 <= int(port) <= 65535 and (host or not self.hub)):
            raise BoardError(f"the Jacdac device: {self.hub!r} is not HOST:PORT", "jacdac", "hub")

    def plan(self, servers: Servers) -> Iterator[Task | Link]:
        jacdac = servers.task("jacdac", self.tile)
        yield jacdac
        for engine in servers.engines:
            yield Link(jacdac.end("engines"), engine.end("clients"), "commands")
            yield Link(engine.end("watchers"), jacdac.end("changes"), "model notifications")
        for flash in servers.flashes:
            yield Link(jacdac.end("flashes"), flash.end("loaders"), "models and inputs")
