"""The options of `run`, `exec` and `attach` for SPI ports: timing rules and a drawing."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from aisrv.board import Board
from aisrv.terminal.file_types import NEW_FILE
from aisrv.terminal.option_group import option, option_group
from phy.spi.bus import SpiPort
from phy.spi.signals.timing import CheckedPort, StrictPort


@dataclass(frozen=True, slots=True)
class SpiOptions:
    """A drawing of the SPI bus, and whether transfers with wrong timing fail."""

    vcd: Path | None = option(
        "--vcd",
        type=NEW_FILE,
        help="Record the SPI bus of the first device in this file, for GTKWave and sigrok.",
    )
    strict: bool = option(
        "--strict-spi",
        default=False,
        is_flag=True,
        help="Corrupt SPI transfers whose stated timing breaks the rules, as hardware might.",
    )


spi_options = option_group("spi", SpiOptions, "SPI options")


def check_spi_options(options: SpiOptions, board: Board, *also: tuple[str, object]) -> None:
    """Raise click.UsageError for options of an SPI port that the board does not have.

    `also` are options of the command's own with their values, None if they were not given.
    """
    if board.spi is not None:
        return
    values = (("--vcd", options.vcd), ("--strict-spi", options.strict or None), *also)
    given = [name for name, value in values if value is not None]
    if given:
        raise click.UsageError(f"{' and '.join(given)}: the board has no SPI port; --spi gives it one")


def spidev_name(number: int) -> str:
    """Return the bus and chip select of a device's SPI port: each device is a bus of its own."""
    return f"{number}.0"


@contextmanager
def wrap_spi_ports(
    buses: Sequence[SpiPort | None], options: SpiOptions, begin: float | None = None
) -> Iterator[dict[str, SpiPort]]:
    """Wrap SPI ports by name within the block, the drawing nearest to the master. Raises OSError.

    `begin` is Trio's time at which the drawing begins. Default: with its first message.
    """
    kind = StrictPort if options.strict else CheckedPort
    named = [(spidev_name(number), bus) for number, bus in enumerate(buses)]
    ports: dict[str, SpiPort] = {name: kind(bus, name=f"spi{name}") for name, bus in named if bus is not None}
    with ExitStack() as files:
        if options.vcd is not None and ports:
            from phy.spi.signals.vcd import VcdFile, VcdPort

            first = next(iter(ports))
            ports[first] = VcdPort(ports[first], files.enter_context(VcdFile(options.vcd)), begin)
        yield ports
