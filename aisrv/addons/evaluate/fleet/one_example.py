"""The process of one example, which a worker starts where others died: it takes no worker with it.

Its arguments are the worker's process, the run's folder, the shard and the example.
"""

import ctypes
import os
import signal
import sys
from typing import Final

from aisrv.addons.evaluate.fleet.tasks import run_piece

_PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str]) -> int:
    """Run the example, and write its piece; return the exit code."""
    parent, folder, shard, index = arguments
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return 1
    problem = run_piece(folder, int(shard), int(index), int(index) + 1)["problem"]
    if problem:
        print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
