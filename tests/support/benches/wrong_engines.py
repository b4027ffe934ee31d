"""Engines of somebody else that are wrong, crash, end or print."""

import os
import signal

from aisrv.addons.kernels.interpreter import KernelsInterpreter


class Inverting(KernelsInterpreter):
    """Inverts the first byte of each output."""

    def get_output(self, number: int, into: memoryview) -> None:
        super().get_output(number, into)
        into[0] ^= 0xFF


class Crashing(KernelsInterpreter):
    """Dies as of a wrong address."""

    def invoke(self) -> None:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)


class Ending(KernelsInterpreter):
    """Ends its process."""

    def invoke(self) -> None:
        os._exit(7)


class Printing(KernelsInterpreter):
    """Prints as it runs."""

    def invoke(self) -> None:
        os.write(1, b"printed by an engine\n")
        super().invoke()
