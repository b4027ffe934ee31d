"""A first run of a binding, before its process gives up the right to open files.

Bindings import modules and read what the processor can do when they load or run their first model.
"""

from pathlib import Path
from typing import Final

import aisrv
from aisrv.inference.interpreter import Interpreter, run_once

MODEL: Final = Path("digits", "digits.tflite")
ARENA_BYTES: Final = 1 << 18


def warm_up(interpreter: Interpreter) -> None:
    """Load the digits network into an interpreter that is used for nothing else, and run it once."""
    model = (Path(aisrv.__file__).parent / MODEL).read_bytes()
    layout = interpreter.load(model, ARENA_BYTES)
    run_once(interpreter, *layout.views(memoryview(bytearray(layout.nbytes))))
