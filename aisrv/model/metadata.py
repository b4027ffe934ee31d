"""Metadata of a model's inputs: the normalization of pixels that the network was trained with.

TensorFlow Lite keeps them in the buffer `TFLITE_METADATA`, a flatbuffer of a schema of its own.
"""

import enum
from typing import Final

from msgspec import Struct

from aisrv.model.errors import ModelFileError
from aisrv.model.flatbuffer import File, Table
from aisrv.model.metadata_schema import IMAGE_PROPERTIES, METADATA_IDENTIFIER, NORMALIZATION_OPTIONS
from aisrv.model.values import Model

METADATA_NAME: Final = "TFLITE_METADATA"


class ColorSpace(enum.IntEnum):
    """Colors of an input that is an image."""

    UNKNOWN = 0
    RGB = 1
    GRAYSCALE = 2


class InputMetadata(Struct, frozen=True):
    """Metadata of one input: a pixel becomes (pixel - mean) / std, for each channel or for all."""

    name: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    """As many as `mean`; both are empty if the file has none."""
    color_space: ColorSpace | None = None
    """None for an input that is said to be no image."""


def input_metadata(model: Model) -> tuple[InputMetadata, ...]:
    """Return the metadata of a model's inputs, in order; none if it has none. Raises ModelFileError."""
    data = next((each.data for each in model.metadata if each.name == METADATA_NAME), b"")
    if data[4:8] != METADATA_IDENTIFIER:
        return ()
    root = File(data).root_of("ModelMetadata", "the metadata")
    subgraphs = list(root.tables("subgraph_metadata", "metadata of subgraph"))
    if not subgraphs:
        return ()
    inputs = subgraphs[0].tables("input_tensor_metadata", "metadata of input")
    return tuple(_input(table) for table in inputs)


def _input(table: Table) -> InputMetadata:
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    for unit in table.tables("process_units", f"{table.where}: process unit"):
        if unit.integer("options_type") == NORMALIZATION_OPTIONS:
            options = unit.table("options", "NormalizationOptions")
            if options is not None:
                mean, std = options.numbers("mean"), options.numbers("std")
    if len(mean) != len(std) or any(not abs(each) > 0 for each in std):
        raise ModelFileError(
            f"{table.where}: {len(mean)} means and {len(std)} deviations, above 0, are no pairs"
        )
    return InputMetadata(table.text("name"), mean, std, _color_space(table))


def _color_space(table: Table) -> ColorSpace | None:
    content = table.table("content")
    if content is None or content.integer("content_properties_type") != IMAGE_PROPERTIES:
        return None
    properties = content.table("content_properties", "ImageProperties")
    number = 0 if properties is None else properties.integer("color_space")
    return ColorSpace(number) if number in set(ColorSpace) else ColorSpace.UNKNOWN
