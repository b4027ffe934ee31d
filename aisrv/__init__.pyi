from aisrv.board import Board as Board
from aisrv.board import BoardError as BoardError
from aisrv.board import EngineSpec as EngineSpec
from aisrv.device.device import open_device as open_device
from host_tools.client import AiServer as AiServer
from host_tools.errors import BadAddressError as BadAddressError
from host_tools.errors import BadCommandError as BadCommandError
from host_tools.errors import CommandError as CommandError
from host_tools.errors import DeviceAccessDenied as DeviceAccessDenied
from host_tools.errors import DeviceBusy as DeviceBusy
from host_tools.errors import DeviceGone as DeviceGone
from host_tools.errors import DeviceNotFound as DeviceNotFound
from host_tools.errors import HostError as HostError
from host_tools.errors import InferenceError as InferenceError
from host_tools.errors import ModelError as ModelError
from host_tools.errors import NoEngineError as NoEngineError
from host_tools.errors import NoModelError as NoModelError
from host_tools.errors import NotRunError as NotRunError
from host_tools.errors import TensorError as TensorError
from host_tools.errors import TransactionTooLong as TransactionTooLong
from host_tools.errors import TransferError as TransferError
from host_tools.errors import TransferStall as TransferStall
from host_tools.errors import TransferTimeout as TransferTimeout
from host_tools.errors import UnexplainedError as UnexplainedError
from host_tools.errors import UnknownSlave as UnknownSlave
from host_tools.errors import UnsupportedCommand as UnsupportedCommand

__all__ = [
    "AiServer",
    "BadAddressError",
    "BadCommandError",
    "Board",
    "BoardError",
    "CommandError",
    "DeviceAccessDenied",
    "DeviceBusy",
    "DeviceGone",
    "DeviceNotFound",
    "EngineSpec",
    "HostError",
    "InferenceError",
    "ModelError",
    "NoEngineError",
    "NoModelError",
    "NotRunError",
    "TensorError",
    "TransactionTooLong",
    "TransferError",
    "TransferStall",
    "TransferTimeout",
    "UnexplainedError",
    "UnknownSlave",
    "UnsupportedCommand",
    "__version__",
    "open_device",
]

__version__: str
