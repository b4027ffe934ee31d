"""Where things lie in the checkout."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
"""The checkout."""


def product_modules() -> list[Path]:
    """All modules of the packages that are installed."""
    packages = ("aisrv", "flash_server", "host_tools", "phy")
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
