"""Metadata of inputs: read as the flatbuffers package writes them."""

from dataclasses import dataclass
from typing import Any

import flatbuffers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aisrv import digits
from aisrv.model import ModelFileError
from aisrv.model.metadata import METADATA_NAME, ColorSpace, InputMetadata, input_metadata
from aisrv.model.reader import read_model
from aisrv.model.values import Metadata, Model


@dataclass
class Unit:
    mean: tuple[float, ...]
    std: tuple[float, ...]


def written(name: str = "image", unit: Unit | None = None, color: int | None = None) -> bytes:
    """The metadata of a model of one input, by another writer than ours."""
    builder: Any = flatbuffers.Builder()
    units, content = None, None
    if unit is not None:
        vectors = []
        for values in (unit.mean, unit.std):
            builder.StartVector(4, len(values), 4)
            for value in reversed(values):
                builder.PrependFloat32(value)
            vectors.append(builder.EndVector())
        builder.StartObject(2)
        for slot, vector in enumerate(vectors):
            builder.PrependUOffsetTRelativeSlot(slot, vector, 0)
        options = builder.EndObject()
        builder.StartObject(2)
        builder.PrependUint8Slot(0, 1, 0)
        builder.PrependUOffsetTRelativeSlot(1, options, 0)
        units = _vector(builder, builder.EndObject())
    if color is not None:
        builder.StartObject(2)
        builder.PrependInt8Slot(0, color, 0)
        image = builder.EndObject()
        builder.StartObject(3)
        builder.PrependUint8Slot(0, 2, 0)
        builder.PrependUOffsetTRelativeSlot(1, image, 0)
        content = builder.EndObject()
    text = builder.CreateString(name)
    builder.StartObject(7)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    if content is not None:
        builder.PrependUOffsetTRelativeSlot(3, content, 0)
    if units is not None:
        builder.PrependUOffsetTRelativeSlot(4, units, 0)
    inputs = _vector(builder, builder.EndObject())
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(2, inputs, 0)
    subgraphs = _vector(builder, builder.EndObject())
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(3, subgraphs, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"M001")
    return bytes(builder.Output())


def _vector(builder: Any, table: int) -> int:
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())


def model_with(data: bytes) -> Model:
    return replace(read_model(digits.model_bytes()), metadata=(Metadata(METADATA_NAME, data),))


def test_means_and_colors_are_read() -> None:
    data = written("picture", Unit((127.5, 126.5), (128.0, 64.0)), color=1)
    assert input_metadata(model_with(data)) == (
        InputMetadata("picture", (127.5, 126.5), (128.0, 64.0), ColorSpace.RGB),
    )


@pytest.mark.parametrize(
    ("color", "read"),
    [(0, ColorSpace.UNKNOWN), (2, ColorSpace.GRAYSCALE), (9, ColorSpace.UNKNOWN), (None, None)],
)
def test_the_kind_of_colors(color: int | None, read: ColorSpace | None) -> None:
    (found,) = input_metadata(model_with(written(color=color)))
    assert found == InputMetadata("image", color_space=read)


def test_a_model_without_metadata_says_nothing() -> None:
    assert input_metadata(read_model(digits.model_bytes())) == ()
    assert input_metadata(model_with(b"no flatbuffer")) == ()


def test_a_deviation_of_0_is_refused() -> None:
    with pytest.raises(ModelFileError, match="metadata of input 0: 1 means and 1 deviations, above 0"):
        input_metadata(model_with(written(unit=Unit((1.0,), (0.0,)))))


@given(st.data())
def test_damaged_metadata_are_an_error_or_values(data: st.DataObject) -> None:
    content = bytearray(written("picture", Unit((1.0,), (2.0,)), color=1))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = input_metadata(model_with(bytes(content)))
    except ModelFileError:
        return
    assert all(isinstance(each, InputMetadata) for each in found)
