"""Other programs that want all of the machine's processors."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LOOPS = 6
SECONDS = 120  # after which they end by themselves
_LOOP = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: pass"


@contextmanager
def busy_machine() -> Iterator[None]:
    """Run six busy loops within the block."""
    with ExitStack() as stack:
        for _ in range(LOOPS):
            loop = subprocess.Popen([sys.executable, "-I", "-S", "-c", _LOOP])
            stack.callback(loop.wait)
            stack.callback(loop.kill)
        yield
