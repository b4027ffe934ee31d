from aisrv.board import Board as Board
from aisrv.device.device import open_device as open_device
from host_tools.client import AiServer as AiServer

__all__ = ["AiServer", "Board", "__version__", "open_device"]

__version__: str
