"""What our headers of C declare, from their own text: names that are there, and those that are refused."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from aisrv.addons.firmware.compiler import INCLUDE

_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MISSING: Final = re.compile(r'^XC_MISSING\((\w+),\s*((?:"[^"]*"\s*)+)\)', re.MULTILINE)
_MACRO: Final = re.compile(r"#\s*define\s+(\w+)")
_TEXT: Final = re.compile(r'"([^"]*)"')
_POINTER_TYPE: Final = re.compile(r"typedef\b[^(]*\(\*(\w+)\)")
_TYPE: Final = re.compile(r"typedef\b.*?(\w+)$", re.DOTALL)
_FUNCTION: Final = re.compile(r"[^(]*?(\w+)\s*\(")
_MARKERS: Final = re.compile(r"^(XC_BEGIN|XC_END)$", re.MULTILINE)
_OWN: Final = ("XC_", "xc_", "AISRV_", "_")
"""How names begin that are no user's."""


def headers() -> tuple[str, ...]:
    """Return the headers of lib_xcore, then the others, each by its name in an include."""
    found = [path.relative_to(INCLUDE).as_posix() for path in sorted(INCLUDE.rglob("*.h"))]
    return tuple(sorted(found, key=lambda name: ("/" not in name, name)))


def declared(header: str) -> Mapping[str, str]:
    """Return the names that a header declares, in its order, each with why it is refused, or ""."""
    return read_names((INCLUDE / header).read_text(encoding="utf-8"))


def read_names(text: str) -> Mapping[str, str]:
    """Return the names that the text of a header declares; see `declared`."""
    text = _COMMENT.sub("", text).replace("\\\n", " ")
    refused = {name: "".join(_TEXT.findall(why)) for name, why in _MISSING.findall(text)}
    text = _MARKERS.sub("", _MISSING.sub(r"int \1();", text))
    names = (name for part in _parts(text) if (name := _name_of(part)) and not name.startswith(_OWN))
    return {name: refused.get(name, "") for name in names}


def _parts(text: str) -> Iterator[str]:
    """Split a header into its directives and declarations, these without what stands in braces."""
    part, depth = "", 0
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            yield line.strip()
            continue
        for character in f"{line}\n":
            depth += (character == "{") - (character == "}")
            if not depth and (character == ";" or (character == "}" and not part.startswith("typedef"))):
                yield part
                part = ""
            elif not depth and character != "}":
                part = (part + character).lstrip()


def _name_of(part: str) -> str | None:
    """Return the name that a directive or a declaration is of; None where it is of none."""
    if part.startswith("#"):
        found = _MACRO.match(part)
    elif part.startswith("typedef"):
        found = _POINTER_TYPE.match(part) or _TYPE.match(part.rstrip())
    else:
        found = _FUNCTION.match(part)
    return None if found is None else found[1]
