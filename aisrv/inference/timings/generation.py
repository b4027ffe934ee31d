"""Generation of XMOS's tools that made a file: the operators and options in it tell.

A generation is a year. Dates are those of the commits of XMOS lib_tflite_micro that added, renamed or removed
what is a sign here.
"""

import enum
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from aisrv.model import Model, Operator
from aisrv.model.custom_options import CustomOptions


class Generation(enum.Enum):
    """Year of the tools, or no tools of XMOS at all."""

    G2021 = "2021"
    G2022 = "2022"
    G2023 = "2023"
    G2024 = "2024"
    PLAIN = "plain"
    """A file that was not converted, which counts as if the tools of 2023 had converted it."""

    @property
    def is_early(self) -> bool:
        """Return whether its tools are those of 2021 or 2022."""
        return self in (Generation.G2021, Generation.G2022)


class FileGeneration(Struct, frozen=True):
    """Generation of a file, and its evidence."""

    generation: Generation
    origin: str
    """Evidence: "file", "option" or "plain"."""
    is_certain: bool = True
    """False for a converted file without any sign."""
    note: str = ""
    """Remark if signs disagree, or empty."""
    is_plain: bool = False
    """Whether no converter made the file."""

    def __str__(self) -> str:
        return self.generation.value if self.is_certain else f"{self.generation.value} (?)"


_PREFIX: Final = "XC_"
_NAMES: Final = {
    # Removed on 2022-03-14 (6a40ba6).
    "XC_conv2d_deep": Generation.G2021,
    "XC_conv2d_shallowin": Generation.G2021,
    "XC_conv2d_1x1": Generation.G2021,
    "XC_conv2d_depthwise": Generation.G2021,
    "XC_conv2d_shallowin_deepout_relu": Generation.G2021,
    "XC_conv2d_deepin_deepout_relu": Generation.G2021,
    "XC_fc": Generation.G2021,
    "XC_fc_deepin_anyout": Generation.G2021,
    "XC_avgpool2d": Generation.G2021,
    "XC_avgpool2d_global": Generation.G2021,
    "XC_add_8": Generation.G2021,
    "XC_lookup_8": Generation.G2021,
    "XC_ld_flash": Generation.G2022,
    "XC_add": Generation.G2023,  # 2022-12-04
    "XC_pad_3_to_4": Generation.G2023,  # 2023-02-08
    "XC_softmax": Generation.G2024,  # 2024-01
    "XC_slice": Generation.G2024,
    "XC_pad_v2": Generation.G2024,  # 2024-03-12
    "XC_concat": Generation.G2024,
    "XC_ld_weights": Generation.G2024,  # 2024-07-29
    "XC_mean": Generation.G2024,  # 2024-08-09
}
"""Operators of one generation, from when they were added, or until they were removed."""
_CONVOLUTION_2022: Final = frozenset({"threads"})
"""Options from 2021-08-13 (d559f43) to 2022-02-24 (5f841aa)."""
_CONVOLUTION_2023: Final = frozenset(
    {"akp", "kt", "aggp", "otp", "scratch", "ott", "k", "mp", "a", "o", "s", "t", "p"}
)
"""Options from 2022-02-24; the short names from 2023-07-31."""


def generation_of(model: Model, given: Generation | None = None) -> FileGeneration:
    """Return the generation of a model; the newest sign counts. `given` counts more than the file."""
    operators = [operator for operator in model.operators if operator.name.startswith(_PREFIX)]
    if given is not None:
        return FileGeneration(given, "option", is_plain=not operators)
    if not operators:
        return FileGeneration(Generation.PLAIN, "plain", is_plain=True)
    signs = sorted({sign for operator in operators for sign in _signs(operator)}, key=lambda each: each.value)
    if not signs:
        return FileGeneration(Generation.G2023, "file", is_certain=False)
    years = " and ".join(sign.value for sign in signs)
    note = f"the file has operators of {years}: the newest counts" if len(signs) > 1 else ""
    return FileGeneration(signs[-1], "file", note=note)


def _signs(operator: Operator) -> Iterator[Generation]:
    if operator.name in _NAMES:
        yield _NAMES[operator.name]
    elif operator.name == "XC_maxpool2d":
        # Removed on 2022-03-14, and added with other options on 2023-12-05.
        yield Generation.G2021 if "pool" in option_names(operator) else Generation.G2024
    elif operator.name == "XC_conv2d_v2":
        names = option_names(operator)
        if names & _CONVOLUTION_2022:
            yield Generation.G2022
        elif names & _CONVOLUTION_2023:
            yield Generation.G2023


def option_names(operator: Operator) -> frozenset[str]:
    """Return the names of a custom operator's options; none if they cannot be read."""
    try:
        return CustomOptions.from_bytes(operator.custom_options).names
    except ValueError:
        return frozenset()
