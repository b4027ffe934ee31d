"""A virtual XMOS XCORE AI server: channel ends, an AI engine and its physical layers, without the chip.

    from aisrv import AiServer, Board, open_device

`AiServer` is the host's side, of hardware and of virtual devices; `open_device` runs the device of a `Board`
in this process. What goes wrong is a `HostError` at the host and a `BoardError` for a board that cannot be.
Each name is imported at its first use. Their types are in `__init__.pyi`.

What is public: these names, the pytest fixtures, the commands `aisrv`, `aisrv-host` and `aisrv-flash`, the
keys of board files, the entry-point groups, and of add-ons `AddOn`, `Part`, `RunningPart` and `AddedOptions`.
"""

from importlib import import_module

from aisrv.values.version import __version__

_HOMES = {
    "host_tools.client": ("AiServer",),
    "aisrv.board": ("Board", "BoardError", "EngineSpec"),
    "aisrv.device.device": ("open_device",),
    "host_tools.errors": (
        *("BadAddressError", "BadCommandError", "CommandError", "DeviceAccessDenied", "DeviceBusy"),
        *("DeviceGone", "DeviceNotFound", "HostError", "InferenceError", "ModelError", "NoEngineError"),
        *("NoModelError", "NotRunError", "TensorError", "TransactionTooLong", "TransferError"),
        *("TransferStall", "TransferTimeout", "UnexplainedError", "UnknownSlave", "UnsupportedCommand"),
    ),
}
"""Public names by the module that has them."""

__all__ = ["__version__", *sorted(name for names in _HOMES.values() for name in names)]  # noqa: PLE0604 - all texts


def __getattr__(name: str) -> object:
    """Import a public name at its first use (PEP 562)."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
