"""How an example becomes an input tensor, as a value.

TOML files say it:

[inputs.0]              # or by the tensor's name
color = "bgr"
mean = [103.9, 116.8, 123.7]
"""

from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from aisrv.addons.evaluate.errors import InputError
from aisrv.model.metadata import ColorSpace, InputMetadata
from aisrv.values.settings.errors import SettingsError
from aisrv.values.settings.tables import Integer, Number, Table, convert
from aisrv.values.settings.toml_file import TomlFile, read_toml

Kind = Literal["image", "audio", "array", "raw"]
Color = Literal["rgb", "bgr", "gray"]
Fit = Literal["stretch", "cover", "contain"]
Filter = Literal["nearest", "box", "bilinear", "bicubic", "lanczos"]
Range = Literal["auto", "0..1", "-1..1", "0..255", "full"]

MFCC: Final = "mfcc"
MICRO_SPEECH: Final = "micro_speech"
MICRO_WAKE_WORD: Final = "microwakeword"
FRONT_ENDS: Final = (MFCC, MICRO_SPEECH, MICRO_WAKE_WORD)
"""Front ends that there are by name."""
WAKE_WORD_WINDOWS: Final = (480, 160)
"""Samples of a window of microWakeWord, and those from one to the next."""

UNFILTERED: Final = ("nearest", "bilinear")
"""Filters that there are without averaging, too."""


