"""Files of configurations: which models to profile on which devices, in YAML.

    models: [person.tflite, {path: digits.tflite, name: digits}]
    defaults: {clock: 600, kernels: optimized}
    configurations:
      - {name: one thread, threads: 1}
      - {name: five threads, threads: 5}

Every model is profiled on every configuration. Paths count from the file. All keys may be left out. The
file is data, whatever its tags say: nothing is constructed but numbers and strings.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from aisrv.analysis.profile.errors import ProfileError
from aisrv.analysis.profile.model_profile import DEFAULT_ARENA, DEFAULT_EXTERNAL, Configuration, printable
from aisrv.inference.timings import DeviceModel, Kernels

if TYPE_CHECKING:
    import yaml

MAX_BYTES: Final = 64 * 1024
MAX_ENTRIES: Final = 64
"""Models, and configurations, of one file."""
MAX_MEMORY: Final = 2**31 - 1

_UNITS: Final = {"K": 1024, "M": 1024 * 1024}


@dataclass(frozen=True, slots=True)
class SuiteModel:
    """A model file and the name that reports give it."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Suite:
    """What a file of configurations asks for."""

    models: tuple[SuiteModel, ...]
    configurations: tuple[Configuration, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one configuration that were given; None for those left out."""

    threads: int | None = None
    clock: float | None = None
    kernels: str | None = None
    flash_rate: float | None = None
    """In MB/s, that is 10**6 bytes a second."""
    arena: int | None = None
    external: int | None = None

    def over(self, base: Configuration, name: str = "") -> Configuration:
        """Give a configuration with these settings in place of its own; ValueError for what no device has."""
        device = base.device
        changed = DeviceModel(
            clock_mhz=device.clock_mhz if self.clock is None else self.clock,
            threads=device.threads if self.threads is None else self.threads,
            flash_rate=device.flash_rate if self.flash_rate is None else self.flash_rate * 1e6,
            kernels=device.kernels if self.kernels is None else Kernels(self.kernels),
        )
        arena = base.arena_bytes if self.arena is None else self.arena
        external = base.external_bytes if self.external is None else self.external
        return Configuration(changed, arena, external, name)


def load_suite(path: Path) -> Suite:
    """Read a file of configurations; ProfileError with file, line and key."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: not UTF-8 at byte {error.start}") from None
    return read_suite(text, where=str(path), directory=path.parent)


def read_suite(text: str, *, where: str, directory: Path) -> Suite:
    """Read a file's text; `where` names it in messages. ProfileError with file, line and key otherwise."""
    return _Reader(text, where).suite(directory)


