"""Create the digits network and its test images: `python -m benchmarks.train.digits [DIRECTORY]`.

The data are the 1797 images of the UCI handwritten digits that scikit-learn bundles. A fixed permutation
picks 1400 to train the network and to set its ranges; the other 397 are the test images. Both are written as
IDX files. Without DIRECTORY the files are written into the package `aisrv.digits`.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import click
import numpy as np
import numpy.typing as npt

from aisrv import digits
from aisrv.terminal.file_types import FOLDER
from aisrv.values.whole_file import write_whole
from benchmarks.train.quantize import in_floats, quantize, with_features
from benchmarks.train.training import Array, Indices, Parameters, accuracy, train

TRAINING_IMAGES: Final = 1400
SEED: Final = 0


class TrainingError(Exception):
    """The network cannot be made here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Images as pixels of 0 to 16, uint8 [n, 8, 8], and their labels [n]."""

    pixels: npt.NDArray[np.uint8]
    labels: Indices

    @property
    def images(self) -> Array:
        """Images as the network's real input: float64 [n, 8, 8, 1] of 0 to 1."""
        return self.pixels[..., None] / digits.INK

    def __getitem__(self, picked: Indices) -> Self:
        return type(self)(self.pixels[picked], self.labels[picked])

    def image_file(self) -> bytes:
        """The pixels in the IDX format."""
        return struct.pack(">4I", digits.IDX_IMAGES, *self.pixels.shape) + self.pixels.tobytes()

    def label_file(self) -> bytes:
        """The labels in the IDX format."""
        return (
            struct.pack(">2I", digits.IDX_LABELS, len(self.labels)) + self.labels.astype(np.uint8).tobytes()
        )


def load_data() -> tuple[Dataset, Dataset]:
    """Return the training images and the test images. Raises TrainingError without scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        message = "the images come with scikit-learn, which is not installed: pip install scikit-learn"
        raise TrainingError(message) from error
    bunch = load_digits()
    data = Dataset(bunch.images.astype(np.uint8), bunch.target.astype(np.intp))
    order = np.random.RandomState(SEED).permutation(len(data.labels))
    return data[order[:TRAINING_IMAGES]], data[order[TRAINING_IMAGES:]]


def make_files(parameters: Parameters, training: Dataset, test: Dataset) -> dict[str, bytes]:
    """Return the content of each shipped file by its name."""
    model = quantize(parameters, training.images)
    return {
        digits.MODEL_FILE: bytes(model),
        digits.FLOAT_MODEL_FILE: bytes(in_floats(parameters)),
        digits.TWO_OUTPUT_MODEL_FILE: bytes(with_features(model)),
        digits.IMAGES_FILE: test.image_file(),
        digits.LABELS_FILE: test.label_file(),
        digits.TRAINING_IMAGES_FILE: training.image_file(),
        digits.TRAINING_LABELS_FILE: training.label_file(),
    }


def int8_accuracy(model: bytes, data: Dataset) -> float:
    """Return the share of right images by TensorFlow Lite's reference kernels, the largest score counting."""
    try:
        from tflite_runtime.interpreter import Interpreter, OpResolverType
    except ModuleNotFoundError:  # there is none for Python 3.12 and later
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    interpreter = Interpreter(
        model_content=model, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    right = 0
    for pixels, label in zip(data.pixels, data.labels, strict=True):
        image = np.frombuffer(digits.quantize_pixels(pixels.tobytes()), np.int8)
        interpreter.set_tensor(source["index"], image.reshape(source["shape"]))
        interpreter.invoke()
        right += int(interpreter.get_tensor(result["index"]).argmax() == label)
    return right / len(data.labels)


def write_files(files: Mapping[str, bytes], directory: Path) -> None:
    """Write each file whole or not at all. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(directory / name, [content])


@click.command()
@click.argument("directory", type=FOLDER, default=Path(digits.__file__).parent)
def main(directory: Path) -> None:
    """Train the digits network and write it, with its test images, into DIRECTORY (default: the package)."""
    try:
        training, test = load_data()
        parameters = train(training.images, training.labels, SEED)
        files = make_files(parameters, training, test)
        for name, data in (("training", training), ("test", test)):
            share = accuracy(parameters, data.images, data.labels)
            click.echo(f"{name} images, floating point: {share:.2%}")
        click.echo(f"test images, int8: {int8_accuracy(files[digits.MODEL_FILE], test):.2%}")
        write_files(files, directory)
    except (TrainingError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for name, content in files.items():
        click.echo(f"{directory / name}: {len(content)} bytes")


if __name__ == "__main__":
    main()
