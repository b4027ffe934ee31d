"""The emulated `/sys` as `lsusb -t`, `usb-devices` and `lsusb -v` of usbutils show it."""

import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from msgspec import structs

from aisrv.attach.preload.server import Preload, serve_preload
from aisrv.attach.preload.sysfs import BusPlace, device_folder
from aisrv.attach.preload.trial import PreloadMissingError
from aisrv.protocol.usb_descriptors import (
    Descriptors,
    EndpointDescriptor,
    InterfaceDescriptor,
    aisrv_descriptors,
)
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from tests.support.benches.usb_firmware import idle
from tests.support.peers.preloaded_usb import CLAIM, RELEASE, PreloadedUsb, preloaded
from tests.support.programs import AISRV, missing, run_process

PROGRAM_SECONDS = 30
PLACE = BusPlace(1, 2, 1)


@asynccontextmanager
async def served(devices: Sequence[Descriptors]) -> AsyncIterator[Preload]:
    """Serve devices that answer control requests alone."""
    if shutil.which("lsusb") is None:
        missing("no lsusb: install the package usbutils")
    async with trio.open_nursery() as nursery:
        buses = [UsbBus(each) for each in devices]
        for bus in buses:
            nursery.start_soon(usb_ep0, bus)
        try:
            yield await nursery.start(serve_preload, buses)
        except PreloadMissingError as error:
            missing(str(error))
        nursery.cancel_scope.cancel()


async def shown(preload: Preload, *command: str) -> list[str]:
    """Return what a program prints; it must end well and complain of nothing."""
    with trio.fail_after(PROGRAM_SECONDS):
        done = await trio.run_process(
            command, env=preload.environment(), capture_stdout=True, capture_stderr=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, b""), done.stdout
    return done.stdout.decode().splitlines()


def without_class(lines: Sequence[str]) -> list[str]:
    """Leave out the names of classes, which are there where the machine has a hardware database."""
    return [re.sub(r"(If \d+, Class=)[^,]*", r"\1", line) for line in lines]


@pytest.mark.parametrize("count", [1, 3, 12])
async def test_lsusb_shows_the_tree(count: int) -> None:
    async with served([aisrv_descriptors()] * count) as preload:
        lines = await shown(preload, "lsusb", "-t")
    assert without_class(lines) == [
        f"/:  Bus 01.Port 1: Dev 1, Class=root_hub, Driver=aisrv/{count}p, 480M",
        *(
            f"    |__ Port {port}: Dev {port + 1}, If 0, Class=, Driver=, 480M"
            for port in range(1, count + 1)
        ),
    ]


async def test_lsusb_shows_vendor_and_product_in_the_tree() -> None:
    async with served([aisrv_descriptors()]) as preload:
        lines = await shown(preload, "lsusb", "-t", "-v")
    assert [line.split()[:2] for line in lines if " ID " in line] == [
        ["ID", "1d6b:0002"],
        ["ID", "20b1:a15e"],
    ]


ROOT_HUB = """
T:  Bus=01 Lev=00 Prnt=00 Port=00 Cnt=00 Dev#=  1 Spd=480 MxCh= {ports}
D:  Ver= 2.00 Cls=09(hub  ) Sub=00 Prot=01 MxPS=64 #Cfgs=  1
P:  Vendor=1d6b ProdID=0002 Rev=01.00
S:  Manufacturer=aisrv
S:  Product=Virtual root hub
C:  #Ifs= 1 Cfg#= 1 Atr=e0 MxPwr=0mA
I:  If#= 0 Alt= 0 #EPs= 1 Cls=09(hub  ) Sub=00 Prot=00 Driver=hub
E:  Ad=81(I) Atr=03(Int.) MxPS=   4 Ivl=256ms
"""

DEVICE = """
D:  Ver= 2.00 Cls=ff(vend.) Sub=ff Prot=ff MxPS=64 #Cfgs=  1
P:  Vendor=20b1 ProdID=a15e Rev=10.00
S:  Manufacturer=XMOS
S:  Product=xAISRV
{serial}C:  #Ifs= 1 Cfg#= 1 Atr=80 MxPwr=500mA
I:  If#= 0 Alt= 0 #EPs= 2 Cls=ff(vend.) Sub=ff Prot=ff Driver={driver}
E:  Ad=01(O) Atr=02(Bulk) MxPS= 512 Ivl=0ms
E:  Ad=81(I) Atr=02(Bulk) MxPS= 512 Ivl=0ms
"""


FIRST_PORT = """
T:  Bus=01 Lev=01 Prnt=01 Port=00 Cnt=01 Dev#=  2 Spd=480 MxCh= 0"""


async def test_usb_devices_shows_one_device() -> None:
    async with served([aisrv_descriptors()]) as preload:
        lines = await shown(preload, "usb-devices")
    expected = ROOT_HUB.format(ports=1) + FIRST_PORT + DEVICE.format(serial="", driver="(none)")
    assert lines == expected.splitlines()


async def test_usb_devices_shows_several_devices() -> None:
    async with served([aisrv_descriptors("A"), aisrv_descriptors("B")]) as preload:
        text = "\n".join(await shown(preload, "usb-devices"))
    assert text.startswith(ROOT_HUB.format(ports=2).rstrip("\n"))
    # What it says of the second one's parent and count varies with the shell, whose variables it shares.
    assert re.findall(r"Bus=01 Lev=01 .* Port=(\d+) .* Dev#= *(\d+)", text) == [("00", "2"), ("01", "3")]
    for serial in "AB":
        named = DEVICE.format(serial=f"S:  SerialNumber={serial}\n", driver="(none)")
        assert named.rstrip("\n") in text