@dataclass(slots=True)
class _Reader:
    text: str
    where: str
    _loader: "yaml.SafeLoader" = field(init=False)

    def suite(self, directory: Path) -> Suite:
        top = self._mapping(self._compose(), "the file", {"models", "defaults", "configurations"})
        nodes = self._list(top["models"], "models") if "models" in top else []
        models = tuple(self._model(node, directory) for node in nodes)
        base = Configuration(DeviceModel(), DEFAULT_ARENA, DEFAULT_EXTERNAL)
        if "defaults" in top:
            defaults = self._mapping(top["defaults"], "defaults", set(_SETTINGS))
            base = self._configuration(top["defaults"], defaults, base, "")
        if "configurations" not in top:
            return Suite(models, (base,))
        configurations = []
        for number, node in enumerate(self._list(top["configurations"], "configurations"), 1):
            keys = self._mapping(node, "a configuration", {"name", *_SETTINGS})
            name = (
                printable(self._text(keys["name"], "name")) if "name" in keys else f"configuration {number}"
            )
            configurations.append(self._configuration(node, keys, base, name))
        return Suite(models, tuple(configurations))

    def _compose(self) -> "yaml.Node":
        import yaml

        if len(self.text.encode(errors="surrogatepass")) > MAX_BYTES:
            self._refuse(None, f"it has more than {MAX_BYTES:,} bytes")
        try:
            self._loader = yaml.SafeLoader(self.text)
            node = self._loader.get_single_node()
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = printable(str(getattr(error, "problem", None) or error), limit=200)
            line = f":{mark.line + 1}" if mark is not None else ""
            raise ProfileError(f"{self.where}{line}: no YAML: {problem}") from None
        except RecursionError:
            raise ProfileError(f"{self.where}: it is nested too deeply") from None
        if node is None:
            self._refuse(None, "it is empty; it should list models or configurations")
        return node

    def _refuse(self, node: "yaml.Node | None", problem: str) -> NoReturn:
        line = f":{node.start_mark.line + 1}" if node is not None else ""
        raise ProfileError(f"{self.where}{line}: {problem}")

    def _mapping(self, node: "yaml.Node", what: str, allowed: set[str]) -> "dict[str, yaml.Node]":
        import yaml

        if not isinstance(node, yaml.MappingNode):
            self._refuse(node, f"{what} must be a mapping, key: value")
        found: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
            if key not in allowed:
                shown = printable(str(key), limit=40)
                self._refuse(key_node, f'{what} has no key "{shown}": there are {", ".join(sorted(allowed))}')
            if key in found:
                self._refuse(key_node, f"{what} has the key {key} twice")
            found[key] = value
        return found

    def _list(self, node: "yaml.Node", what: str) -> "list[yaml.Node]":
        import yaml

        if not isinstance(node, yaml.SequenceNode) or not 1 <= len(node.value) <= MAX_ENTRIES:
            self._refuse(node, f"{what} must be a list of 1 to {MAX_ENTRIES}")
        entries: list[yaml.Node] = node.value
        return entries

    def _model(self, node: "yaml.Node", directory: Path) -> SuiteModel:
        import yaml

        if isinstance(node, yaml.ScalarNode):
            path = self._text(node, "a model")
            name = path
        else:
            keys = self._mapping(node, "a model", {"path", "name"})
            if "path" not in keys:
                self._refuse(node, "a model needs the key path")
            path = self._text(keys["path"], "path")
            name = self._text(keys["name"], "name") if "name" in keys else path
        if "\0" in path:
            self._refuse(node, "the path has a zero byte")
        return SuiteModel(directory / path, printable(name))

    def _text(self, node: "yaml.Node", key: str) -> str:
        import yaml

        if not isinstance(node, yaml.ScalarNode) or not node.value:
            self._refuse(node, f"{key} must be a text")
        return str(node.value)

    def _configuration(
        self, node: "yaml.Node", keys: "Mapping[str, yaml.Node]", base: Configuration, name: str
    ) -> Configuration:
        values = {}
        for key, read in _SETTINGS.items():
            if key in keys:
                text = self._text(keys[key], key)
                try:
                    values[key] = read(text)
                except ValueError:
                    shown = printable(text, limit=40)
                    self._refuse(keys[key], f"{key} {shown!r}: it must be {_EXPECTED[key]}")
        try:
            return Settings(**values).over(base, name)
        except ValueError as error:
            self._refuse(node, str(error))


def _threads(text: str) -> int:
    return _within(_whole(text), 1, 5)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise ValueError(text)
    return int(text)


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(value)
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not (0 < value <= 1e6 and math.isfinite(value)):
        raise ValueError(text)
    return value


def _kernels(text: str) -> str:
    return Kernels(text).value


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:].upper(), 1)
    return _within(_whole(text if unit == 1 else text[:-1]) * unit, 0, MAX_MEMORY)


_SETTINGS: Final[dict[str, Callable[[str], Any]]] = {
    "threads": _threads,
    "clock": _positive,
    "kernels": _kernels,
    "flash_rate": _positive,
    "arena": _size,
    "external": _size,
}

_EXPECTED: Final = {
    "threads": "1 to 5",
    "clock": "a number of MHz above 0",
    "kernels": "optimized or reference",
    "flash_rate": "a number of MB/s above 0",
    "arena": "a number of bytes, such as 458752, 448K or 16M",
    "external": "a number of bytes, such as 458752, 448K or 16M",
}
