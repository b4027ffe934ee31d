"""Steps of random networks that move elements: operators of any type, with all their options and masks."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace
from tflite import BuiltinOperator

from tests.support.models.network_recipe import LARGEST, Recipe
from tests.support.models.one_operator import constant

Step = Callable[[Recipe], None]


def _shaped(
    recipe: Recipe,
    code: int,
    shape: Sequence[int],
    constants: Sequence[Any] = (),
    options: Mapping[str, Any] | None = None,
) -> None:
    """Append an operator that makes another shape of the last tensor; constants are int32."""
    if math.prod(shape) <= LARGEST:
        fixed = [recipe.fixed(constant("c", each)) for each in constants]
        recipe.apply(code, [recipe.last, *fixed], recipe.like(recipe.last, shape), options)


def _reshape(recipe: Recipe) -> None:
    shape = list(recipe.last.shape)
    recipe.chance.shuffle(shape)
    _shaped(recipe, BuiltinOperator.RESHAPE, shape, [shape], {"new_shape": shape})


def _squeeze(recipe: Recipe) -> None:
    ones = [axis for axis, size in enumerate(recipe.last.shape) if size == 1]
    if ones and len(recipe.last.shape) > 2:
        axis = recipe.chance.choice(ones)
        shape = [size for place, size in enumerate(recipe.last.shape) if place != axis]
        _shaped(recipe, BuiltinOperator.SQUEEZE, shape, (), {"squeeze_dims": [axis]})


def _expand_dims(recipe: Recipe) -> None:
    shape = list(recipe.last.shape)
    if len(shape) < 4:
        axis = recipe.chance.randint(0, len(shape))
        shape.insert(axis, 1)
        axis -= recipe.chance.choice((0, len(shape)))
        _shaped(recipe, BuiltinOperator.EXPAND_DIMS, shape, [[axis]])


def _broadcast_to(recipe: Recipe) -> None:
    pick = recipe.chance.randint
    shape = [pick(1, 3) if size == 1 else size for size in recipe.last.shape]
    if len(shape) < 4:
        shape.insert(0, pick(1, 2))
    _shaped(recipe, BuiltinOperator.BROADCAST_TO, shape, [shape])


def _pad_amounts(recipe: Recipe, most: Sequence[int]) -> list[tuple[int, int]]:
    pick = recipe.chance.randint
    return [(pick(0, min(2, size)), pick(0, min(2, size))) for size in most]


def _grown(recipe: Recipe, amounts: Sequence[tuple[int, int]]) -> list[int]:
    return [size + sum(pair) for size, pair in zip(recipe.last.shape, amounts, strict=True)]


def _pad(recipe: Recipe) -> None:
    amounts = [(0, 0), *_pad_amounts(recipe, [2] * (len(recipe.last.shape) - 1))]
    _shaped(recipe, BuiltinOperator.PAD, _grown(recipe, amounts), [amounts])


def _pad_v2(recipe: Recipe) -> None:
    amounts = [(0, 0), *_pad_amounts(recipe, [2] * (len(recipe.last.shape) - 1))]
    shape = _grown(recipe, amounts)
    if math.prod(shape) <= LARGEST:
        filling = replace(recipe.values((1,), 1.0), quantization=recipe.last.quantization)
        inputs = [recipe.last, recipe.fixed(constant("amounts", amounts)), recipe.fixed(filling)]
        recipe.apply(BuiltinOperator.PADV2, inputs, recipe.like(recipe.last, shape))


def _mirror_pad(recipe: Recipe) -> None:
    mode = recipe.chance.randint(0, 1)
    # A reflection leaves out the border itself.
    amounts = _pad_amounts(recipe, [size - 1 + mode for size in recipe.last.shape])
    _shaped(recipe, BuiltinOperator.MIRROR_PAD, _grown(recipe, amounts), [amounts], {"mode": mode})


def _transpose(recipe: Recipe) -> None:
    source = recipe.last
    order = recipe.chance.sample(range(len(source.shape)), len(source.shape))
    _shaped(recipe, BuiltinOperator.TRANSPOSE, [source.shape[place] for place in order], [order])


def _space_to_depth(recipe: Recipe) -> None:
    if len(recipe.last.shape) == 4:
        batch, height, width, channels = recipe.last.shape
        block = recipe.chance.choice([size for size in (1, 2, 3) if height % size == width % size == 0])
        shape = (batch, height // block, width // block, channels * block * block)
        _shaped(recipe, BuiltinOperator.SPACE_TO_DEPTH, shape, (), {"block_size": block})


def _depth_to_space(recipe: Recipe) -> None:
    if len(recipe.last.shape) == 4:
        batch, height, width, channels = recipe.last.shape
        block = recipe.chance.choice([size for size in (1, 2, 3) if channels % (size * size) == 0])
        shape = (batch, height * block, width * block, channels // block**2)
        _shaped(recipe, BuiltinOperator.DEPTH_TO_SPACE, shape, (), {"block_size": block})


def _resize(code: int) -> Step:
    def step(recipe: Recipe) -> None:
        if len(recipe.last.shape) != 4:
            return
        batch, _, _, channels = recipe.last.shape
        sizes = [recipe.chance.randint(1, 9) for _ in range(2)]
        align, half = recipe.chance.choice(((0, 0), (1, 0), (0, 1)))
        options = {"align_corners": align, "half_pixel_centers": half}
        _shaped(recipe, code, (batch, *sizes, channels), [sizes], options)

    return step


def _concatenation(recipe: Recipe) -> None:
    source, rank = recipe.last, len(recipe.last.shape)
    other, axis = recipe.alike(), recipe.chance.randrange(rank)
    shape = [size * (2 if place == axis else 1) for place, size in enumerate(source.shape)]
    if math.prod(shape) <= LARGEST:
        options = {"axis": axis - recipe.chance.choice((0, rank))}
        recipe.apply(BuiltinOperator.CONCATENATION, [source, other], recipe.like(source, shape), options)


def _pack(recipe: Recipe) -> None:
    source, rank = recipe.last, len(recipe.last.shape)
    if rank < 4 and 2 * math.prod(source.shape) <= LARGEST:
        other, axis = recipe.alike(), recipe.chance.randint(0, rank)
        output = recipe.like(source, (*source.shape[:axis], 2, *source.shape[axis:]))
        options = {"values_count": 2, "axis": axis - recipe.chance.choice((0, rank + 1))}
        recipe.apply(BuiltinOperator.PACK, [source, other], output, options)


def _unpack(recipe: Recipe) -> None:
    source, rank = recipe.last, len(recipe.last.shape)
    if rank > 2:
        axis = recipe.chance.randrange(rank)
        part = source.shape[:axis] + source.shape[axis + 1 :]
        outputs = [recipe.like(source, part) for _ in range(source.shape[axis])]
        options = {"num": len(outputs), "axis": axis - recipe.chance.choice((0, rank))}
        recipe.apply(BuiltinOperator.UNPACK, [source], outputs[0], options, *outputs[1:])


def _slice(recipe: Recipe) -> None:
    pick = recipe.chance.randint
    begins = [pick(0, size - 1) for size in recipe.last.shape]
    lengths = [pick(1, size - begin) for size, begin in zip(recipe.last.shape, begins, strict=True)]
    ends = zip(recipe.last.shape, begins, lengths, strict=True)
    told = [-1 if begin + length == size and pick(0, 1) else length for size, begin, length in ends]
    _shaped(recipe, BuiltinOperator.SLICE, lengths, [begins, told])


def _strided_slice(recipe: Recipe) -> None:
    """Begins and ends beyond the tensor, strides of both signs, and a bit of each mask for each dimension."""
    chance = recipe.chance
    begins, ends, strides, shape = [], [], [], []
    masks = {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 0}
    for axis, size in enumerate(recipe.last.shape):
        while True:
            begin, end = chance.randint(-size - 1, size), chance.randint(-size - 2, size + 1)
            bits = {name: chance.random() < 0.25 for name in masks}
            shrinks = bits["shrink_axis_mask"]
            stride = chance.choice((1, 1, 2, 3) if shrinks else (1, 1, 2, 3, -1, -2))
            first = None if bits["begin_mask"] else begin
            taken = range(size)[first : None if shrinks or bits["end_mask"] else end : stride]
            if len(taken):
                break
        begins.append(begin)
        ends.append(end)
        strides.append(stride)
        for name, bit in bits.items():
            masks[name] |= bit << axis
        if not shrinks:
            shape.append(len(taken))
    if len(shape) > 1:
        _shaped(recipe, BuiltinOperator.STRIDED_SLICE, shape, [begins, ends, strides], masks)


def _split(recipe: Recipe) -> None:
    source, rank = recipe.last, len(recipe.last.shape)
    axis = recipe.chance.randrange(rank)
    size = source.shape[axis]
    count = recipe.chance.choice([each for each in range(1, size + 1) if size % each == 0])
    part = (*source.shape[:axis], size // count, *source.shape[axis + 1 :])
    outputs = [recipe.like(source, part) for _ in range(count)]
    place = recipe.fixed(constant("axis", [axis - recipe.chance.choice((0, rank))]))
    recipe.apply(BuiltinOperator.SPLIT, [place, source], outputs[0], {"num_splits": count}, *outputs[1:])


def _split_v(recipe: Recipe) -> None:
    source, pick = recipe.last, recipe.chance.randint
    axis = recipe.chance.randrange(len(source.shape))
    size = source.shape[axis]
    if size < 2:
        return
    first = pick(1, size - 1)
    sizes = [first, size - first]
    outputs = [recipe.like(source, (*source.shape[:axis], each, *source.shape[axis + 1 :])) for each in sizes]
    told = [-1 if place == pick(0, 4) else each for place, each in enumerate(sizes)]
    told = sizes if told == [-1, -1] else told
    constants = [recipe.fixed(constant("sizes", told)), recipe.fixed(constant("axis", [axis]))]
    options = {"num_splits": 2}
    recipe.apply(BuiltinOperator.SPLIT_V, [source, *constants], outputs[0], options, outputs[1])


def _gather(recipe: Recipe) -> None:
    source, pick = recipe.last, recipe.chance.randint
    axis = recipe.chance.randrange(len(source.shape))
    places = [pick(0, source.shape[axis] - 1) for _ in range(pick(1, 4))]
    shape = (*source.shape[:axis], len(places), *source.shape[axis + 1 :])
    _shaped(recipe, BuiltinOperator.GATHER, shape, [places], {"axis": axis})


BOTH: Final[Mapping[str, Step]] = MappingProxyType(
    {
        "RESHAPE": _reshape,
        "SQUEEZE": _squeeze,
        "EXPAND_DIMS": _expand_dims,
        "BROADCAST_TO": _broadcast_to,
        "PAD": _pad,
        "PADV2": _pad_v2,
        "TRANSPOSE": _transpose,
        "RESIZE_NEAREST_NEIGHBOR": _resize(BuiltinOperator.RESIZE_NEAREST_NEIGHBOR),
        "CONCATENATION": _concatenation,
        "PACK": _pack,
        "UNPACK": _unpack,
        "SLICE": _slice,
        "STRIDED_SLICE": _strided_slice,
        "SPLIT": _split,
        "SPLIT_V": _split_v,
    }
)
"""Of int8 and int16."""

OF_INT8: Final[Mapping[str, Step]] = MappingProxyType(
    {
        "MIRROR_PAD": _mirror_pad,
        "SPACE_TO_DEPTH": _space_to_depth,
        "DEPTH_TO_SPACE": _depth_to_space,
        "RESIZE_BILINEAR": _resize(BuiltinOperator.RESIZE_BILINEAR),
        "GATHER": _gather,
    }
)
"""Of int8, as TensorFlow Lite Micro has them of no other type."""
