"""Model files that should not be: a seeded generator, each case made again by its number.

    case(17)            the same bytes at every call
    case(17, seed=1)    others

Cases go through KINDS in turn. Some are sound by chance; what a device must do with all of them is in
`hostile_trial`.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final, NamedTuple

import flatbuffers
import numpy as np
import tflite
from msgspec import structs
from tflite import BuiltinOperator, Padding, TensorType

from aisrv import digits
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from tests.support.models import networks

MIB: Final = 1 << 20
WORDS: Final = (0, 1, 2, 3, 4, 16, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
EXTENTS: Final = (-(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 256, 65_535, 65_536, 2**24, 2**30, 2**31 - 1)
LAST_BUILTIN: Final = 208
"""A little above the last operator of the schema."""

_UNIT: Final = Quantization.per_tensor(1.0, 0)


class Case(NamedTuple):
    """A hostile model: its number in the sequence, what was done to it, and the file."""

    number: int
    kind: str
    model: bytes


def case(number: int, seed: int = 0) -> Case:
    """Make one case of a sequence without end."""
    kind = list(KINDS)[number % len(KINDS)]
    return Case(number, kind, KINDS[kind](Random(f"{seed}:{number}")))


# Bytes.


def _base(chance: Random) -> bytes:
    return chance.choice(
        (
            digits.model_bytes(),
            digits.two_output_model_bytes(),
            networks.adding_network(3, 2),
            networks.summing_network(),
            networks.cut_in_two()[1],
        )
    )


def _structure(model: bytes) -> list[int]:
    """Positions of the bytes that are not weights."""
    root = tflite.Model.GetRootAs(model, 0)
    is_weight = bytearray(len(model))
    for number in range(root.BuffersLength()):
        buffer = root.Buffers(number)
        if buffer.DataLength():
            start = buffer._tab.Vector(buffer._tab.Offset(4))
            is_weight[start : start + buffer.DataLength()] = b"\1" * buffer.DataLength()
    return [position for position in range(8, len(model)) if not is_weight[position]]


def _truncated(chance: Random) -> bytes:
    model = _base(chance)
    return model[: chance.randrange(len(model))]


def _flipped_bits(chance: Random) -> bytes:
    model = bytearray(_base(chance))
    for position in chance.sample(_structure(bytes(model)), chance.choice((1, 1, 2, 8))):
        model[position] ^= 1 << chance.randrange(8)
    return bytes(model)


def _changed_words(chance: Random) -> bytes:
    model = bytearray(_base(chance))
    aligned = [position for position in _structure(bytes(model)) if position % 4 == 0]
    for position in chance.sample(aligned, chance.choice((1, 1, 2, 4))):
        struct.pack_into("<I", model, position, chance.choice(WORDS))
    return bytes(model)


def _copied_bytes(chance: Random) -> bytes:
    model = bytearray(_base(chance))
    places = _structure(bytes(model))
    source, target = chance.choice(places), chance.choice(places)
    length = min(chance.choice((4, 8, 16, 64)), len(model) - source, len(model) - target)
    model[target : target + length] = model[source : source + length]
    return bytes(model)


def _noise(chance: Random) -> bytes:
    return b"\x08\0\0\0TFL3" + chance.randbytes(chance.choice((0, 1, 3, 4, 40, 400, 4000)))


# Values in their places.


def _patched(model: bytes, positions: Sequence[int], values: Sequence[int], chance: Random) -> bytes:
    changed = bytearray(model)
    for position in chance.sample(positions, min(len(positions), chance.choice((1, 1, 2)))):
        struct.pack_into("<i", changed, position, chance.choice(values))
    return bytes(changed)


def _elements(table: Any, slot: int, count: int) -> list[int]:
    """Positions of a vector's 32-bit elements."""
    offset = table._tab.Offset(4 + 2 * slot)
    return [table._tab.Vector(offset) + 4 * index for index in range(count)] if offset else []


def _shapes(chance: Random) -> bytes:
    model = _base(chance)
    main = tflite.Model.GetRootAs(model, 0).Subgraphs(0)
    tensor = main.Tensors(chance.randrange(main.TensorsLength()))
    return _patched(model, _elements(tensor, 0, tensor.ShapeLength()), EXTENTS, chance)


