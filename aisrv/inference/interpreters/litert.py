"""LiteRT as the interpreter: TensorFlow Lite's successor, in the package `ai-edge-litert`.

It verifies a model's structure before it reads it. On int8 models its FULLY_CONNECTED differs from
TensorFlow Lite Micro's by a few steps of the last bit ("Inference engines", table of engines).
"""

from aisrv.inference.interpreter import MissingPackageError
from aisrv.inference.interpreters.tflite_binding import BoundInterpreter

try:
    from ai_edge_litert import interpreter as binding
except ModuleNotFoundError as error:
    raise MissingPackageError("ai-edge-litert", "litert") from error

__all__ = ["LitertInterpreter", "binding"]


class LitertInterpreter(BoundInterpreter):
    """One model in `ai-edge-litert`."""

    def __init__(self) -> None:
        """Make one that is not loaded."""
        super().__init__(binding)
