"""Instructions of each node, counted in one run of an image and written into its description."""

import struct
from collections import defaultdict
from typing import Final

from msgspec.structs import replace

from aisrv.addons.kernels.images.thumb import work_of
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE
from aisrv.addons.kernels.relocatable.runtime import LoadMode, NodeEvent, Runtime
from aisrv.model.relocatable.container import PAGE, Image
from aisrv.model.relocatable.network import Network

_SECONDS: Final = 600.0
_WORD_LIMIT: Final = (1 << 32) - 1

Blocks = defaultdict[tuple[int, int], int]
"""How often each run of instructions ran, by its address and length."""


def with_counts(image: bytes, weights: bytes) -> bytes:
    """Return the image with the instructions and the bytes of each of its nodes, for inputs of zeros."""
    checked = Image.from_bytes(image)
    network = Network.of(checked)
    counts = count_nodes(checked, weights)
    changed = bytearray(image)
    for index, (node, (instructions, moved)) in enumerate(zip(network.nodes, counts, strict=True)):
        info = replace(node, instructions=min(instructions, _WORD_LIMIT), bytes_moved=min(moved, _WORD_LIMIT))
        struct.pack_into(f"<{info.SIZE}s", changed, network.nodes_at + index * info.SIZE, bytes(info))
    return bytes(changed)


def count_nodes(image: Image, weights: bytes) -> list[tuple[int, int]]:
    """Count instructions, and bytes loaded and stored, of each node in one run with all `weights`."""
    size = len(image.data) + len(weights)
    needed = image.sizes.xip + image.context.activations_size
    runtime = Runtime(
        image.variant.core, flash_bytes=size + PAGE, ram_bytes=needed + 4 * PAGE, seconds=_SECONDS
    )
    runtime.write_flash(FLASH_BASE, image.data)
    at = FLASH_BASE + len(image.data)
    runtime.write_flash(at, weights)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    runtime.init(handle, at, runtime.malloc(image.context.activations_size))
    blocks: list[Blocks] = [defaultdict(int) for _ in Network.of(image).nodes]
    others: Blocks = defaultdict(int)
    current = others

    def observed(event: NodeEvent) -> None:
        nonlocal current
        current = blocks[event.index] if event.is_before else others

    def counted(address: int, length: int) -> None:
        current[address, length] += 1

    runtime.observer_register(handle, observed)
    end = runtime.machine(handle).count_blocks(counted)
    runtime.invoke(handle)
    end()
    runtime.destroy(handle)
    return [_total(runtime, counter) for counter in blocks]


def _total(runtime: Runtime, blocks: Blocks) -> tuple[int, int]:
    instructions = moved = 0
    for (address, length), times in blocks.items():
        if not runtime.flash.holds(address, length):
            continue
        work = work_of(runtime.flash.read(address, length))
        instructions += times * work.instructions
        moved += times * work.bytes_moved
    return instructions, moved