@dataclass(frozen=True, slots=True)
class InputSettings:
    """How one input is made."""

    kind: Kind | None = None
    """The kind of the examples; None goes by the data."""
    color: Color = "rgb"
    """Order of channels in a tensor of 3; a tensor of 1 channel is gray whatever this says."""
    background: tuple[float, ...] = (0.0,)
    """What is behind transparent pixels, 0 to 255: for all channels, or for each."""
    exif: bool = True
    """Whether a picture is turned upright as its camera says."""
    invert: bool = False
    """Whether black and white are swapped."""
    crop: str | tuple[float, ...] = "none"
    """What is cut out first: none; center, the largest square; center:0.875, that share of both sides; or the
    left, top, right and bottom edge as shares."""
    fit: Fit = "stretch"
    """How another shape fits: stretched, cut to cover, or whole within a border."""
    pad: float = 0.0
    """The border's value, 0 to 255."""
    filter: Filter = "bilinear"
    """Pillow's filter, which averages where it shrinks."""
    antialias: bool = True
    """Whether it does; without, bilinear takes 2 x 2 neighbors and nearest one, at half-pixel centers."""
    range: Range = "auto"
    """The real numbers that black and white stand for; auto goes by the tensor's quantization."""
    mean: tuple[float, ...] = ()
    """In place of a range: (pixel - mean) / std, for all channels or for each."""
    std: tuple[float, ...] = ()
    layout: Literal["nhwc", "nchw"] = "nhwc"
    """Order of the tensor's dimensions: channels last or first."""
    draft: bool = False
    """Whether a JPEG is scaled down as it is decoded, which is faster and a few steps off."""
    frontend: str = ""
    """What makes features of sound: one of FRONT_ENDS, or the file of a model that takes 16-bit samples."""
    window: int = 480
    """Samples of a window of sound."""
    step: int = 320
    """Samples from one window to the next."""
    source: Literal["settings", "metadata", "auto"] = "auto"
    """Where these come from: a file of settings, the model's metadata, or neither."""

    def __post_init__(self) -> None:
        """Raise InputError for what does not go together."""
        if len(self.mean) != len(self.std):
            raise InputError(f"{len(self.mean)} means and {len(self.std)} deviations: give as many of each")
        if any(each <= 0 for each in self.std):
            raise InputError("std: deviations are above 0")
        if not self.antialias and self.filter not in UNFILTERED:
            raise InputError(f"antialias = false is for {' and '.join(UNFILTERED)}, not {self.filter}")
        crop_shares(self.crop)
        if self.window < 1 or self.step < 1:
            raise InputError("window and step are at least 1 sample")
        _check_front_end(self.frontend, self.window, self.step)

    def values(self) -> dict[str, Any]:
        """Return all settings by key, as TOML and JSON have them."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            found[each.name] = list(value) if isinstance(value, tuple) else value
        return found


def _check_front_end(name: str, window: int, step: int) -> None:
    if name and name not in FRONT_ENDS and Path(name).suffix != ".tflite":
        near = get_close_matches(name[:100], FRONT_ENDS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f'frontend = "{name}": {", ".join(FRONT_ENDS)}, or a file .tflite{hint}')
    if name == MICRO_WAKE_WORD and (window, step) != WAKE_WORD_WINDOWS:
        wanted, every = WAKE_WORD_WINDOWS
        raise InputError(f"{name} takes windows of {wanted} samples, one each {every}: write step = {every}")


def crop_shares(crop: str | tuple[float, ...]) -> tuple[float, float, float, float] | float | None:
    """Return what a crop says: its edges, the share of both sides, 0 for the center's square, None for none.

    Raises InputError.
    """
    if isinstance(crop, tuple):
        if len(crop) != 4 or not (0 <= crop[0] < crop[2] <= 1 and 0 <= crop[1] < crop[3] <= 1):
            raise InputError(f"crop = {list(crop)}: left, top, right and bottom are shares of 0 to 1")
        return crop[0], crop[1], crop[2], crop[3]
    if crop == "none":
        return None
    word, _, share = crop.partition(":")
    try:
        number = float(share) if share else 0.0
    except ValueError:
        number = -1.0
    if word != "center" or (share and not 0 < number <= 1):
        raise InputError(f'crop = "{crop}": write "none", "center", "center:0.875" or four shares')
    return number


class _Input(Table, frozen=True):
    kind: Kind | None = None
    color: Color | None = None
    background: Number | tuple[Number, ...] | None = None
    exif: bool | None = None
    invert: bool | None = None
    crop: str | tuple[Number, ...] | None = None
    fit: Fit | None = None
    pad: Number | None = None
    filter: Filter | None = None
    antialias: bool | None = None
    range: Range | None = None
    mean: Number | tuple[Number, ...] | None = None
    std: Number | tuple[Number, ...] | None = None
    layout: Literal["nhwc", "nchw"] | None = None
    draft: bool | None = None
    frontend: str | None = None
    window: Integer | None = None
    step: Integer | None = None


_LISTS: Final = ("background", "mean", "std")


def read_settings(path: Path, names: tuple[str, ...]) -> dict[int, InputSettings]:
    """Read a file of settings, by number of the input; `names` are those of the inputs. Raises InputError."""
    try:
        file = read_toml(path)
        for key in file.values:
            if key != "inputs":
                raise file.error(f"{key!r} is not known here; write [inputs.0]", (key,))
        tables = file.values.get("inputs", {})
        if not isinstance(tables, dict):
            raise file.error("write a table for each input, as [inputs.0]", ("inputs",))
        return {_number(file, key, names): _settings(file, key, path.parent) for key in tables}
    except SettingsError as error:
        raise InputError(str(error)) from None


def _number(file: TomlFile, key: str, names: tuple[str, ...]) -> int:
    if key in names:
        return names.index(key)
    if key.isascii() and key.isdigit() and int(key) < len(names):
        return int(key)
    known = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
    raise file.error(f"the model has no input {key!r}, it has {known}", ("inputs", key))


def _settings(file: TomlFile, key: str, folder: Path) -> InputSettings:
    table = file.values["inputs"][key]
    if not isinstance(table, dict):
        raise file.error("write a table, as [inputs.0]", ("inputs", key))
    place = ("inputs", key)
    lines = {path[2:]: line for path, line in file.lines.items() if path[:2] == place}
    given = convert(TomlFile(file.name, file.directory, table, lines), _Input).given()
    for name in _LISTS:
        if name in given and not isinstance(given[name], tuple):
            given[name] = (given[name],)
    if given.get("frontend", "").endswith(".tflite"):
        given["frontend"] = str(folder / given["frontend"])
    try:
        return InputSettings(**given, source="settings")
    except InputError as error:
        raise file.error(str(error), place) from None


def default_settings(metadata: InputMetadata | None) -> InputSettings:
    """Return the settings that a model's metadata give for an input, or those of `auto`."""
    plain = InputSettings()
    if metadata is None:
        return plain
    found = plain
    if metadata.color_space is not None:
        color: Color = "gray" if metadata.color_space is ColorSpace.GRAYSCALE else "rgb"
        found = replace(found, kind="image", color=color, source="metadata")
    if metadata.mean:
        found = replace(found, mean=metadata.mean, std=metadata.std, source="metadata")
    return found


def to_toml(settings: tuple[InputSettings, ...]) -> str:
    """Return the whole settings of all inputs as a file that `read_settings` reads; None is left out."""
    lines = []
    for number, each in enumerate(settings):
        lines.append(f"[inputs.{number}]  # from: {each.source}")
        for key, value in each.values().items():
            if key == "source" or value in (None, "", []):
                continue
            lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
