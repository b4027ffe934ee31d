"""Contents of `/sys` for USB devices, as values: folders of devices, interfaces and endpoints.

Source: the Linux kernel's Documentation/ABI (sysfs-bus-usb, stable and testing) and what `lsusb -t` and
`usb-devices` of usbutils read.
"""

from typing import Final

from msgspec import Struct

from aisrv.protocol.usb_descriptors import (
    DIRECTION_IN,
    TRANSFER_BULK,
    ConfigurationDescriptor,
    Descriptors,
    DeviceDescriptor,
    EndpointDescriptor,
    InterfaceDescriptor,
)

USB_MAJOR: Final = 189

DEVICES_A_BUS: Final = 128
"""Minor numbers of a bus."""

HIGH_SPEED_MBITS: Final = 480

_TRANSFERS: Final = ("Control", "Isoc", "Bulk", "Interrupt")
_TRANSFER_MASK: Final = 3
_INTERRUPT: Final = 3
_HUB_CLASS: Final = 9

ROOT_HUB: Final = Descriptors(
    DeviceDescriptor(
        device_class=_HUB_CLASS,
        device_subclass=0,
        device_protocol=1,
        vendor=0x1D6B,
        product=0x0002,
        bcd_device=0x0100,
    ),
    ConfigurationDescriptor(
        attributes=0xE0,
        max_power=0,
        interfaces=(
            InterfaceDescriptor(
                interface_class=_HUB_CLASS,
                interface_subclass=0,
                interface_protocol=0,
                string=0,
                endpoints=(
                    EndpointDescriptor(
                        address=DIRECTION_IN | 1, attributes=_INTERRUPT, max_packet_size=4, interval=12
                    ),
                ),
            ),
        ),
    ),
    ("aisrv", "Virtual root hub"),
)
"""Linux's high-speed root hub: vendor and product are the Linux Foundation's."""


class SysfsFolder(Struct, frozen=True):
    """A folder of `/sys`: its name, its files by name, the driver bound there, and the folders in it."""

    name: str
    attributes: dict[str, str]
    """Text of each file, without the newline that ends it."""
    driver: str = ""
    folders: tuple["SysfsFolder", ...] = ()


class BusPlace(Struct, frozen=True):
    """Position of a device on its bus."""

    bus: int
    device_number: int
    port: int
    """Port from 1; 0 is the root hub itself."""

    @property
    def name(self) -> str:
        """Device name, such as `1-1`; the root hub's is `usb1`."""
        return f"{self.bus}-{self.port}" if self.port else f"usb{self.bus}"

    @property
    def minor(self) -> int:
        return (self.bus - 1) * DEVICES_A_BUS + self.device_number - 1

    @property
    def node(self) -> str:
        """Path of the node below `/dev`."""
        return f"bus/usb/{self.bus:03}/{self.device_number:03}"

    def interface(self, number: int, configuration: int) -> str:
        """Return the name of an interface, such as `1-1:1.0`."""
        return f"{self.bus}-{self.port}:{configuration}.{number}"


def device_folder(place: BusPlace, descriptors: Descriptors, ports: int = 0) -> SysfsFolder:
    """Describe a high-speed device in its configuration; a hub has `ports`.

    An interface is in its first alternate setting. A hub's is bound to `hub`, any other to no driver.
    """
    configuration = descriptors.configuration
    control = EndpointDescriptor(
        address=0, attributes=0, max_packet_size=descriptors.device.max_packet_size, interval=0
    )
    interfaces = (
        _interface(place, descriptors, settings[0], "hub" if ports else "")
        for settings in configuration.settings
    )
    attributes = _device(place, descriptors, ports)
    return SysfsFolder(place.name, attributes, "usb", (_endpoint(control), *interfaces))


