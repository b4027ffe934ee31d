"""Sources in text form: `scheme:place`, then options, all separated by colons.

`pattern:bars`, `image:cat.png:size=320x240`, `folder:frames/:loop:rate=30`, `video:clip.mp4:encoding=yuv`,
`webcam:0`, `raw:frames.bin:640x480:bayer`, `wav:speech.wav:window=1600:hop=800:scale=1/128`,
`csv:motion.csv:window=128`. A place may contain colons, if what follows them is not taken for an option.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, Self

from aisrv.sensors.image.frame import Encoding, SourceError

_LARGEST_NUMBER: Final = 1 << 31


class SourceSpecError(SourceError, ValueError):
    """Text that names no source; the message says which part of it is wrong."""


def _number(text: str) -> int:
    number = int(text)
    if not (text.isascii() and text.isdigit() and number < _LARGEST_NUMBER):
        raise ValueError
    return number


def _positive(text: str) -> int:
    if not (number := _number(text)):
        raise ValueError
    return number


def _whole(text: str) -> int:
    return -_number(text[1:]) if text.startswith("-") else _number(text)


def _fraction(text: str) -> Fraction:
    if len(text) > 32 or "e" in text.lower():  # 1e999999999 would take hours
        raise ValueError
    value = Fraction(text)
    if value <= 0:
        raise ValueError
    return value


def _size(text: str) -> tuple[int, int]:
    width, height = text.split("x")
    return _positive(width), _positive(height)


def _picture_encoding(text: str) -> Encoding:
    if text == Encoding.SAMPLES.value:
        raise ValueError
    return Encoding(text)


@dataclass(frozen=True, slots=True)
class Option:
    """An option: how its value is parsed, and the description of a valid value."""

    read: Callable[[str], object]
    """Parses the text; raises ValueError."""
    expected: str
    """Valid values, for messages."""


OPTIONS: Final = {
    "size": Option(_size, "WIDTHxHEIGHT in pixels"),
    "encoding": Option(_picture_encoding, "bayer, yuv or rgb"),
    "loop": Option({"": True}.__getitem__, "nothing after it"),
    "rate": Option(_fraction, "frames a second, such as 30, 12.5 or 30000/1001"),
    "late": Option({"drop": "drop", "keep": "keep"}.__getitem__, "drop or keep"),
    "seed": Option(_number, "a number of 0 or more"),
    "window": Option(_positive, "samples, 1 or more"),
    "hop": Option(_positive, "samples, 1 or more"),
    "scale": Option(_fraction, "a number above 0, such as 0.0078125 or 1/128"),
    "zero": Option(_whole, "a whole number"),
    "type": Option({"int8": "INT8", "int16": "INT16"}.__getitem__, "int8 or int16"),
}

_PACING: Final = ("rate", "late")
_PICTURE: Final = ("size", "encoding", *_PACING)
_SAMPLES: Final = ("window", "hop", "scale", "zero", "type", "loop", *_PACING)


@dataclass(frozen=True, slots=True)
class Scheme:
    """Options of a scheme's texts; `opening` has the functions that open them."""

    options: tuple[str, ...]
    check: "Callable[[SourceSpec], object] | None" = None
    """Raises SourceSpecError for a wrong place, or options that do not go together."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source by its text: scheme, place, and options as they were written, all checked."""

    scheme: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise SourceSpecError for an unknown scheme or option, a wrong value or place."""
        if self.scheme not in SCHEMES:
            raise SourceSpecError(f"no source is called {self.scheme!r}: there are {', '.join(SCHEMES)}")
        if not self.place:
            raise SourceSpecError(f"{self.scheme}: what follows the colon is missing")
        for name in self.options:
            if name not in SCHEMES[self.scheme].options:
                known = ", ".join(SCHEMES[self.scheme].options)
                raise SourceSpecError(f"{self.scheme} has no option {name!r}: it has {known}")
            self.value(name)
        if "late" in self.options and "rate" not in self.options:
            raise SourceSpecError(f"{self.scheme}: the option late is without a rate")
        if (check := SCHEMES[self.scheme].check) is not None:
            check(self)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read the text form. Raises SourceSpecError."""
        scheme, colon, rest = text.partition(":")
        if not colon:
            raise SourceSpecError(
                f"{text!r} is not a source: it begins with one of {', '.join(SCHEMES)} and a colon"
            )
        options: dict[str, str] = {}
        while rest:
            before, _, last = rest.rpartition(":")
            name, equals, value = last.partition("=")
            if not before or not (last == "loop" or (equals and name.isidentifier())):
                break
            if name in options:
                raise SourceSpecError(f"{scheme}: option {name!r} is given twice")
            options[name] = value
            rest = before
        return cls(scheme, rest, dict(reversed(options.items())))

    def __str__(self) -> str:
        options = (name if name == "loop" else f"{name}={value}" for name, value in self.options.items())
        return ":".join((self.scheme, self.place, *options))

    def with_defaults(self, **options: str | None) -> Self:
        """Return the source with defaults for its options that were not written."""
        wanted = {
            name: value
            for name, value in options.items()
            if value is not None and name in SCHEMES[self.scheme].options and name not in self.options
        }
        return replace(self, options={**self.options, **wanted})

    def value(self, name: str, default: object = None) -> Any:  # noqa: ANN401 - each option has its type
        """Return an option's value, or the default if it was not given. Raises SourceSpecError."""
        if name not in self.options:
            return default
        text = self.options[name]
        try:
            return OPTIONS[name].read(text)
        except (ValueError, KeyError, ZeroDivisionError):
            raise SourceSpecError(
                f"{self.scheme}: {name}={text!r:.60} is wrong: expected {OPTIONS[name].expected}"
            ) from None


