"""How a transfer tells how far it is."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes done and the bytes in all."""
