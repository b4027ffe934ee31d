"""The options of `exec` that report how long the chip takes for a program's commands."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

import click

from aisrv.board import Board, UsbProtocol
from aisrv.cli.options.added import AddedOptions, Ports
from aisrv.device.device import Device
from aisrv.terminal.option_group import option


@dataclass(frozen=True, slots=True)
class ReportOptions(AddedOptions):
    """A report of the run."""

    report: bool = option(
        "--report",
        default=False,
        is_flag=True,
        help="At the end print how long the chip takes, and where; needs --device-time.",
    )
    json: bool = option("--json", default=False, is_flag=True, help="Print the report as a line of JSON.")

    def boards(self, boards: Sequence[Board]) -> Sequence[Board]:
        """Refuse boards of which there is no report."""
        if self.json and not self.report:
            raise click.UsageError("--json is the form of a report: give --report, too")
        if self.report and not all(each.device_time for each in boards):
            raise click.UsageError("--report needs a device that takes the chip's time: give --device-time")
        if self.report and any(each.protocol is not UsbProtocol.AISRV for each in boards):
            raise click.UsageError("--report knows the AI server's own commands, not those of ioserver")
        return boards

    @asynccontextmanager
    async def beside(self, devices: Sequence[Device], ports: Ports) -> AsyncIterator[tuple[Self, Ports]]:
        """Print the reports to standard error, which a program's output does not use, once all is done."""
        yield self, ports
        if self.report:
            from rich.console import Console

            from aisrv.addons.predict.time_report import print_reports

            print_reports(devices, Console(stderr=True, highlight=False), as_json=self.json)
