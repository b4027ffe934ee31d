"""xscope's config files, `config.xscope`: the probes of a program, and the macros that name them in C.

Source: XMOS XTC tools, "xSCOPE config file". A file is untrusted, as `.xn` files are.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar
from xml.etree.ElementTree import Element

from msgspec import Struct

from aisrv.board import BoardFileError
from aisrv.values.printable import printable
from aisrv.values.settings.errors import SettingsError
from aisrv.values.settings.size import KIB
from aisrv.values.settings.toml_file import read_bounded
from aisrv.values.untrusted_xml import XmlError, parse_xml
from aisrv.xcore.probes import LONGEST_NAME, MOST_PROBES, DataType, Probe, ProbeKind

LARGEST_FILE: Final = 256 * KIB
"""Bytes: 255 probes with long names fit."""
_MODES: Final = ("none", "basic", "timed")
_FLAGS: Final = {"true": True, "false": False}
_NO_NAME: Final = re.compile(r"[^A-Z0-9_]", re.ASCII)
T = TypeVar("T")


class XscopeConfig(Struct, frozen=True):
    """What a config file says."""

    probes: tuple[Probe, ...]
    """By number."""
    macros: Mapping[str, int]
    """What C programs call the probes: numbers, -1 for a probe that is disabled."""

    @property
    def defines(self) -> tuple[str, ...]:
        """The macros as a compiler takes them."""
        return tuple(f"{name}={number}" for name, number in self.macros.items())


class _ElementError(Exception):
    def __init__(self, element: Element, message: str) -> None:
        super().__init__(f"{printable(element.tag)}: {message}")
        self.element = element


def read_xscope(path: Path) -> XscopeConfig:
    """Read a config file. Raises BoardFileError, which names the file and the line."""
    try:
        data = read_bounded(path, LARGEST_FILE)
    except SettingsError as error:
        raise BoardFileError(str(error)) from None
    return parse_xscope(data, printable(str(path)))


def parse_xscope(data: bytes, name: str = "config.xscope") -> XscopeConfig:
    """Read the `data` of a config file that messages call `name`. Raises BoardFileError."""
    try:
        root, lines = parse_xml(data)
    except XmlError as error:
        raise BoardFileError(f"{name}:{error.line}: {error}") from None
    try:
        return _config(root)
    except _ElementError as error:
        raise BoardFileError(f"{name}:{lines[error.element]}: {error}") from None


def _config(root: Element) -> XscopeConfig:
    if root.tag != "xscopeconfig":
        raise _ElementError(root, "a config file of xscope is an xSCOPEconfig")
    _choice(root, "iomode", {mode: mode for mode in _MODES}, "none")
    is_on = _choice(root, "enabled", _FLAGS, default=True)
    probes: list[Probe] = []
    macros: dict[str, int] = {}
    for element, module, prefix in _elements(root):
        probe = _probe(element, module, is_on=is_on)
        macro = prefix + _macro(element, "shortname" if "shortname" in element.attrib else "name")
        if macro in macros:
            raise _ElementError(element, f"a second probe is {macro} in C")
        macros[macro] = len(probes) if probe.is_enabled else -1
        probes.append(probe)
        if len(probes) > MOST_PROBES:
            raise _ElementError(element, f"more than {MOST_PROBES} probes")
    return XscopeConfig(tuple(probes), macros)


def _elements(root: Element) -> Iterator[tuple[Element, str, str]]:
    """Find the probes, with the name of their module and what it puts before their macros."""
    for element in root:
        if element.tag == "module":
            module, prefix = _text(element, "name"), f"{_macro(element, 'id')}_"
            for probe in element:
                if probe.tag != "probe":
                    raise _ElementError(probe, "a Module has Probes")
                yield probe, f"{module} ", prefix
        elif element.tag == "probe":
            yield element, "", ""
        else:
            raise _ElementError(element, "an xSCOPEconfig has Probes and Modules")


def _probe(element: Element, module: str, *, is_on: bool) -> Probe:
    kinds = {kind.name.lower(): kind for kind in ProbeKind}
    types = {each.name.lower(): each for each in DataType}
    return Probe(
        name=module + _text(element, "name"),
        kind=_choice(element, "type", kinds, ProbeKind.CONTINUOUS),
        data_type=_choice(element, "datatype", types, DataType.NONE),
        unit=_text(element, "units") if "units" in element.attrib else "",
        is_enabled=_choice(element, "enabled", _FLAGS, default=True) and is_on,
    )


def _text(element: Element, attribute: str) -> str:
    text = element.get(attribute, "").strip()
    if not text or not text.isprintable():
        raise _ElementError(element, f"{attribute} must be a name")
    if len(text) > LONGEST_NAME:
        raise _ElementError(element, f"{attribute} is longer than {LONGEST_NAME} characters")
    return text


def _macro(element: Element, attribute: str) -> str:
    name = _NO_NAME.sub("_", _text(element, attribute).upper())
    return f"_{name}" if name[0].isdigit() else name


def _choice(element: Element, attribute: str, choices: Mapping[str, T], default: T) -> T:
    given = element.get(attribute)
    if given is None:
        return default
    if given.lower() not in choices:
        raise _ElementError(
            element, f"{attribute} must be {', '.join(choices)}, not {printable(given[:60])!r}"
        )
    return choices[given.lower()]
