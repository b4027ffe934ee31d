"""An image as a model: its tensors and operators, and whether any engine would take it."""

from aisrv.model import Model, ModelFileError, Operator, Options, Tensor
from aisrv.model.limits import MAX_INPUTS, MAX_OUTPUTS
from aisrv.model.reader import read_model
from aisrv.model.relocatable.container import EXECUTABLE, Image, is_image
from aisrv.model.relocatable.errors import ImageError
from aisrv.model.relocatable.network import Network
from aisrv.model.schema import OPERATORS


def read_loadable(data: bytes | bytearray | memoryview) -> Model:
    """Read a relocatable image, recognized by its magic, or a `.tflite` file. Raises ModelFileError."""
    if not is_image(data):
        return read_model(data)
    try:
        return model_of(Image.from_bytes(data))
    except ImageError as error:
        raise ModelFileError(f"the relocatable image: {error}") from error


def model_of(image: Image) -> Model:
    """Return inputs, outputs and nodes. Raises ImageError for an image that does not describe them.

    An operator has no tensors, which the image does not tell; its options are the counts "instructions" and
    "bytes_moved". The version is 0, which no file has.
    """
    network = Network.of(image)
    tensors: tuple[Tensor, ...] = tuple(
        info.tensor(index) for index, info in enumerate((*network.inputs, *network.outputs))
    )
    operators = tuple(
        Operator(
            index,
            OPERATORS[node.operator_code],
            (),
            (),
            Options({"instructions": node.instructions, "bytes_moved": node.bytes_moved}),
        )
        for index, node in enumerate(network.nodes)
    )
    inputs = len(network.inputs)
    return Model(
        version=0,
        description=image.name,
        tensors=tensors,
        operators=operators,
        inputs=tuple(range(inputs)),
        outputs=tuple(range(inputs, len(tensors))),
        memory=(image.context.activations_size, image.sizes.xip),
    )


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
