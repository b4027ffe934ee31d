"""A virtual XMOS XCORE AI server: channel ends, an AI engine and its physical layers, without the chip.

    from aisrv import AiServer, Board, open_device

`AiServer` is the host's side, of hardware and of virtual devices; `open_device` runs the device of a `Board`
in this process. Each is imported at its first use. Their types are in `__init__.pyi`.
"""

from importlib import import_module

from aisrv.values.version import __version__

__all__ = ["AiServer", "Board", "__version__", "open_device"]

_HOMES = {"AiServer": "host_tools.client", "Board": "aisrv.board", "open_device": "aisrv.device.device"}


def __getattr__(name: str) -> object:
    """Import a public name at its first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
