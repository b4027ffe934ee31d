"""The layout of a flash's data partition as values: generations, headers, building, detecting, parsing.

`DataPartition.build` and `parse` are for whole images; a server that reads a chip piece by piece uses
`detect`, `parse_headers`, `segment_limits` and `model_segment` on the first `PREFIX_BYTES`.
"""

from flash_server.image.build import DataPartition, EngineImage
from flash_server.image.detect import detect
from flash_server.image.generations import Generation, ImageFormat
from flash_server.image.headers import (
    PREFIX_BYTES,
    Header,
    Part,
    Segment,
    Segments,
    header_size,
    model_segment,
    parse_headers,
    segment_limits,
)
from flash_server.image.parse import ImageMap, map_image, parse

__all__ = [
    "PREFIX_BYTES",
    "DataPartition",
    "EngineImage",
    "Generation",
    "Header",
    "ImageFormat",
    "ImageMap",
    "Part",
    "Segment",
    "Segments",
    "detect",
    "header_size",
    "map_image",
    "model_segment",
    "parse",
    "parse_headers",
    "segment_limits",
]
