"""The options of `run`, `exec` and `attach` that stand before SPI ports: timing rules and a drawing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from phy.spi.bus import SpiPort
from phy.spi.signals.timing import CheckedPort, StrictPort

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class SpiOptions:
    """What the options said."""

    vcd: Path | None = None
    strict: bool = False


_OPTIONS: Final = (
    click.option(
        "--vcd",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Draw the SPI bus of the first device into this file, for GTKWave and sigrok.",
    ),
    click.option(
        "--strict-spi",
        is_flag=True,
        help="Spoil SPI transfers whose stated timing breaks the rules, as hardware might.",
    ),
)


def spi_options(function: F) -> F:
    """Add the options to a command; their values make a `SpiOptions`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def spidev_name(number: int) -> str:
    """Return the bus and chip select of a device's SPI port: each device is a bus of its own."""
    return f"{number}.0"


@contextmanager
def stand_before_spi(buses: Sequence[SpiPort | None], options: SpiOptions) -> Iterator[dict[str, SpiPort]]:
    """Give the ports that doors drive in place of SPI ports, by name, for as long as the block lasts.

    The drawing is nearest to the master. Raises OSError where its file cannot be made.
    """
    kind = StrictPort if options.strict else CheckedPort
    named = [(spidev_name(number), bus) for number, bus in enumerate(buses)]
    ports: dict[str, SpiPort] = {name: kind(bus, name=f"spi{name}") for name, bus in named if bus is not None}
    with ExitStack() as files:
        if options.vcd is not None and ports:
            from phy.spi.signals.vcd import VcdFile, VcdPort

            first = next(iter(ports))
            ports[first] = VcdPort(ports[first], files.enter_context(VcdFile(options.vcd)))
        yield ports