def _indices(chance: Random) -> bytes:
    model = _base(chance)
    main = tflite.Model.GetRootAs(model, 0).Subgraphs(0)
    places = _elements(main, 1, main.InputsLength()) + _elements(main, 2, main.OutputsLength())
    for number in range(main.OperatorsLength()):
        operator = main.Operators(number)
        places += _elements(operator, 1, operator.InputsLength())
        places += _elements(operator, 2, operator.OutputsLength())
    count = main.TensorsLength()
    return _patched(model, places, (*range(count), -2, -1, count, 2**31 - 1), chance)


# Networks that the writer writes, changed as values.

_ENUMERATIONS: Final = ("padding", "fused_activation_function", "weights_format", "quantized_bias_type")
_EXTENT_OPTIONS: Final = ("stride", "dilation", "filter", "depth", "rank")


def _network(chance: Random) -> Network:
    return networks.read(_base(chance))


def _changed_operator(
    network: Network, chance: Random, change: Callable[[NetworkOperator], NetworkOperator]
) -> bytes:
    number = chance.randrange(len(network.operators))
    operators = list(network.operators)
    operators[number] = change(operators[number])
    return bytes(replace(network, operators=tuple(operators)))


def _changed_tensor(network: Network, chance: Random, change: Callable[[Tensor], Tensor]) -> bytes:
    number = chance.choice([i for i, tensor in enumerate(network.tensors) if tensor.data is None])
    tensors = list(network.tensors)
    tensors[number] = change(tensors[number])
    return bytes(replace(network, tensors=tuple(tensors)))


def _operators(chance: Random) -> bytes:
    code = chance.choice((chance.randrange(LAST_BUILTIN), chance.randrange(LAST_BUILTIN), -1, 10_000))
    name = chance.choice(("", "TFLite_Detection_PostProcess", "XC_conv2d_v2", "\0")) if code == 32 else ""
    return _changed_operator(
        _network(chance),
        chance,
        lambda operator: replace(operator, code=code, options={}, custom_code=name),
    )


def _options(chance: Random) -> bytes:
    network = _network(chance)

    def change(operator: NetworkOperator) -> NetworkOperator:
        if not operator.options:
            return replace(operator, inputs=operator.inputs[:1])
        name = chance.choice(list(operator.options))
        old = operator.options[name]
        wild: Any = chance.randrange(2)  # a flag
        if name in _ENUMERATIONS:
            wild = chance.randrange(128)
        elif isinstance(old, float):
            wild = chance.choice((float("nan"), float("inf"), -1.0, 1e38))
        elif isinstance(old, Sequence):
            wild = [chance.choice(EXTENTS) for _ in range(chance.choice((0, 1, 4, 20)))]
        elif name.startswith(_EXTENT_OPTIONS):
            wild = chance.choice(EXTENTS)
        return replace(operator, options={**operator.options, name: wild})

    return _changed_operator(network, chance, change)


def _arity(chance: Random) -> bytes:
    def change(operator: NetworkOperator) -> NetworkOperator:
        inputs = chance.choice(
            (
                (),
                operator.inputs[:1],
                operator.inputs[::-1],
                operator.inputs * 2,
                ("",) * len(operator.inputs),
            )
        )
        outputs = chance.choice((operator.outputs, (), operator.outputs * 2))
        return replace(operator, inputs=inputs, outputs=outputs)

    return _changed_operator(_network(chance), chance, change)


def _ranks(chance: Random) -> bytes:
    shape = tuple(chance.choice((0, 1, 1, 2, 3, 64)) for _ in range(chance.choice((0, 1, 2, 3, 5, 9, 100))))
    return _changed_tensor(_network(chance), chance, lambda tensor: structs.replace(tensor, shape=shape))


def _types(chance: Random) -> bytes:
    kind = chance.randrange(-1, 21)
    return _changed_tensor(_network(chance), chance, lambda tensor: structs.replace(tensor, type=kind))


def _quantizations(chance: Random) -> bytes:
    scale = chance.choice((0.0, -1.0, 1e-45, 1e38, float("inf"), float("nan")))
    wild = chance.choice(
        (
            None,
            Quantization((), ()),
            Quantization.per_tensor(scale, 0),
            Quantization.per_tensor(1.0, chance.choice((-(2**63), -129, 128, 2**31, 2**63 - 1))),
        )
    )
    return _changed_tensor(
        _network(chance), chance, lambda tensor: structs.replace(tensor, quantization=wild)
    )