def _device(place: BusPlace, descriptors: Descriptors, ports: int) -> dict[str, str]:
    device, configuration = descriptors.device, descriptors.configuration
    attributes = {
        "authorized": "1",
        "avoid_reset_quirk": "0",
        "bcdDevice": f"{device.bcd_device:04x}",
        "bConfigurationValue": f"{configuration.value}",
        "bDeviceClass": f"{device.device_class:02x}",
        "bDeviceProtocol": f"{device.device_protocol:02x}",
        "bDeviceSubClass": f"{device.device_subclass:02x}",
        "bMaxPacketSize0": f"{device.max_packet_size}",
        "bMaxPower": f"{configuration.max_power * 2}mA",
        "bmAttributes": f"{configuration.attributes:02x}",
        "bNumConfigurations": f"{device.configuration_count}",
        "bNumInterfaces": f"{len(configuration.settings):2}",
        "busnum": f"{place.bus}",
        "configuration": _string(descriptors, configuration.string),
        "dev": f"{USB_MAJOR}:{place.minor}",
        "devnum": f"{place.device_number}",
        "devpath": f"{place.port}",
        "idProduct": f"{device.product:04x}",
        "idVendor": f"{device.vendor:04x}",
        "ltm_capable": "no",
        "maxchild": f"{ports}",
        "quirks": "0x0",
        "removable": "unknown",
        "rx_lanes": "1",
        "speed": f"{HIGH_SPEED_MBITS}",
        "tx_lanes": "1",
        "urbnum": "0",
        "version": f"{device.usb_version >> 8:2x}.{device.usb_version & 0xFF:02x}",
        "uevent": _lines(
            MAJOR=USB_MAJOR,
            MINOR=place.minor,
            DEVNAME=place.node,
            DEVTYPE="usb_device",
            DRIVER="usb",
            PRODUCT=_product(device),
            TYPE=_type(device),
            BUSNUM=f"{place.bus:03}",
            DEVNUM=f"{place.device_number:03}",
        ),
    }
    strings = {
        "manufacturer": device.manufacturer_string,
        "product": device.product_string,
        "serial": device.serial_string,
    }
    return attributes | {name: _string(descriptors, index) for name, index in strings.items() if index}


def _interface(
    place: BusPlace, descriptors: Descriptors, setting: InterfaceDescriptor, driver: str
) -> SysfsFolder:
    device = descriptors.device
    modalias = (
        f"usb:v{device.vendor:04X}p{device.product:04X}d{device.bcd_device:04X}"
        f"dc{device.device_class:02X}dsc{device.device_subclass:02X}dp{device.device_protocol:02X}"
        f"ic{setting.interface_class:02X}isc{setting.interface_subclass:02X}"
        f"ip{setting.interface_protocol:02X}in{setting.number:02X}"
    )
    attributes = {
        "authorized": "1",
        "bAlternateSetting": f"{setting.alternate:2}",
        "bInterfaceClass": f"{setting.interface_class:02x}",
        "bInterfaceNumber": f"{setting.number:02x}",
        "bInterfaceProtocol": f"{setting.interface_protocol:02x}",
        "bInterfaceSubClass": f"{setting.interface_subclass:02x}",
        "bNumEndpoints": f"{len(setting.endpoints):02x}",
        "modalias": modalias,
        "supports_autosuspend": "1",
        "uevent": _lines(
            DEVTYPE="usb_interface",
            **({"DRIVER": driver} if driver else {}),
            PRODUCT=_product(device),
            TYPE=_type(device),
            INTERFACE=f"{setting.interface_class}/{setting.interface_subclass}/{setting.interface_protocol}",
            MODALIAS=modalias,
        ),
    }
    if setting.string:
        attributes["interface"] = _string(descriptors, setting.string)
    name = place.interface(setting.number, descriptors.configuration.value)
    return SysfsFolder(name, attributes, driver, tuple(map(_endpoint, setting.endpoints)))


def _endpoint(endpoint: EndpointDescriptor) -> SysfsFolder:
    transfer = endpoint.attributes & _TRANSFER_MASK
    direction = "in" if endpoint.address & DIRECTION_IN else "out"
    attributes = {
        "bEndpointAddress": f"{endpoint.address:02x}",
        "bInterval": f"{endpoint.interval:02x}",
        "bLength": f"{endpoint.length:02x}",
        "bmAttributes": f"{endpoint.attributes:02x}",
        "direction": direction if transfer else "both",
        "interval": _interval(transfer, endpoint.interval),
        "type": _TRANSFERS[transfer],
        "wMaxPacketSize": f"{endpoint.max_packet_size:04x}",
    }
    return SysfsFolder(f"ep_{endpoint.address:02x}", attributes)


def _interval(transfer: int, interval: int) -> str:
    """Return the time between polls at high speed; bulk and control endpoints are not polled."""
    if transfer in (0, TRANSFER_BULK) or not interval:
        return "0ms"
    microseconds = 125 << interval - 1
    return f"{microseconds}us" if microseconds % 1000 else f"{microseconds // 1000}ms"


def _string(descriptors: Descriptors, index: int) -> str:
    return descriptors.strings[index - 1] if 0 < index <= len(descriptors.strings) else ""


def _product(device: DeviceDescriptor) -> str:
    return f"{device.vendor:x}/{device.product:x}/{device.bcd_device:x}"


def _type(device: DeviceDescriptor) -> str:
    return f"{device.device_class}/{device.device_subclass}/{device.device_protocol}"


def _lines(**values: object) -> str:
    return "\n".join(f"{name}={value}" for name, value in values.items())
