"""Sets of CMSIS-NN's unit tests (`Tests/UnitTest/TestCases/TestData`): where they are, and how they are read.

A set is a folder of C headers: `#define SET_KEY number` and `const type set_name[n] = {…};`. Generators of
several ages wrote them; keys and names that mean the same are listed in KEYS and ARRAYS. Only what
`test_data.h` includes counts: folders may hold headers of older generations, too.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from tests.support.paths import ROOT

VARIABLE: Final = "AISRV_CMSIS_NN"
"""Names a checkout of CMSIS-NN, or its folder TestData; else `../shared/golden/cmsis_nn` is looked at."""

KEYS: Final = {
    "FILTER_X": "FILTER_W",
    "FILTER_Y": "FILTER_H",
    "STRIDE_X": "STRIDE_W",
    "STRIDE_Y": "STRIDE_H",
    "PAD_X": "PAD_W",
    "PAD_Y": "PAD_H",
    "PADDING_W": "PAD_W",
    "PADDING_H": "PAD_H",
    "DILATION_X": "DILATION_W",
    "DILATION_Y": "DILATION_H",
    "IN_CH": "INPUT_C",
    "OUT_CH": "OUTPUT_C",
    "INPUT_BATCHES": "INPUT_N",
    "BATCH_SIZE": "INPUT_N",
    "CH_MULT": "DEPTH_MULTIPLIER",
    "OUTPUT_MULTIPLIER": "OUTPUT_MULT",
    "ACTIVATION_MIN": "OUT_ACTIVATION_MIN",
    "ACTIVATION_MAX": "OUT_ACTIVATION_MAX",
}
ARRAYS: Final = {
    "input_tensor": "input",
    "input_1": "input1",
    "input_2": "input2",
    "input_tensor_1": "input1",
    "input_tensor_2": "input2",
    "lhs_input_tensor": "input1",
    "rhs_input_tensor": "input2",
    "input_weights": "weights",
    "kernel": "weights",
    "bias": "biases",
    "input_bias": "biases",
    "output": "output_ref",
    "output_multiplier": "output_mult",
    "per_channel_mult": "output_mult",
    "per_channel_shift": "output_shift",
}

_INCLUDE: Final = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)
_DEFINE: Final = re.compile(r"^\s*#define\s+(\w+)\s+\(?(-?\d+)\)?\s*$", re.MULTILINE)
_DIMENSIONS: Final = re.compile(r"^\s*#define\s+(\w+)[\s\\]+\{([-\d,\s\\]*)\}", re.MULTILINE)
_ARRAY: Final = re.compile(r"const\s+(\w+)\s+(\w+)\s*\[\d*\]\s*=\s*\{([^}]*)\}")
_ABSENT: Final = re.compile(r"const\s+(\w+)\s*\*\s*(?:const\s+)?(\w+)\s*=\s*NULL;")
_NUMBER: Final = re.compile(r"-?\d+")


Value = TypeVar("Value")


class Unsuitable(Exception):
    """A set that no operator here can be given; the message says why."""


@dataclass(frozen=True)
class Vectors:
    """The numbers of one set: keys and names without the set's own name, in one dialect.

    `types` has the C type of each array, of an absent one (a null pointer) as well; `dimensions` what a macro
    lists in braces.
    """

    name: str
    numbers: dict[str, int]
    arrays: dict[str, list[int]]
    types: dict[str, str]
    dimensions: dict[str, list[int]]

    def part(self, keys: str, names: str) -> "Vectors":
        """What the keys and the names with these prefixes have, without them: a layer of a network."""
        return replace(
            self,
            numbers=_without(keys, self.numbers, KEYS),
            arrays=_without(names, self.arrays, ARRAYS),
            types=_without(names, self.types, ARRAYS),
        )


def folders() -> list[Path]:
    """The sets where VARIABLE says, by name; none where there is no such folder."""
    root = Path(os.environ.get(VARIABLE, ROOT / "../shared/golden/cmsis_nn/TestData"))
    inside = (root / "Tests/UnitTest/TestCases/TestData", root / "TestData", root)
    data = next((each for each in inside if each.is_dir()), None)
    return [] if data is None else sorted(folder for folder in data.iterdir() if folder.is_dir())


def read(folder: Path) -> Vectors:
    """Read the headers that a set's `test_data.h` includes."""
    included = _INCLUDE.findall((folder / "test_data.h").read_text())
    text = "\n".join((folder / name).read_text() for name in included)
    prefix = folder.name + "_"
    numbers = {key: int(number) for key, number in _DEFINE.findall(text)}
    dimensions = {key: _numbers(body) for key, body in _DIMENSIONS.findall(text)}
    found = _ARRAY.findall(text)
    types = {name: ctype for ctype, name, _ in found} | {name: ctype for ctype, name in _ABSENT.findall(text)}
    return Vectors(
        folder.name,
        _without(prefix.upper(), numbers, KEYS, strict=False),
        _without(prefix, {name: _numbers(body) for _, name, body in found}, ARRAYS, strict=False),
        _without(prefix, types, ARRAYS, strict=False),
        _without(prefix.upper(), dimensions, KEYS, strict=False),
    )


def _numbers(body: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(body)]


def _without(
    prefix: str, values: dict[str, Value], dialect: dict[str, str], *, strict: bool = True
) -> dict[str, Value]:
    """Take a prefix off keys (a strict one leaves all others out), and put them in one dialect."""
    bare = {
        key.removeprefix(prefix): value
        for key, value in values.items()
        if not strict or key.startswith(prefix)
    }
    return {dialect.get(key, key): value for key, value in bare.items()}