def _cycles(chance: Random) -> bytes:
    network = _network(chance)
    operators = list(network.operators)
    match chance.randrange(4):
        case 0:
            operators.reverse()
        case 1:
            chance.shuffle(operators)
        case 2:
            operators = [operator for operator in operators for _ in range(chance.choice((2, 50)))]
        case _:
            first, last = operators[0], operators[-1]
            operators[0] = replace(first, inputs=(last.outputs[0], *first.inputs[1:]))
    inputs = chance.choice((network.inputs, network.outputs, ()))
    return bytes(replace(network, operators=tuple(operators), inputs=inputs))


# Operators whose constants say what to do.

_CONSTANT_OPERATORS: Final = (
    BuiltinOperator.GATHER,
    BuiltinOperator.GATHER_ND,
    BuiltinOperator.PAD,
    BuiltinOperator.MIRROR_PAD,
    BuiltinOperator.RESHAPE,
    BuiltinOperator.EXPAND_DIMS,
    BuiltinOperator.TRANSPOSE,
    BuiltinOperator.MEAN,
    BuiltinOperator.TILE,
    BuiltinOperator.BROADCAST_TO,
    BuiltinOperator.EMBEDDING_LOOKUP,
    BuiltinOperator.TOPK_V2,
    BuiltinOperator.RESIZE_BILINEAR,
    BuiltinOperator.RESIZE_NEAREST_NEIGHBOR,
    BuiltinOperator.SPLIT,
    BuiltinOperator.ARG_MAX,
    BuiltinOperator.CUMSUM,
    BuiltinOperator.SLICE,
    BuiltinOperator.STRIDED_SLICE,
    BuiltinOperator.SPACE_TO_BATCH_ND,
    BuiltinOperator.BATCH_TO_SPACE_ND,
    BuiltinOperator.REVERSE_V2,
    BuiltinOperator.SCATTER_ND,
    BuiltinOperator.ONE_HOT,
    BuiltinOperator.FILL,
    BuiltinOperator.RANGE,
)


def _constants(chance: Random) -> bytes:
    code = chance.choice(_CONSTANT_OPERATORS)
    data_shape = chance.choice(((4,), (1, 16), (1, 4, 4, 1), ()))
    constants = tuple(
        constant_tensor(
            f"constant{number}",
            np.array(
                [chance.choice(EXTENTS) for _ in range(chance.choice((0, 1, 2, 4, 8)))], np.int32
            ).reshape(chance.choice(((-1,), (-1, 1)))),
        )
        for number in range(chance.choice((1, 1, 2, 3)))
    )
    names = tuple(tensor.name for tensor in constants)
    # With FILL, RANGE and SPLIT the constants come first.
    inputs = chance.choice((("data", *names), (*names, "data"), names))
    tensors = (
        Tensor("data", data_shape, TensorType.INT8, _UNIT),
        *constants,
        Tensor("result", chance.choice(((), (1, 16), (64, 64))), TensorType.INT8, _UNIT),
    )
    operator = NetworkOperator(code, inputs, ("result",), chance.choice((None, {})))
    return bytes(Network(tensors, (operator,), ("data",), ("result",)))


# Sizes.


def _huge(chance: Random) -> bytes:
    plain = Tensor("input", (1, 16), TensorType.INT8, _UNIT)
    match chance.randrange(8):
        case 0:
            return bytes(replace(networks.read(networks.adding_network()), metadata={"x": bytes(8 * MIB)}))
        case 1:
            count = chance.choice((1000, 4096, 4097, 5000))
            tensors = (plain, *(Tensor(f"t{i}", (1,), TensorType.INT8, _UNIT) for i in range(count - 1)))
            return bytes(Network(tensors, (), ("input",), ("input",)))
        case 2:
            add = NetworkOperator(BuiltinOperator.ADD, ("input", "input"), ("input",))
            return bytes(Network((plain,), (add,) * chance.choice((1000, 8000)), ("input",), ("input",)))
        case 3:
            count = chance.choice((40, 41, 1000))
            return networks.adding_network(count, chance.choice((1, count)))
        case 4:
            many = ("input",) * chance.choice((1000, 20_000))
            add = NetworkOperator(BuiltinOperator.CONCATENATION, many, ("input",), chance.choice((None, {})))
            return bytes(Network((plain,), (add,), ("input",), ("input",)))
        case 5:
            side = chance.choice((300, 600, 30_000))
            wide = Tensor("input", (1, side, side), TensorType.INT8, _UNIT)
            out = structs.replace(wide, name="output")
            add = NetworkOperator(BuiltinOperator.ADD, ("input", "input"), ("output",))
            return bytes(Network((wide, out), (add,), ("input",), ("output",)))
        case 6:
            return bytes(Network((structs.replace(plain, name="n" * MIB),), (), ("n" * MIB,), ("n" * MIB,)))
        case _:
            return _slow()


