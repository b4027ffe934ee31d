"""What a relocatable image that runs in place fetches through the cache before the flash."""

from collections.abc import Iterator
from contextlib import contextmanager

from aisrv.relocatable.container import Image
from aisrv.relocatable.errors import ErrorCode, ErrorType, RuntimeFailure
from aisrv.relocatable.memory import FLASH_BASE, PAGE
from aisrv.relocatable.runtime import Handle, LoadMode, Runtime
from flash_server.client.cache import XCORE_AI_CACHE, CacheCounters, CacheGeometry, LineCache


def count_fetches(image: Image, geometry: CacheGeometry = XCORE_AI_CACHE) -> CacheCounters:
    """Run an image once in place, on inputs of zeros; RuntimeFailure where it does not run.

    The image must have its weights.
    """
    activations = image.context.activations_size
    runtime = Runtime(
        image.variant.core,
        flash_bytes=len(image.data),
        ram_bytes=image.sizes.xip + activations + 4 * PAGE,
        seconds=600,
    )
    runtime.write_flash(FLASH_BASE, image.data)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    weights = runtime.rt_get_info(FLASH_BASE).weights
    if not runtime.init(handle, weights, runtime.malloc(activations)):
        raise RuntimeFailure(
            "the image cannot be initialized: it has no weights",
            ErrorType.INIT_FAILED,
            ErrorCode.NETWORK_WEIGHTS,
        )
    with fetch_counters(runtime, handle, geometry) as counters:
        runtime.invoke(handle)
    return counters


@contextmanager
def fetch_counters(
    runtime: Runtime, handle: Handle, geometry: CacheGeometry = XCORE_AI_CACHE
) -> Iterator[CacheCounters]:
    """Count within the block what an instance fetches, through a cache that is empty at first."""
    cache = LineCache(geometry)

    def touched(address: int, size: int) -> None:
        cache.touch(address - FLASH_BASE, size)

    end = runtime.machine(handle).trace(runtime.flash, touched)
    try:
        yield cache.counters
    finally:
        end()
