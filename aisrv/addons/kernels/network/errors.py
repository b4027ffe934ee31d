"""The errors of a network: all at load, for a model that this engine cannot run."""

from aisrv.addons.kernels.errors import KernelError


class NetworkError(KernelError):
    """A model that cannot be run; the message says which operator or tensor, and what is wrong with it."""


class UnsupportedOperator(NetworkError):
    """A model with an operator that no code here executes; the message has its name and number."""


class ArenaTooSmall(NetworkError):
    """Tensors that need more memory than they may have."""

    def __init__(self, needed: int, available: int) -> None:
        """Store both sizes, in bytes."""
        super().__init__(f"the tensors need an arena of {needed:,} bytes, there are {available:,}")
