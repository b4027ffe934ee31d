"""The distribution of these modules: `aisrv`, or `aisrv-host`, which has them alone."""

from importlib.util import find_spec
from typing import Final

ALONE: Final = "This is aisrv-host alone. Do not install it beside aisrv, which has all of it, too."


def is_alone() -> bool:
    """Check whether only the host's side is installed."""
    return find_spec("aisrv.__main__") is None
