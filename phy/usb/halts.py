"""How a failure is told where the wire has no status: both bulk endpoints halt until the host clears both.

Source: "XCORE AI server: numbers and wire behaviour", section USB framing.
"""

from phy.usb.xud import InEndpoint, OutEndpoint


async def halt_until_cleared(out: OutEndpoint, into: InEndpoint) -> None:
    """Halt both endpoints, and wait until the host has cleared both; UsbReset where a reset comes first."""
    out.check_reset()  # a halt must not hit the configuration that came after the command
    into.halt()
    out.halt()
    await out.wait_halt_cleared()
    await into.wait_halt_cleared()
