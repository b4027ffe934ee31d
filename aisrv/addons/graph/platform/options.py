"""Options of manifests: `{i v1 v2 …}` lists and `{-i a step c …}` ranges of possible values."""

import re
from dataclasses import dataclass
from typing import Final

from aisrv.addons.graph.errors import Messages
from aisrv.addons.graph.text.source import Line, number

_GROUP: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Range:
    """Values from `start` to `last`, both included, `step` apart."""

    start: float
    step: float
    last: float

    def __contains__(self, value: float) -> bool:
        if not self.start <= value <= self.last:
            return False
        return self.step <= 0 or abs((value - self.start) / self.step % 1) < 1e-9


@dataclass(frozen=True, slots=True)
class Options:
    """The allowed values, each a number or a range, with the default. `any_value` allows all."""

    values: tuple[float, ...] = ()
    ranges: tuple[Range, ...] = ()
    default: float | None = None
    any_value: bool = False

    def __contains__(self, value: float) -> bool:
        return self.any_value or value in self.values or any(value in each for each in self.ranges)

    def __str__(self) -> str:
        if self.any_value:
            return "any"
        ranges = [f"{each.start:g} to {each.last:g} by {each.step:g}" for each in self.ranges]
        return ", ".join([*(f"{value:g}" for value in self.values), *ranges])


ANY: Final = Options(any_value=True)


def parse_options(text: str) -> Options | None:
    """Read the options of a manifest line; None for anything else. A bare value is the only one allowed."""
    groups = _GROUP.findall(text)
    if not groups:
        words = text.split()
        only = number(words[0]) if words else None
        return None if only is None else Options((only,), (), only)
    values: list[float] = []
    ranges: list[Range] = []
    default: float | None = None
    for group in groups:
        numbers = [number(word) for word in group.replace(",", " ").split()]
        known = [each for each in numbers if each is not None]
        if not known or len(known) != len(numbers):
            return None
        index, rest = int(known[0]), known[1:]
        if not rest:
            index, rest = 1, known
            if known[0] == 0 and len(groups) == 1:
                return ANY
        if index == 0:
            return ANY
        if index > 0:
            values += rest
            chosen = rest[index - 1] if index <= len(rest) else None
        else:
            if len(rest) % 3:
                return None
            found = [Range(*rest[at : at + 3]) for at in range(0, len(rest), 3)]
            ranges += found
            chosen = found[-index - 1].start if -index <= len(found) else None
        if chosen is None:
            return None
        default = chosen if default is None else default
    return Options(tuple(values), tuple(ranges), default)


def read_options(options: dict[str, Options], name: str, line: Line, messages: Messages) -> None:
    """Read the options of a line into `options`; an error if there are none."""
    found = parse_options(line.text.partition(";")[0].strip().removeprefix(line.words[0]).strip())
    if found is None:
        messages.error(line.place, f"{line.words[0]} has options such as {{1 16000 48000}} or a number")
    else:
        options[name] = found
