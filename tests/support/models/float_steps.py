"""Steps of random networks that are of float32 alone, and its layers."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from tflite import BuiltinOperator

from aisrv.model.values import Tensor
from tests.support.models.network_recipe import Recipe
from tests.support.models.one_operator import constant

FUNCTIONS: Final = ("LOGISTIC", "TANH", "RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "ABS")
"""Operators from value to value."""


def layer(recipe: Recipe, shape: tuple[int, ...], dimension: int, additions: int) -> list[Tensor]:
    """Weights, and of three layers of four a bias."""
    random = np.random.default_rng(recipe.chance.randint(0, 1 << 32))
    weights = random.normal(0, 1 / math.sqrt(additions), shape)
    made = [constant("weights", weights, np.float32)]
    if recipe.chance.random() < 0.75:
        made.append(constant("bias", random.normal(size=shape[dimension]), np.float32))
    return [recipe.fixed(each) for each in made]


def _prelu(recipe: Recipe) -> None:
    slopes = recipe.values(recipe.last.shape[-1:], 1.0)
    recipe.apply(BuiltinOperator.PRELU, [recipe.last, slopes], recipe.like(recipe.last))


def _squared_difference(recipe: Recipe) -> None:
    other = recipe.values(recipe.last.shape[-1:], 1.0)
    recipe.apply(BuiltinOperator.SQUARED_DIFFERENCE, [recipe.last, other], recipe.like(recipe.last))


STEPS: Final[Mapping[str, Callable[[Recipe], None]]] = MappingProxyType(
    {"PRELU": _prelu, "SQUARED_DIFFERENCE": _squared_difference}
)
"""By the operators' names."""