def _slow() -> bytes:
    """A convolution of 2**30 products, in a file of 16 kB."""
    picture = Tensor("input", (1, 256, 256, 1), TensorType.INT8, _UNIT)
    weights = constant_tensor(
        "weights", np.ones((1, 128, 128, 1), np.int8), Quantization.per_channel([1.0], 0)
    )
    result = structs.replace(picture, name="output")
    options = {"padding": Padding.SAME, "stride_w": 1, "stride_h": 1}
    convolution = NetworkOperator(BuiltinOperator.CONV_2D, ("input", "weights", ""), ("output",), options)
    return bytes(Network((picture, weights, result), (convolution,), ("input",), ("output",)))


# Subgraphs that call subgraphs.

_CALLS: Final = {
    BuiltinOperator.WHILE: ("WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
    BuiltinOperator.IF: ("IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    BuiltinOperator.CALL_ONCE: ("CallOnceOptions", ("InitSubgraphIndex",)),
}


def _calls(chance: Random) -> bytes:
    """One to three subgraphs, each an operator that calls any of them, or one that is not there."""
    if chance.random() < 0.1:
        return endless_network()
    code = chance.choice(list(_CALLS))
    count = chance.choice((1, 2, 3))
    targets = (*range(count), *range(count), -1, count, 2**31 - 1)
    subgraphs = [
        (chance.random() < 0.7, [chance.choice(targets) for _ in _CALLS[code][1]]) for _ in range(count)
    ]
    return calling_subgraphs(code, [calls if is_calling else [] for is_calling, calls in subgraphs])


def calling_subgraphs(code: int, called: Sequence[Sequence[int]]) -> bytes:
    """A file of subgraphs from a bool to a bool, each calling those it lists, or passing its input on."""
    options_table, fields = _CALLS[code]
    builder = flatbuffers.Builder(1024)

    def table(name: str, **values: int) -> int:
        getattr(tflite, f"{name}Start")(builder)
        for field, value in values.items():
            getattr(tflite, f"{name}Add{field}")(builder, value)
        return int(getattr(tflite, f"{name}End")(builder))

    def numbers(*values: int) -> int:
        return int(builder.CreateNumpyVector(np.array(values, np.int32)))

    def tables(*offsets: int) -> int:
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    subgraphs = []
    for calls in called:
        tensors = tables(*(table("Tensor", Shape=numbers(1), Type=TensorType.BOOL) for _ in range(2)))
        operators = []
        if calls:
            options = table(options_table, **dict(zip(fields, calls, strict=True)))
            inputs = numbers(0, 0) if code == BuiltinOperator.IF else numbers(0)
            kind = getattr(tflite.BuiltinOptions, options_table)
            values = {"BuiltinOptionsType": kind, "BuiltinOptions": options}
            operators.append(table("Operator", Inputs=inputs, Outputs=numbers(1), **values))
        ends = {"Inputs": numbers(0), "Outputs": numbers(1 if calls else 0)}
        subgraphs.append(table("SubGraph", Tensors=tensors, Operators=tables(*operators), **ends))
    code_table = table("OperatorCode", DeprecatedBuiltinCode=min(code, 127), BuiltinCode=code, Version=1)
    root = table(
        "Model",
        Version=3,
        OperatorCodes=tables(code_table),
        Subgraphs=tables(*subgraphs),
        Buffers=tables(table("Buffer")),
    )
    builder.Finish(root, file_identifier=b"TFL3")
    return bytes(builder.Output())


def endless_network() -> bytes:
    """A WHILE that never ends where its input is not 0: condition and body pass it on."""
    return calling_subgraphs(BuiltinOperator.WHILE, [[1, 2], [], []])


KINDS: Final[dict[str, Callable[[Random], bytes]]] = {
    "truncated": _truncated,
    "flipped bits": _flipped_bits,
    "changed words": _changed_words,
    "copied bytes": _copied_bytes,
    "noise": _noise,
    "shapes": _shapes,
    "indices": _indices,
    "operators": _operators,
    "options": _options,
    "arity": _arity,
    "ranks": _ranks,
    "types": _types,
    "quantizations": _quantizations,
    "cycles": _cycles,
    "constants": _constants,
    "huge": _huge,
    "calls": _calls,
}
"""What is done to a model, by name."""