def _check_pattern(spec: SourceSpec) -> None:
    from aisrv.sensors.sources.patterns import Pattern

    names = [pattern.value for pattern in Pattern]
    if spec.place not in names:
        raise SourceSpecError(f"no pattern is called {spec.place!r}: there are {', '.join(names)}")


def _check_webcam(spec: SourceSpec) -> None:
    try:
        _number(spec.place)
    except ValueError:
        raise SourceSpecError(f"webcam: {spec.place!r} is not a number; the first is 0") from None


def raw_place(spec: SourceSpec) -> tuple[str, tuple[int, int], Encoding]:
    """Return path, size and encoding of raw frames. Raises SourceSpecError."""
    try:
        path, size, encoding = spec.place.rsplit(":", 2)
        if path:
            return path, _size(size), Encoding(encoding)
    except ValueError:
        pass  # refused below, as an empty path is
    encodings = ", ".join(each.value for each in Encoding)
    raise SourceSpecError(f"raw: {spec.place!r} is not FILE:WIDTHxHEIGHT:ENCODING, with one of {encodings}")


def _check_window(spec: SourceSpec) -> None:
    if "window" not in spec.options:
        raise SourceSpecError(f"{spec.scheme}: the option window is missing: samples in an input tensor")
    if "zero" in spec.options and "scale" not in spec.options:
        raise SourceSpecError(f"{spec.scheme}: the option zero is without a scale")


SCHEMES: Final[Mapping[str, Scheme]] = MappingProxyType(
    {
        "pattern": Scheme((*_PICTURE, "seed"), _check_pattern),
        "image": Scheme(_PICTURE),
        "folder": Scheme((*_PICTURE, "loop")),
        "video": Scheme((*_PICTURE, "loop")),
        "webcam": Scheme(_PICTURE, _check_webcam),
        "raw": Scheme(("loop", *_PACING), raw_place),
        "wav": Scheme(_SAMPLES, _check_window),
        "csv": Scheme(_SAMPLES, _check_window),
    }
)
