"""`--pcap`, `--fault` and `--fault-seed`."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.cli.options.usb import UsbOptions, usb_options, wrap_usb_ports
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from phy.usb.taps.fault_plan import Fault, FaultKind, Nth
from phy.usb.urb import TransferStatus


@click.command()
@usb_options
def command(usb: UsbOptions) -> None:
    """Show the options."""
    click.echo(repr(usb))


def test_options_are_values() -> None:
    said = CliRunner().invoke(
        command, ["--pcap", "a.pcapng", "--fault", "stall:in:3", "--fault", "drop:out:1", "--fault-seed", "7"]
    )
    faults = (Fault(FaultKind.STALL, 0x81, Nth(3)), Fault(FaultKind.DROP, 0x01, Nth(1)))
    assert said.output == repr(UsbOptions(Path("a.pcapng"), faults, 7)) + "\n"


def test_bad_fault_is_a_usage_error_with_the_reason() -> None:
    said = CliRunner().invoke(command, ["--fault", "nak:in:1"])
    assert said.exit_code == 2
    assert said.output.endswith("Invalid value for '--fault': fault 'nak:in:1': nak needs a time\n")


async def test_no_options_leave_the_devices_as_they_are() -> None:
    buses = [UsbBus(aisrv_descriptors()), UsbBus(aisrv_descriptors())]
    async with wrap_usb_ports(buses, UsbOptions()) as ports:
        assert ports == buses


async def test_each_device_has_the_faults_and_an_interface(tmp_path: Path) -> None:
    buses = [UsbBus(aisrv_descriptors()), UsbBus(aisrv_descriptors("LAB-7"))]
    for bus in buses:
        bus.configure(1)
    options = UsbOptions(tmp_path / "usb.pcapng", (Fault.parse("disconnect:in:1"),))
    async with wrap_usb_ports(buses, options) as ports:
        for port in ports:
            with pytest.raises(TransferFailed) as caught:
                await InProcessHost(port).read(512)
            assert caught.value.status is TransferStatus.SHUTDOWN
        await wait_all_tasks_blocked()
    written = options.pcap.read_bytes() if options.pcap else b""
    assert b"1-1\0" in written
    assert b"1-2\0" in written
    assert b"serial number LAB-7" in written
    assert written.count((-108).to_bytes(4, "little", signed=True)) == 2


async def test_devices_past_the_first_bus_are_on_the_next(tmp_path: Path) -> None:
    buses = [UsbBus(aisrv_descriptors()) for _ in range(128)]
    path = tmp_path / "usb.pcapng"
    async with wrap_usb_ports(buses, UsbOptions(path)):
        written = path.read_bytes()
    assert b"1-127\0" in written
    assert b"2-1\0" in written
    assert b"1-128\0" not in written
