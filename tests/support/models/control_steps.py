"""Steps of random networks that run subgraphs: a choice, and a loop of a few rounds."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from tflite import BuiltinOperator

from aisrv.model import TensorType
from aisrv.model.values import Tensor
from aisrv.model.writer import Network, NetworkOperator
from tests.support.models.network_recipe import Recipe, quantization
from tests.support.models.one_operator import constant, tensor

I32: Final = TensorType.INT32


def _like(recipe: Recipe, name: str) -> Tensor:
    """A tensor of a subgraph as the last one of the network is."""
    quant = quantization(recipe.last)
    return tensor(name, recipe.last.shape, quant.scale, quant.zero_point, recipe.type)


def _changed(recipe: Recipe, given: Tensor, made: Tensor) -> NetworkOperator:
    code = recipe.chance.choice((BuiltinOperator.LEAKY_RELU, BuiltinOperator.MAXIMUM))
    if code == BuiltinOperator.MAXIMUM:
        return NetworkOperator(code, (given.name, given.name), (made.name,))
    return NetworkOperator(code, (given.name,), (made.name,), {"alpha": 0.5})


def _branch(recipe: Recipe, name: str) -> Network:
    given, made = _like(recipe, f"{name} given"), _like(recipe, f"{name} made")
    return Network((given, made), (_changed(recipe, given, made),), (given.name,), (made.name,))


def _if(recipe: Recipe) -> None:
    numbers = [recipe.called(_branch(recipe, name)) for name in ("then", "else")]
    condition = recipe.fixed(constant("condition", [recipe.chance.random() < 0.5], np.bool_))
    options = dict(zip(("then_subgraph_index", "else_subgraph_index"), numbers, strict=True))
    recipe.apply(BuiltinOperator.IF, [condition, recipe.last], recipe.like(recipe.last), options)


def _while(recipe: Recipe) -> None:
    count, more = tensor("count", (1,), kind=I32), tensor("more", (1,), kind=TensorType.BOOL)
    values = _like(recipe, "asked")
    limit = constant("limit", [recipe.chance.randint(0, 3)])
    less = NetworkOperator(BuiltinOperator.LESS, ("count", "limit"), ("more",))
    condition = Network((values, count, limit, more), (less,), ("asked", "count"), ("more",))
    given, made, after = _like(recipe, "given"), _like(recipe, "made"), tensor("after", (1,), kind=I32)
    steps = (
        NetworkOperator(BuiltinOperator.ADD, ("count", "one"), ("after",)),
        _changed(recipe, given, made),
    )
    tensors = (given, count, constant("one", [1]), after, made)
    body = Network(tensors, steps, ("given", "count"), ("made", "after"))
    numbers = [recipe.called(each) for each in (condition, body)]
    options = dict(zip(("cond_subgraph_index", "body_subgraph_index"), numbers, strict=True))
    start, end = recipe.fixed(constant("start", [0])), recipe.plain((1,), I32)
    recipe.apply(BuiltinOperator.WHILE, [recipe.last, start], recipe.like(recipe.last), options, end)


BOTH: Final[Mapping[str, Callable[[Recipe], None]]] = MappingProxyType({"IF": _if, "WHILE": _while})
"""By the operators' names."""
