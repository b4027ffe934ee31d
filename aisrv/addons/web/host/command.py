"""A page to look at: web."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.addons.web.address import PORT, PageAddress, page_token
from aisrv.terminal.command_group import INTERRUPTED, examples
from aisrv.terminal.file_types import FILE
from aisrv.values.heeded_signals import heeded
from host_tools.commands.settings import DEFAULT_DEVICE, HostSettings, pass_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisrv.addons.web.host.watched_server import WatchedServer

LOOPBACK: Final = "127.0.0.1"


@click.command(
    short_help="Show a device, and work on it, in a browser.",
    epilog=examples(
        "aisrv-host web",
        "aisrv-host web 0 --device usbip:localhost:3240",
        "aisrv-host --engine 1 web 8091 --web-token token.txt",
    ),
)
@click.argument("port", type=click.IntRange(0, 65535), default=PORT)
@click.option("--device", metavar="ADDRESS", help="As before the subcommand.")
@click.option("--web-host", default=LOOPBACK, show_default=True, help="Address that the page is served at.")
@click.option(
    "--web-token",
    type=FILE,
    help="File with the token that the page asks for. [default: a new one each time]",
)
@pass_settings
def web(settings: HostSettings, port: int, device: str | None, web_host: str, web_token: Path | None) -> None:
    """Serve a page that shows a device over USB and works on it, until Ctrl-C.

    It listens at PORT, 8090 unless one is given; 0 takes any that is free. Standard error says which address
    to open. The device is asked four times a second while a page is open, and not at all while none is; its
    error bits stay unread. No other program can use it meanwhile.
    """
    import trio

    from aisrv.addons.web.host.watched_server import WatchedServer
    from aisrv.listeners.failures import first_cause

    chosen = replace(settings, device=device or settings.device)
    token = page_token(web_token)

    def say(page: PageAddress) -> None:
        settings.answer({"url": page.url}, lambda: click.echo(f"aisrv-host: ready at web:{page.url}"))
        click.echo(f"aisrv-host: {page.hint}", err=True)

    with chosen.connect_as(WatchedServer) as server:
        failure: BaseException | None = None
        code = 0
        try:
            code = trio.run(_serve, server, chosen, (web_host, port), token, say)
        except* Exception as errors:
            failure = first_cause(errors)
        if failure is not None:
            raise failure from None
    raise SystemExit(code)


async def _serve(
    server: "WatchedServer",
    settings: HostSettings,
    place: tuple[str, int],
    token: str,
    say: "Callable[[PageAddress], None]",
) -> int:
    """Serve the page until SIGINT or SIGTERM; return the exit code. Raises OSError and HostError."""
    import signal

    import trio

    from aisrv.addons.web.host.serving import serve_page

    code = 0
    with trio.open_signal_receiver(*heeded(signal.SIGINT, signal.SIGTERM)) as signals:
        async with trio.open_nursery() as nursery:
            name = settings.device or DEFAULT_DEVICE
            say(await serve_page(nursery, server, settings.engine, name, place, token))
            async for number in signals:
                code = INTERRUPTED if number == signal.SIGINT else 0
                nursery.cancel_scope.cancel()
                break
    return code
