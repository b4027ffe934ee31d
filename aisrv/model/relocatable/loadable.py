"""Requirements of engines on an image, whatever their cores: known when it is packed."""

from aisrv.model.limits import MAX_INPUTS, MAX_OUTPUTS
from aisrv.model.relocatable.container import EXECUTABLE, Image
from aisrv.model.relocatable.errors import ImageError
from aisrv.model.relocatable.model import model_of


def check_loadable(image: Image) -> None:
    """Raise ImageError for an image that no engine loads, whatever its core."""
    core = image.variant.core
    if core not in EXECUTABLE:
        raise ImageError(f"compiled for {core.label}, which no engine executes")
    model = model_of(image)
    for name, tensors, most in (
        ("inputs", model.inputs, MAX_INPUTS),
        ("outputs", model.outputs, MAX_OUTPUTS),
    ):
        if len(tensors) > most:
            raise ImageError(f"the model has {len(tensors)} {name}, a device takes at most {most}")
