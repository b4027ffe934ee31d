"""The page of one device: what is read of it, what is done to it, and the server, put together."""

import trio

from aisrv.addons.web.address import PageAddress
from aisrv.addons.web.host.controls import HostControls
from aisrv.addons.web.host.reader import Reader
from aisrv.addons.web.host.view import HostView
from aisrv.addons.web.host.watched_server import WatchedServer
from aisrv.addons.web.hub import Hub, PageLog
from aisrv.addons.web.server import PageServer
from aisrv.listeners.start_listening import start_listening


async def serve_page(
    nursery: trio.Nursery,
    server: WatchedServer,
    engine: int,
    name: str,
    place: tuple[str, int],
    token: str,
) -> PageAddress:
    """Read the device once, then start the tasks of its page; return the page's address.

    `engine` is the number of the server's engine, `name` that of the device on the page. Raises HostError,
    and OSError where nothing can listen at `place`. The nursery ends with DeviceGone when the device goes.
    """
    reader, turn, log = (
        Reader(server, engine, between=trio.from_thread.check_cancelled),
        trio.Lock(),
        PageLog(),
    )
    view = HostView(name, reader, turn, log)
    await view.read()
    controls = HostControls(view.name, reader, turn)
    hub = Hub([view], log)
    page = PageServer(hub, controls, token)
    address = await start_listening(nursery, page.serve, *place, "PORT")
    nursery.start_soon(view.run)
    nursery.start_soon(controls.run)
    nursery.start_soon(hub.run)
    return PageAddress(f"http://{address}/", token)
