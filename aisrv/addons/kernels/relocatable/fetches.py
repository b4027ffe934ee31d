"""Fetches through the cache before the flash of a relocatable image that runs in place."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aisrv.addons.kernels.relocatable.machine import Machine
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE
from aisrv.addons.kernels.relocatable.runtime import Handle, LoadMode, Runtime
from aisrv.model.relocatable.container import PAGE, Image
from aisrv.model.relocatable.errors import ErrorCode, ErrorType, RuntimeFailure
from aisrv.values.heeded_signals import heeded
from flash_server.client.cache import XCORE_AI_CACHE, CacheCounters, CacheGeometry, LineCache


def count_fetches(image: Image, geometry: CacheGeometry = XCORE_AI_CACHE) -> CacheCounters:
    """Run an image, with its weights, once in place on inputs of zeros. Raises RuntimeFailure."""
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
    with fetch_counters(runtime, handle, geometry) as counters, _interruptible(runtime.machine(handle)):
        runtime.invoke(handle)
    return counters


@contextmanager
def fetch_counters(
    runtime: Runtime,
    handle: Handle,
    geometry: CacheGeometry = XCORE_AI_CACHE,
    most: int | None = None,
) -> Iterator[CacheCounters]:
    """Count within the block the fetches of an instance, through a cache that is empty at first.

    Each line of the cache that is touched takes about a microsecond. After `most` of them the code goes on
    uncounted, at its full speed. The counters are filled in when the block ends.
    """
    counters = CacheCounters()

    def stop() -> None:
        end()

    cache = LineCache(geometry, most, stop)
    end = runtime.machine(handle).trace(runtime.flash, cache.touch)
    try:
        yield counters
    finally:
        end()
        cache.count_into(counters)


@contextmanager
def _interruptible(machine: Machine) -> Iterator[None]:
    """Have Ctrl-C stop the code: raised in one of its hooks, a KeyboardInterrupt would get lost."""
    if threading.current_thread() is not threading.main_thread() or not heeded(signal.SIGINT):
        yield
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: machine.stop(KeyboardInterrupt()))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
