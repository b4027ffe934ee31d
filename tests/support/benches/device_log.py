"""The debug log that an engine of a device keeps for its hosts."""

from aisrv.device.device import Device
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import get_command


async def log_of(device: Device, engine: int = 0) -> str:
    """What the log of an engine has, by its local channel."""
    _, text = await get_command(device.local[engine], Command.GET_DEBUG_LOG)
    return text.rstrip(b"\0").decode()
