"""Models with IF and WHILE: subgraphs of a few operators of int8 and int32."""

import random
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from tflite import BuiltinOperator

from aisrv.model import TensorType
from aisrv.model.values import Tensor
from aisrv.model.writer import Network, NetworkOperator
from tests.support.models.one_operator import constant, tensor

I32, BOOL = TensorType.INT32, TensorType.BOOL
ROW = (1, 40)


def chain(name: str, codes: Sequence[int], shape: Sequence[int] = ROW) -> Network:
    """A subgraph of operators from one int8 tensor to the next, all of one scale."""
    tensors = [tensor(f"{name}{number}", shape, 0.1) for number in range(len(codes) + 1)]
    operators = tuple(
        NetworkOperator(code, (tensors[number].name,), (tensors[number + 1].name,))
        for number, code in enumerate(codes)
    )
    return Network(tuple(tensors), operators, (tensors[0].name,), (tensors[-1].name,))


def choosing(
    then: Network | None = None,
    otherwise: Network | None = None,
    *others: Network,
    numbers: tuple[int, int] = (1, 2),
) -> bytes:
    """A row of int8 through one of two subgraphs, the first where `left` is below `right`."""
    branches = (
        then or chain("then", [BuiltinOperator.ABS, BuiltinOperator.RELU6, BuiltinOperator.ABS]),
        otherwise or chain("else", [BuiltinOperator.RELU]),
        *others,
    )
    tensors = (
        tensor("row", ROW, 0.1),
        tensor("left", (1,), kind=I32),
        tensor("right", (1,), kind=I32),
        tensor("answer", (1,), kind=BOOL),
        tensor("first", ROW, 0.1),
        tensor("chosen", ROW, 0.1),
        tensor("out", ROW, 0.1),
    )
    options = dict(zip(("then_subgraph_index", "else_subgraph_index"), numbers, strict=True))
    operators = (
        NetworkOperator(BuiltinOperator.LESS, ("left", "right"), ("answer",)),
        NetworkOperator(BuiltinOperator.LEAKY_RELU, ("row",), ("first",), {"alpha": 0.5}),
        NetworkOperator(BuiltinOperator.IF, ("answer", "first"), ("chosen",), options),
        NetworkOperator(BuiltinOperator.LEAKY_RELU, ("chosen",), ("out",), {"alpha": 0.25}),
    )
    return bytes(Network(tensors, operators, ("row", "left", "right"), ("out",), subgraphs=branches))


def drawn(seed: int) -> bytes:
    """Branches of up to four operators each, of which one may choose again."""
    chance = random.Random(seed)
    codes = (BuiltinOperator.ABS, BuiltinOperator.RELU, BuiltinOperator.RELU6)

    def branch(name: str) -> Network:
        return chain(name, chance.choices(codes, k=chance.randint(0, 4)), ROW)

    then, otherwise, third = branch("then"), branch("else"), branch("third")
    if chance.random() < 0.5:
        return choosing(then, otherwise)
    yes, made = tensor("yes", (1,), kind=BOOL), tensor("made", ROW, 0.1)
    inner = NetworkOperator(
        BuiltinOperator.IF,
        ("yes", then.outputs[0]),
        ("made",),
        {"then_subgraph_index": 3, "else_subgraph_index": chance.choice((2, 3))},
    )
    fill = NetworkOperator(BuiltinOperator.EQUAL, (then.inputs[0], then.inputs[0]), ("same",))
    first = NetworkOperator(BuiltinOperator.SLICE, ("same", "begin", "size"), ("yes",))
    same = tensor("same", ROW, kind=BOOL)
    slices = constant("begin", [0, 0]), constant("size", [1, 1])
    yes = replace(yes, shape=(1, 1))
    nested = Network(
        (*then.tensors, same, *slices, yes, made),
        (*then.operators, fill, first, inner),
        then.inputs,
        ("made",),
    )
    return choosing(nested, otherwise, third)


def endless() -> bytes:
    """A choice whose first branch makes it again."""
    yes, made = constant("yes", [True], np.bool_), tensor("made", ROW, 0.1)
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    again = NetworkOperator(BuiltinOperator.IF, ("yes", "then0"), ("made",), options)
    then = chain("then", [])
    return choosing(Network((*then.tensors, yes, made), (again,), then.inputs, ("made",)))


def counting(times: int = 5) -> bytes:
    """A row of int8 and a counter [1] of int32, in a loop until the counter is `times`."""

    def pair(name: str) -> tuple[Tensor, Tensor]:
        return tensor(f"{name} row", ROW, 0.1), tensor(f"{name} count", (1,), kind=I32)

    limit, one = constant("limit", [times]), constant("one", [1])
    asked, given, made, ends = pair("asked"), pair("given"), pair("made"), pair("end")
    start = tensor("row", ROW, 0.1), tensor("count", (1,), kind=I32)
    more = tensor("more", (1,), kind=BOOL)
    middle = tensor("middle", ROW, 0.1)

    def names(tensors: Sequence[Tensor]) -> tuple[str, ...]:
        return tuple(each.name for each in tensors)

    condition = Network(
        (*asked, limit, more),
        (NetworkOperator(BuiltinOperator.LESS, (asked[1].name, "limit"), ("more",)),),
        names(asked),
        ("more",),
    )
    leaky = {"alpha": 0.5}
    body = Network(
        (*given, middle, *made, one),
        (
            NetworkOperator(BuiltinOperator.ADD, (given[1].name, "one"), (made[1].name,)),
            NetworkOperator(BuiltinOperator.LEAKY_RELU, (given[0].name,), ("middle",), leaky),
            NetworkOperator(BuiltinOperator.LEAKY_RELU, ("middle",), (made[0].name,), leaky),
        ),
        names(given),
        names(made),
    )
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    loop = NetworkOperator(BuiltinOperator.WHILE, names(start), names(ends), options)
    return bytes(Network((*start, *ends), (loop,), names(start), names(ends), subgraphs=(condition, body)))
