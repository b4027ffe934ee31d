"""The options of `run`, `exec` and `attach` for the page that shows devices in a browser."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from aisrv.addons.web.address import PORT, PageAddress, page_token
from aisrv.listeners.stream_server import LOOPBACK
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option, option_group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisrv.addons.web.device.bench import Bench
    from aisrv.cli.options.added import Listen
    from phy.usb.bus import HostPort


@dataclass(frozen=True, slots=True)
class WebOptions:
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

    @property
    def wanted(self) -> bool:
        """Whether there is to be a page."""
        return self.web is not None


web_options = option_group("web", WebOptions)


async def serve_page(
    nursery: trio.Nursery,
    benches: "Mapping[str, Bench]",
    usb: "Sequence[HostPort]",
    options: WebOptions,
    listen: "Listen",
) -> PageAddress | None:
    """Start the page's server for the devices of benches and their ports; return its address. Raises OSError.

    None where no page is wanted.
    """
    if options.web is None:
        return None
    from aisrv.addons.web.device.controls import Controls, Target
    from aisrv.addons.web.device.device_view import DeviceView
    from aisrv.addons.web.hub import Hub
    from aisrv.addons.web.server import PageServer

    token = page_token(options.web_token)
    hub = Hub([DeviceView(name, bench.device, bench) for name, bench in benches.items()])
    pairs = zip(benches.items(), usb, strict=True)
    controls = Controls({name: Target(bench.device, port, bench) for (name, bench), port in pairs})
    server = PageServer(hub, controls, token)
    place = await listen(server.serve, options.web_host, options.web, "--web")
    await nursery.start(controls.run)
    nursery.start_soon(hub.run)
    return PageAddress(f"http://{place}/", token)
