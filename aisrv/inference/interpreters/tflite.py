"""TensorFlow Lite as the interpreter: the reference kernels on one thread.

On int8 models `tflite-runtime` with the reference resolver equals TensorFlow Lite Micro bit for bit, which
the default resolver with XNNPACK does not ("Inference engines", table of engines). Where there is no
`tflite-runtime`, from Python 3.12 on, `ai-edge-litert` takes its place.
"""

try:
    from tflite_runtime import interpreter as binding
except ModuleNotFoundError:
    from aisrv.inference.interpreters.litert import binding
from aisrv.inference.interpreters.tflite_binding import BoundInterpreter


class TfliteInterpreter(BoundInterpreter):
    """One model in `tflite-runtime`, or `ai-edge-litert`."""

    def __init__(self) -> None:
        """Make one that is not loaded."""
        super().__init__(binding)
