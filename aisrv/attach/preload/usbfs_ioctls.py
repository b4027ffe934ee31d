"""The ioctls on a usbfs node, for one client whose memory is reached through its stream.

Every call is answered without waiting for a transfer, because the client holds its file's lock meanwhile: so
there is no blocking REAPURB. Source: the Linux kernel's document "The Linux-USB Host Side API".
"""

import errno
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.attach.preload.stream import PreloadStream
from aisrv.attach.preload.usbfs import (
    SPEED_HIGH,
    Address,
    Capability,
    ConnectInfo,
    DriverRequest,
    InterfaceSetting,
    Ioctl,
    UInt,
    Urb,
    UsbfsError,
)
from aisrv.attach.preload.usbfs_node import UsbfsFile
from aisrv.protocol.usb_descriptors import DIRECTION_IN, Recipient, SetupPacket, StandardRequest
from phy.usb.urb import LINUX_STATUS

CAPABILITIES: Final = Capability.ZERO_PACKET | Capability.NO_PACKET_SIZE_LIM | Capability.BULK_SCATTER_GATHER


class Call(Struct, frozen=True):
    """One ioctl: its client, and its argument, an address or a number."""

    stream: PreloadStream
    file: UsbfsFile
    argument: int

    async def fetch(self, size: int) -> bytes:
        """Return the structure that the argument points to; EFAULT for a null pointer."""
        return await self.stream.read_memory(self._address(), size)

    async def fetch_uint(self) -> int:
        return UInt.from_bytes(await self.fetch(UInt.SIZE)).value

    def store(self, data: bytes) -> None:
        """Write to the address in the argument; EFAULT for a null pointer."""
        self.stream.write_memory(self._address(), data)

    @property
    def host(self) -> InProcessHost:
        """The device, for control transfers of the kernel's own."""
        return InProcessHost(self.file.node.port)

    def _address(self) -> int:
        if not self.argument:
            raise UsbfsError(errno.EFAULT)
        return self.argument


async def configuration_of(host: InProcessHost) -> int:
    """Return the number of the device's configuration, 0 for none."""
    return (await host.control(SetupPacket(DIRECTION_IN, StandardRequest.GET_CONFIGURATION, 0, 0, 1)))[0]


async def _get_capabilities(call: Call) -> int:
    call.store(bytes(UInt(CAPABILITIES)))
    return 0


async def _get_speed(_call: Call) -> int:
    return SPEED_HIGH


async def _connect_info(call: Call) -> int:
    call.store(bytes(ConnectInfo(call.file.node.device_number)))
    return 0


async def _claim_interface(call: Call) -> int:
    call.file.node.claim(await call.fetch_uint(), call.file)
    return 0


async def _release_interface(call: Call) -> int:
    call.file.node.release(await call.fetch_uint(), call.file)
    return 0


async def _get_driver(_call: Call) -> int:
    raise UsbfsError(errno.ENODATA)


async def _driver_request(call: Call) -> int:
    code = DriverRequest.from_bytes(await call.fetch(DriverRequest.SIZE)).code
    if code == Ioctl.DISCONNECT:
        raise UsbfsError(errno.ENODATA)
    if code == Ioctl.CONNECT:
        return 0
    raise UsbfsError(errno.ENOTTY)


async def _drop_privileges(_call: Call) -> int:
    return 0


async def _set_configuration(call: Call) -> int:
    value = await call.fetch_uint()
    node = call.file.node
    if node.claimed:
        raise UsbfsError(errno.EBUSY)
    if value not in (0, node.port.descriptors.configuration.value):
        raise UsbfsError(errno.EINVAL)
    await call.host.control(SetupPacket(0, StandardRequest.SET_CONFIGURATION, value, 0, 0))
    return 0


async def _set_interface(call: Call) -> int:
    wanted = InterfaceSetting.from_bytes(await call.fetch(InterfaceSetting.SIZE))
    interface, setting = wanted.interface, wanted.setting
    call.file.node.claim(interface, call.file)
    interfaces = call.file.node.port.descriptors.configuration.interfaces
    if (interface, setting) not in {(each.number, each.alternate) for each in interfaces}:
        raise UsbfsError(errno.EINVAL)
    setup = SetupPacket(Recipient.INTERFACE, StandardRequest.SET_INTERFACE, setting, interface, 0)
    await call.host.control(setup)
    return 0


async def _claimed_endpoint(call: Call) -> int:
    endpoint = await call.fetch_uint()
    node = call.file.node
    node.claim(node.interface_of(endpoint), call.file)
    return endpoint


async def _clear_halt(call: Call) -> int:
    await call.host.clear_halt(await _claimed_endpoint(call))
    return 0


async def _reset_endpoint(call: Call) -> int:
    await _claimed_endpoint(call)  # it is the host's own data toggle that starts afresh
    return 0


async def _reset(call: Call) -> int:
    await call.host.plug_in()
    return 0


async def _submit_urb(call: Call) -> int:
    urb = Urb.from_bytes(await call.fetch(Urb.SIZE))
    size = call.file.check(call.argument, urb)
    data = await call.stream.read_large_memory(urb.buffer, size)
    call.file.check(call.argument, urb)  # again: another thread or client may have been faster
    call.file.submit(call.argument, urb, data)
    return 0


async def _discard_urb(call: Call) -> int:
    call.file.discard(call.argument)
    return 0


async def _reap_urb(call: Call) -> int:
    if not call.argument:
        raise UsbfsError(errno.EFAULT)
    reaped = call.file.reap()
    call.stream.write_memory(reaped.data_address, reaped.data)
    call.stream.write_memory(reaped.address, bytes(reaped.urb))
    call.store(bytes(Address(reaped.address)))
    return 0


HANDLERS: Final[dict[int, Callable[[Call], Awaitable[int]]]] = {
    Ioctl.GET_CAPABILITIES: _get_capabilities,
    Ioctl.GET_SPEED: _get_speed,
    Ioctl.CONNECTINFO: _connect_info,
    Ioctl.CLAIMINTERFACE: _claim_interface,
    Ioctl.RELEASEINTERFACE: _release_interface,
    Ioctl.DISCONNECT_CLAIM: _claim_interface,  # the interface is its first field
    Ioctl.GETDRIVER: _get_driver,
    Ioctl.IOCTL: _driver_request,
    Ioctl.DROP_PRIVILEGES: _drop_privileges,
    Ioctl.SETCONFIGURATION: _set_configuration,
    Ioctl.SETINTERFACE: _set_interface,
    Ioctl.CLEAR_HALT: _clear_halt,
    Ioctl.RESETEP: _reset_endpoint,
    Ioctl.RESET: _reset,
    Ioctl.SUBMITURB: _submit_urb,
    Ioctl.DISCARDURB: _discard_urb,
    Ioctl.REAPURBNDELAY: _reap_urb,
}


async def ioctl(call: Call, code: int) -> int:
    """Do an ioctl and return its result. Raises UsbfsError, ENODEV for all but reaping without the device."""
    handler = HANDLERS.get(code & 0xFFFFFFFF)
    if call.file.node.unplugged and handler is not _reap_urb:
        raise UsbfsError(errno.ENODEV)
    if handler is None:
        raise UsbfsError(errno.ENOTTY)
    try:
        return await handler(call)
    except TransferFailed as failure:
        raise UsbfsError(-LINUX_STATUS[failure.status]) from failure
