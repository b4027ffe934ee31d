"""What every subcommand shares: which device to talk to, and how to answer."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import click

from aisrv.protocol.commands import Dialect
from aisrv.terminal.option_group import enum_option, option
from host_tools.transports.schemes import forms, scheme_of

if TYPE_CHECKING:
    from host_tools.client import AiServer

Server = TypeVar("Server", bound="AiServer")

DEFAULT_DEVICE: Final = "usb"

NUMBER: Final = click.IntRange(0, 255)
"""A tensor or engine number, as the classic framing carries it."""


class Byte(click.ParamType[int]):
    """A byte, decimal or as 0x3C."""

    name = "byte"
    example = "a byte; write 60 or 0x3C"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; a message where it is not a byte."""
        try:
            number = int(str(value), 0)
        except ValueError:
            number = -1
        if not 0 <= number <= 0xFF:
            self.fail(f"{value!r} is not {self.example}", param, ctx)
        return number


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The options of the command itself. `device` is None where none was given."""

    device: str | None = option(
        "--device",
        envvar="AISRV_DEVICE",
        show_envvar=True,
        metavar="ADDRESS",
        help=f"{forms()}; spi by bus and chip select, and virtual starts a device for this call. "
        "[default: usb]",
    )
    engine: int = option(
        "--engine", type=NUMBER, default=0, show_default=True, help="Which engine of the device."
    )
    dialect: Dialect = enum_option(
        "--dialect",
        default=Dialect.CLASSIC,
        show_default=True,
        help="USB framing: 3-byte commands with stalls, or 12-byte commands with a status word.",
    )
    timeout: float = option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        help="Seconds for each transfer, and so for one inference.",
    )
    reference: float = option(
        "--reference",
        type=click.FloatRange(min=0, min_open=True),
        metavar="MHZ",
        default=100.0,
        show_default=True,
        help="Clock of the device's timers, where it does not say it, as hardware does not: boards of 2021 "
        "and 2022 have 175.",
    )
    as_json: bool = option(
        "--json", default=False, is_flag=True, help="Answer in JSON; also after the subcommand."
    )

    @property
    def as_float32(self) -> bool:
        """Return whether tensors travel as float32."""
        scheme = scheme_of(self.device or "")
        return scheme is not None and scheme.as_float32

    def connect(self, device: str | None = None) -> "AiServer":
        """Open the device that the options name, or another; a context manager gives it back."""
        from host_tools.client import AiServer

        return self.connect_as(AiServer, device)

    def connect_as(self, kind: "type[Server]", device: str | None = None) -> "Server":
        """Do as `connect`, with a server of another kind."""
        return kind.open(
            device or self.device or DEFAULT_DEVICE,
            engine=self.engine,
            dialect=self.dialect,
            timeout=self.timeout,
            reference_mhz=self.reference,
        )

    def answer(self, data: object, show: Callable[[], object]) -> None:
        """Print `data` as JSON where that was asked for; otherwise call `show`."""
        if self.as_json:
            click.echo(json.dumps(data, indent=2))
        else:
            show()


pass_settings = click.make_pass_decorator(HostSettings)
