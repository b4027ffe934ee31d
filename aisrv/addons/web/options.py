"""The options of `run`, `exec` and `attach` for the page that shows devices in a browser."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click
import trio

from aisrv.addons.web.address import PORT, PageAddress, page_token
from aisrv.attach.usbip.server import BusPlace
from aisrv.cli.options.added import AddedOptions, Listen, Ports, Served
from aisrv.device.device import Device
from aisrv.listeners.stream_server import LOOPBACK
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option
from phy.usb.bus import HostPort

if TYPE_CHECKING:
    from aisrv.addons.web.device.bench import Bench


@dataclass(frozen=True, slots=True)
class WebOptions(AddedOptions):
    """A page that shows the devices, and works on them."""

    web: int | None = option(
        "--web",
        type=click.IntRange(0, 65535),
        is_flag=False,
        flag_value=PORT,
        metavar="[PORT]",
        help=f"Serve a page that shows the devices and works on them, at {PORT} unless a port is given; "
        "0 takes any that is free.",
    )
    web_host: str = option(
        "--web-host", default=LOOPBACK, show_default=True, help="Address that the page is served at."
    )
    web_token: Path | None = option(
        "--web-token",
        type=FILE,
        help="File with the token that the page asks for. [default: a new one each time]",
    )

    benches: "Mapping[str, Bench]" = field(default_factory=dict)
    """No option: the bench of each running device, by bus id, where there is a page."""

    @asynccontextmanager
    async def beside(self, devices: Sequence[Device], ports: Ports) -> AsyncIterator[tuple[Self, Ports]]:
        """Put a bench between each device and its hosts."""
        if self.web is None:
            yield self, ports
            return
        from aisrv.addons.web.device.bench import open_benches

        names = [str(BusPlace.of(number)) for number in range(len(devices))]
        async with open_benches(dict(zip(names, devices, strict=True)), ports) as benches:
            between = Ports([each.port for each in benches.values()], [each.spi for each in benches.values()])
            yield replace(self, benches=benches), between

    async def serve(
        self, devices: Sequence[Device], usb: Sequence[HostPort], nursery: trio.Nursery, listen: Listen
    ) -> Sequence[Served]:
        """Serve the page."""
        _ = devices
        if self.web is None:
            return ()
        from aisrv.addons.web.device.controls import Controls, Target
        from aisrv.addons.web.device.device_view import DeviceView
        from aisrv.addons.web.hub import Hub
        from aisrv.addons.web.server import PageServer

        token = page_token(self.web_token)
        hub = Hub([DeviceView(name, bench.device, bench) for name, bench in self.benches.items()])
        pairs = zip(self.benches.items(), usb, strict=True)
        controls = Controls({name: Target(bench.device, port, bench) for (name, bench), port in pairs})
        place = await listen(PageServer(hub, controls, token).serve, self.web_host, self.web, "--web")
        await nursery.start(controls.run)
        nursery.start_soon(hub.run)
        page = PageAddress(f"http://{place}/", token)
        return [Served(f"web:{page.url}", page.hint)]
