"""The map of an engine's memory, drawn: a bar for each memory, and its regions.

    arena                458,752 bytes  HHHHHHHHHH...................................................TTT
      H head              73,728 bytes   16.1 % from 0x0
      . free             357,936 bytes   78.0 % from 0x12000
      T tail              27,088 bytes    5.9 % from 0x69630, an estimate
    external memory    1,048,576 bytes  MMMMMMMMMMMMMMMMMMMM............................................
      M model            333,288 bytes   31.8 % from 0x0
      . free             715,288 bytes   68.2 % from 0x515e8

A character stands for a share of its own memory.
"""

from typing import Final

from aisrv.protocol.memory_map import MemoryMap, ModelMemory

WIDTH: Final = 64
"""Characters of a bar."""
COLORS: Final = {"model": "cyan", "head": "green", "free": "dim", "tail": "yellow"}
"""Color of each region on a terminal, and the order in which the legend has them."""
LETTERS: Final = {"model": "M", "head": "H", "free": ".", "tail": "T"}
"""What a bar is made of where there are no colors."""


def bar(memory_map: MemoryMap, memory: ModelMemory, width: int = WIDTH) -> list[tuple[str, int]]:
    """Share `width` characters among the regions of a memory, by rising offset; all 0 for one of no bytes.

    Regions of some bytes get a character each at least, and the largest takes what rounding leaves.
    """
    sizes = {name: region.size for name, region in memory_map.regions(memory).items()}
    total = sum(sizes.values())
    if not total:
        return [(name, 0) for name in sizes]
    shares = {name: max(1, width * size // total) if size else 0 for name, size in sizes.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    shares[largest] += width - sum(shares.values())
    return list(shares.items())


def memory_data(memory_map: MemoryMap) -> dict[str, dict[str, dict[str, int]]]:
    """Return the regions for `--json`: by memory and name, offset and bytes."""
    return {
        memory.name.lower(): {
            name: {"offset": region.offset, "bytes": region.size}
            for name, region in memory_map.regions(memory).items()
        }
        for memory in ModelMemory
    }


def show_memory(memory_map: MemoryMap) -> None:
    """Print both memories, each as a bar and as a table of its regions; the tail is an estimate."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for memory in ModelMemory:
        regions = memory_map.regions(memory)
        total = sum(region.size for region in regions.values())
        line = Text(f"{memory.value:<16} {total:>11,} bytes  ")
        for name, characters in bar(memory_map, memory):
            line.append(LETTERS[name] * characters, style=COLORS[name])
        console.print(line, soft_wrap=True)
        for name, region in regions.items():
            if region.size:
                share = 100 * region.size / total
                note = ", an estimate" if name == "tail" else ""
                key = Text(f"  {LETTERS[name]} ", style=COLORS[name])
                key.append(
                    f"{name:<12} {region.size:>11,} bytes  {share:5.1f} % from {region.offset:#x}{note}",
                    style="",
                )
                console.print(key, soft_wrap=True)