async def test_claimed_interface_has_the_driver_usbfs_until_it_is_released() -> None:
    if shutil.which("lsusb") is None:
        missing("no lsusb: install the package usbutils")

    async def driver(server: PreloadedUsb) -> tuple[str, str]:
        tree = without_class(await server.run("lsusb", "-t"))
        listed = await server.run("usb-devices")
        return tree[1], next(line for line in listed if "Cls=ff" in line and line.startswith("I:"))[-12:]

    free = "    |__ Port 1: Dev 2, If 0, Class=, Driver=, 480M"
    taken = free.replace("Driver=", "Driver=usbfs")
    async with preloaded(idle) as server:
        client = await server.open()
        client.memory[0x5000] = bytes(4)
        assert await client.ioctl(CLAIM, 0x5000) == (0, 0)
        assert await driver(server) == (taken, "Driver=usbfs")
        assert await client.ioctl(CLAIM, 0x5000) == (0, 0)  # again, by the same
        assert await client.ioctl(RELEASE, 0x5000) == (0, 0)
        assert (await driver(server))[0] == free
        assert await client.ioctl(CLAIM, 0x5000) == (0, 0)
        await client.close()  # which releases, too
        assert (await driver(server))[0] == free


async def test_plain_lsusb_lists_the_root_hub_and_the_devices() -> None:
    async with served([aisrv_descriptors()] * 2) as preload:
        lines = await shown(preload, "lsusb")
    assert sorted(line.split("ID ")[0] + line.split("ID ")[1][:9] for line in lines) == [
        "Bus 001 Device 001: 1d6b:0002",
        "Bus 001 Device 002: 20b1:a15e",
        "Bus 001 Device 003: 20b1:a15e",
    ]


async def test_lsusb_shows_all_descriptors_and_cannot_open_the_root_hub() -> None:
    async with served([aisrv_descriptors()]) as preload, trio.open_nursery():
        with trio.fail_after(PROGRAM_SECONDS):
            done = await trio.run_process(
                ["lsusb", "-v"], env=preload.environment(), capture_stdout=True, capture_stderr=True
            )
    text = done.stdout.decode()
    assert done.stderr.decode().splitlines() == ["Couldn't open device, some information will be missing"]
    assert re.findall(r"idProduct +0x(....)", text) == ["a15e", "0002"]
    assert re.findall(r"iInterface +3 (\w+)", text) == ["Config"]
    assert text.count("bEndpointAddress") == 3


async def test_the_root_hubs_node_cannot_be_opened() -> None:
    program = (
        "import os\ntry:\n os.open('/dev/bus/usb/001/001', os.O_RDWR)\nexcept OSError as e: print(e.errno)"
    )
    async with served([aisrv_descriptors()]) as preload:
        assert await shown(preload, "python3", "-c", program) == ["6"]  # ENXIO


# Attributes of devices that are not the AI server's.


def attributes(descriptors: Descriptors) -> dict[str, dict[str, str]]:
    return {each.name: each.attributes for each in device_folder(PLACE, descriptors).folders}


def with_interfaces(*interfaces: InterfaceDescriptor) -> Descriptors:
    plain = Descriptors()
    return replace(plain, configuration=structs.replace(plain.configuration, interfaces=interfaces))


def test_an_interface_is_in_its_first_setting() -> None:
    other = (EndpointDescriptor(address=2),)
    folders = attributes(
        with_interfaces(
            InterfaceDescriptor(number=0),
            InterfaceDescriptor(number=0, alternate=1, endpoints=other),
            InterfaceDescriptor(number=5, endpoints=other, string=0),
        )
    )
    assert list(folders) == ["ep_00", "1-1:1.0", "1-1:1.5"]
    assert folders["1-1:1.0"]["bNumEndpoints"] == "02"
    assert folders["1-1:1.0"]["interface"] == "Config"
    assert (folders["1-1:1.5"]["bInterfaceNumber"], "interface" in folders["1-1:1.5"]) == ("05", False)


@pytest.mark.parametrize(
    ("kind", "interval", "name", "time"),
    [
        (1, 1, "Isoc", "125us"),
        (3, 4, "Interrupt", "1ms"),
        (3, 16, "Interrupt", "4096ms"),
        (2, 1, "Bulk", "0ms"),
    ],
)
def test_interval_is_told_as_time(kind: int, interval: int, name: str, time: str) -> None:
    endpoint = EndpointDescriptor(address=0x82, attributes=kind, max_packet_size=8, interval=interval)
    (folder,) = device_folder(
        PLACE, with_interfaces(InterfaceDescriptor(number=0, endpoints=(endpoint,)))
    ).folders[1:]
    found = folder.folders[0].attributes
    assert (found["type"], found["interval"], found["direction"]) == (name, time, "in")


def test_a_string_that_is_not_there_is_empty() -> None:
    plain = Descriptors()
    descriptors = replace(plain, configuration=structs.replace(plain.configuration, string=9))
    assert device_folder(PLACE, descriptors).attributes["configuration"] == ""


def test_under_exec() -> None:
    if shutil.which("lsusb") is None:
        missing("no lsusb: install the package usbutils")
    done = run_process([*AISRV, "exec", "--", "lsusb", "-t"])
    assert done.returncode == 0, done.stderr
    assert "Bus 01.Port 1: Dev 1, Class=root_hub, Driver=aisrv/1p, 480M" in done.stdout
