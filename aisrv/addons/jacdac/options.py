"""The options of `run` for the Jacdac bus of a device, and the servers that they start."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click
import trio
from msgspec.structs import replace

from aisrv.addons.jacdac.board import Jacdac
from aisrv.board import Board, BoardError, plan_of
from aisrv.cli.options.added import AddedOptions, Listen, Served
from aisrv.device.device import Device
from aisrv.listeners.stream_server import LOOPBACK
from aisrv.terminal.option_group import option
from phy.usb.bus import HostPort

DASHBOARD: Final = "https://microsoft.github.io"
TCP_PORT: Final = 8082
WEBSOCKET_PORT: Final = 8081
"""Port of WebSockets for Jacdac's clients."""


@dataclass(frozen=True, slots=True)
class JacdacOptions(AddedOptions):
    """A device on a Jacdac bus, and the servers of the bus."""

    jacdac: bool | None = option(
        "--jacdac/--no-jacdac",
        help="Run a device on a Jacdac bus, which takes a core. [default: the board's]",
    )
    jacdac_host: str = option(
        "--jacdac-host", default=LOOPBACK, show_default=True, help="Address that the bus is served on."
    )
    jacdac_port: int | None = option(
        "--jacdac-port",
        type=click.IntRange(0, 65535),
        help=f"TCP port of the bus; 0 takes any that is free. [default: the board's, or {TCP_PORT}]",
    )
    jacdac_websocket_port: int | None = option(
        "--jacdac-websocket-port",
        type=click.IntRange(0, 65535),
        help=f"WebSocket port of the bus, for browsers. [default: the board's, or {WEBSOCKET_PORT}]",
    )
    jacdac_origin: tuple[str, ...] = option(
        "--jacdac-origin",
        multiple=True,
        metavar="URL",
        help="Origin whose pages may use the WebSocket, besides those of this machine; may be repeated. "
        f"Jacdac's dashboard is {DASHBOARD}, as are all other pages of its organization.",
    )
    jacdac_hub: str | None = option(
        "--jacdac-hub", metavar="HOST:PORT", help="Join the bus to another hub, such as `devs devtools`."
    )
    jacdac_serial: bool = option(
        "--jacdac-serial",
        default=False,
        is_flag=True,
        help="Offer the bus as a serial port (JDUSB) on a pseudo-terminal.",
    )
    jacdac_protocol_test: bool = option(
        "--jacdac-protocol-test",
        default=False,
        is_flag=True,
        help="Add a Protocol Test service to the device.",
    )

    @property
    def is_given(self) -> bool:
        asked = (self.jacdac_port, self.jacdac_websocket_port, self.jacdac_hub)
        return self.jacdac_serial or self.jacdac_protocol_test or any(each is not None for each in asked)

    def boards(self, boards: Sequence[Board]) -> Sequence[Board]:
        """Change the first board."""
        board = boards[0]
        spec = board.part(Jacdac)
        if self.jacdac is False:
            spec = None
        elif self.jacdac or self.is_given:
            spec = spec or Jacdac()
            spec = replace(
                spec,
                tile=min(spec.tile, board.tiles - 1),
                hub=self.jacdac_hub or spec.hub,
                protocol_test=self.jacdac_protocol_test or spec.protocol_test,
            )
        try:
            board = board.with_part(Jacdac, spec)
            plan_of(board).check()
        except BoardError as error:
            raise click.UsageError(str(error)) from None
        return [board, *boards[1:]]

    async def serve(
        self, devices: Sequence[Device], usb: Sequence[HostPort], nursery: trio.Nursery, listen: Listen
    ) -> Sequence[Served]:
        """Serve the bus of the first device that has one."""
        _ = usb
        for device in devices:
            if (spec := device.board.part(Jacdac)) is not None:
                from aisrv.addons.jacdac.serving import Servers, serve_bus

                port = _first(self.jacdac_port, spec.port, TCP_PORT)
                websocket_port = _first(self.jacdac_websocket_port, spec.websocket_port, WEBSOCKET_PORT)
                ports = self.jacdac_host, port, websocket_port
                servers = Servers(*ports, self.jacdac_origin, self.jacdac_serial, spec.hub)
                return [Served(place) for place in await serve_bus(device, servers, nursery, listen)]
        return ()


def _first(given: int | None, board: int | None, default: int) -> int:
    return next(port for port in (given, board, default) if port is not None)
