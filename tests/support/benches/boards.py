"""Parts of boards."""

from aisrv.board import EngineSpec


def engines_on(*tiles: int) -> tuple[EngineSpec, ...]:
    """Engines on these tiles, without an arena."""
    return tuple(EngineSpec(tile=tile, arena_bytes=0) for tile in tiles)
