"""The memories of a device that hold a model's tensors and parameters, and the ways to read flash."""

import enum


class Memory(enum.Enum):
    """Memory of an engine's arena, of parameters or of activations."""

    INTERNAL = "internal"
    """The SRAM of the engine's tile."""
    EXTERNAL = "external"
    """LPDDR."""


class FlashPath(enum.Enum):
    """Ways to read parameters from flash, which decide on the time of an inference."""

    SERVER = "server"
    """Through the flash server, byte by byte."""
    FAST = "fast"
    """Fast flash, which came with the tools of 2024."""
