"""TensorFlow Lite's schema of metadata, as far as inputs are read: tables as those of `schema`.

Source: metadata_schema.fbs of TensorFlow, version 1.0.1; a union takes two slots, its type and its value.
As there, slots count from the start of a field list, which begins with two lengths.
"""

from typing import Final

from aisrv.model.schema import Field

METADATA_TABLES: Final[dict[str, dict[str, Field]]] = {
    "ModelMetadata": {"subgraph_metadata": (5, "[SubGraphMetadata", None)},
    "SubGraphMetadata": {"input_tensor_metadata": (4, "[TensorMetadata", None)},
    "TensorMetadata": {
        "name": (2, "s", None),
        "content": (5, "Content", None),
        "process_units": (6, "[ProcessUnit", None),
    },
    "Content": {
        "content_properties_type": (2, "B", 0),
        "content_properties": (3, "union", None),
    },
    "ImageProperties": {"color_space": (2, "b", 0)},
    "ProcessUnit": {"options_type": (2, "B", 0), "options": (3, "union", None)},
    "NormalizationOptions": {"mean": (2, "[f", None), "std": (3, "[f", None)},
}

METADATA_IDENTIFIER: Final = b"M001"
"""Bytes 4 to 7 of the metadata."""
IMAGE_PROPERTIES: Final = 2
"""Number of these properties in the union of contents."""
NORMALIZATION_OPTIONS: Final = 1
"""Number of these options in the union of processes of a tensor."""
