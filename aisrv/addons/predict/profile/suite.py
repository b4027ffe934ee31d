"""Suites: which models to profile on which devices, in TOML.

    models = ["person.tflite", { path = "digits.tflite", name = "digits" }]

    [defaults]
    clock = 600
    kernels = "optimized"

    [[configurations]]
    name = "one thread"

    [[configurations]]
    name = "five threads"
    threads = 5

Every model is profiled on every configuration. Paths count from the file. All keys may be left out.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta
from msgspec.structs import replace

from aisrv.addons.predict.profile.errors import ProfileError
from aisrv.addons.predict.profile.model_profile import NAME_LIMIT, Configuration
from aisrv.inference.timings import FlashPath, Generation, Kernels, Memory
from aisrv.values.printable import printable
from aisrv.values.settings.errors import KeyPath, SettingsError
from aisrv.values.settings.size import Size
from aisrv.values.settings.tables import Table, convert
from aisrv.values.settings.toml_file import TomlFile, parse_toml, read_toml

MAX_ENTRIES: Final = 64
"""Limit of models, and of configurations, of one file."""
MAX_MEMORY: Final = 2**31 - 1

_YAML: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class SuiteModel:
    """A model file and its name in reports."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Suite:
    """Models and devices of a file of configurations."""

    models: tuple[SuiteModel, ...]
    configurations: tuple[Configuration, ...]


# The tables of a file.

_Positive = Annotated[float, Meta(gt=0, le=1e6)]
GenerationName = Literal["2021", "2022", "2023", "2024"]
ParameterPlace = Literal["auto", "internal", "external"]
_Flash = Literal["server", "fast"] | _Positive
_ModelPath = Annotated[
    str, Meta(min_length=1, pattern=r"\A[^\x00]+\Z", description="the path of a model in quotes")
]


class SuiteSettings(Table, frozen=True):
    """The given settings of one configuration; None for those left out."""

    threads: Annotated[int, Meta(ge=1, le=5)] | None = None
    """Threads of an inference, 1 to 5."""
    clock: _Positive | None = None
    """Core clock in MHz: 700 for files of 2021 and 2022, else 600."""
    reference: _Positive | None = None
    """Clock that a timer counts, in MHz: 175 for files of 2021 and 2022, else 100."""
    kernels: Kernels | None = None
    """Kernels of the operators that XMOS's converter did not replace."""
    generation: GenerationName | None = None
    """Tools that made the file."""
    parameters: ParameterPlace | None = None
    """Memory of parameters; auto is external if file and arena do not fit a tile's 512 KiB together."""
    arena_memory: Memory | None = None
    """Memory of the activations."""
    external_clock: _Positive | None = None
    """Clock of the external memory in MHz."""
    flash: _Flash | None = None
    """Speed of reading parameters from flash: server, fast (files of 2024), or MB/s."""
    flash_rate: _Positive | None = None
    """Rate of the flash in MB/s, that is 10**6 bytes a second: another name of `flash`."""
    arena: Size | None = None
    """Tensor arena of the engine."""
    external: Size | None = None
    """External memory of the engine."""

    def over(self, base: Configuration, name: str = "") -> Configuration:
        """Return a configuration with these settings in place of its own, and a `name`. Raises ValueError."""
        arena = base.arena_bytes if self.arena is None else self.arena
        external = base.external_bytes if self.external is None else self.external
        changes: dict[str, Any] = {
            field: value
            for field, value in (
                ("threads", self.threads),
                ("clock_mhz", self.clock),
                ("reference_mhz", self.reference),
                ("kernels", self.kernels),
                ("generation", self.generation and Generation(self.generation)),
                ("arena", self.arena_memory),
                ("external_clock_mhz", self.external_clock),
                ("flash", self._flash()),
            )
            if value is not None
        }
        if self.parameters is not None:
            changes["parameters"] = None if self.parameters == "auto" else Memory(self.parameters)
        return Configuration(replace(base.device, **changes), arena, external, name)

    def _flash(self) -> FlashPath | float | None:
        flash = self.flash_rate if self.flash is None else self.flash
        if isinstance(flash, str):
            return FlashPath(flash)
        return None if flash is None else flash * 1e6


