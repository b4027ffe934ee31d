"""Where things lie in the checkout."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
"""The checkout."""


def product_modules() -> list[Path]:
    """All modules of the packages that are installed."""
    packages = ("aisrv", "flash_server", "host_tools", "phy")
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def product_sources(pattern: str) -> dict[Path, str]:
    """Return all modules whose text has a regular expression in it; to parse all of them takes seconds."""
    texts = {path: path.read_text(encoding="utf-8") for path in product_modules()}
    return {path: text for path, text in texts.items() if re.search(pattern, text)}
