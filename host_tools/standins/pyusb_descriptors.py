"""Descriptors as pyusb wants to see them: objects with the field names of the USB specification.

Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aisrv.protocol.usb_descriptors import (
        ConfigurationDescriptor,
        Descriptor,
        DeviceDescriptor,
        EndpointDescriptor,
        InterfaceDescriptor,
    )

_COMMON_FIELDS: Final = {"length": "bLength", "descriptor_type": "bDescriptorType"}
_DEVICE_FIELDS: Final = {
    "usb_version": "bcdUSB",
    "device_class": "bDeviceClass",
    "device_subclass": "bDeviceSubClass",
    "device_protocol": "bDeviceProtocol",
    "max_packet_size": "bMaxPacketSize0",
    "vendor": "idVendor",
    "product": "idProduct",
    "bcd_device": "bcdDevice",
    "manufacturer_string": "iManufacturer",
    "product_string": "iProduct",
    "serial_string": "iSerialNumber",
    "configuration_count": "bNumConfigurations",
}
_CONFIGURATION_FIELDS: Final = {
    "total_length": "wTotalLength",
    "value": "bConfigurationValue",
    "string": "iConfiguration",
    "attributes": "bmAttributes",
    "max_power": "bMaxPower",
}
_INTERFACE_FIELDS: Final = {
    "number": "bInterfaceNumber",
    "alternate": "bAlternateSetting",
    "interface_class": "bInterfaceClass",
    "interface_subclass": "bInterfaceSubClass",
    "interface_protocol": "bInterfaceProtocol",
    "string": "iInterface",
}
_ENDPOINT_FIELDS: Final = {
    "address": "bEndpointAddress",
    "attributes": "bmAttributes",
    "max_packet_size": "wMaxPacketSize",
    "interval": "bInterval",
}


def pyusb_device(descriptor: DeviceDescriptor, **place: object) -> SimpleNamespace:
    """Return a device descriptor; `place` says where the device is, in pyusb's names."""
    return _named(descriptor, _DEVICE_FIELDS, **place)


def pyusb_configuration(descriptor: ConfigurationDescriptor) -> SimpleNamespace:
    """Return a configuration descriptor, without its interfaces."""
    return _named(
        descriptor,
        _CONFIGURATION_FIELDS,
        bNumInterfaces=len(descriptor.settings),
        extra_descriptors=list(descriptor.extra),
    )


def pyusb_interface(descriptor: InterfaceDescriptor) -> SimpleNamespace:
    """Return the descriptor of an alternate setting, without its endpoints."""
    return _named(
        descriptor,
        _INTERFACE_FIELDS,
        bNumEndpoints=len(descriptor.endpoints),
        extra_descriptors=list(descriptor.extra),
    )


def pyusb_endpoint(descriptor: EndpointDescriptor) -> SimpleNamespace:
    """Return an endpoint descriptor; the two fields of audio devices are 0 for any other."""
    refresh, synch_address = descriptor.more[:2] if len(descriptor.more) >= 2 else (0, 0)
    return _named(
        descriptor,
        _ENDPOINT_FIELDS,
        bRefresh=refresh,
        bSynchAddress=synch_address,
        extra_descriptors=list(descriptor.extra),
    )


def _named(descriptor: Descriptor, names: dict[str, str], **more: object) -> SimpleNamespace:
    fields = {name: getattr(descriptor, field) for field, name in {**_COMMON_FIELDS, **names}.items()}
    return SimpleNamespace(**fields, **more)