class _Configuration(SuiteSettings, frozen=True):
    name: Annotated[str, Meta(min_length=1, description="a text in quotes")] | None = None
    """Name in reports. Default: its number."""


class _Model(Table, frozen=True):
    path: _ModelPath
    """A `.tflite` file or an image of relocatable code; the path counts from the suite's file."""
    name: str | None = None
    """Name in reports. Default: its path."""


class SuiteTables(Table, frozen=True):
    """The tables of a suite's file."""

    models: Annotated[tuple[_ModelPath | _Model, ...], Meta(min_length=1, max_length=MAX_ENTRIES)] | None = (
        None
    )
    """Models to profile: paths, or tables."""
    defaults: SuiteSettings | None = None
    """Settings of all configurations."""
    configurations: (
        Annotated[tuple[_Configuration, ...], Meta(min_length=1, max_length=MAX_ENTRIES)] | None
    ) = None
    """Devices to profile on; without any, one with the defaults."""


def load_suite(path: Path) -> Suite:
    """Read a file of configurations. Raises ProfileError with file, line and key."""
    if path.suffix.lower() in _YAML:
        raise ProfileError(
            f"{path}: a suite is a TOML file, not YAML: models = [...], a table [defaults], and "
            "[[configurations]] above each configuration, with key = value"
        )
    try:
        return _suite(read_toml(path))
    except SettingsError as error:
        raise ProfileError(str(error)) from None


def read_suite(text: str, *, where: str, directory: Path) -> Suite:
    """Read a file's text, named `where` in messages, with paths from `directory`. Raises ProfileError."""
    try:
        return _suite(parse_toml(text, where, directory))
    except SettingsError as error:
        raise ProfileError(str(error)) from None


def _suite(file: TomlFile) -> Suite:
    tables = convert(file, SuiteTables)
    configurations = tuple(
        each.over(Configuration() if tables.defaults is None else tables.defaults.over(Configuration()), name)
        for name, each in named_settings(file, tables)
    )
    return Suite(suite_models(file, tables), configurations)


def suite_models(file: TomlFile, tables: SuiteTables) -> tuple[SuiteModel, ...]:
    """Return the models that a file's tables name."""
    return tuple(_model(entry, file.directory) for entry in tables.models or ())


def named_settings(file: TomlFile, tables: SuiteTables) -> tuple[tuple[str, SuiteSettings], ...]:
    """Return the configurations of a file's tables by name, without its defaults. Raises SettingsError.

    Without any it is one without a name that changes nothing.
    """
    if tables.defaults is not None:
        _check_memory(file, tables.defaults, ("defaults",))
    found: list[tuple[str, SuiteSettings]] = []
    for number, table in enumerate(tables.configurations or ()):
        _check_memory(file, table, ("configurations", number))
        name = f"configuration {number + 1}" if table.name is None else printable(table.name, NAME_LIMIT)
        found.append((name, table))
    return tuple(found) or (("", SuiteSettings()),)


def _model(entry: str | _Model, directory: Path) -> SuiteModel:
    if isinstance(entry, str):
        return SuiteModel(directory / entry, printable(entry, NAME_LIMIT))
    return SuiteModel(directory / entry.path, printable(entry.name or entry.path, NAME_LIMIT))


def _check_memory(file: TomlFile, settings: SuiteSettings, path: KeyPath) -> None:
    for key, size in (("arena", settings.arena), ("external", settings.external)):
        if size is not None and size > MAX_MEMORY:
            raise file.error(f"{size} bytes; the most is {MAX_MEMORY}", (*path, key))
