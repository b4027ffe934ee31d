"""XML that nobody vouches for: no document type, which could define entities, and no deep nesting."""

from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

DEEPEST: Final = 32
"""Elements within each other; the files of XMOS's boards have about eight."""


class XmlError(Exception):
    """Text that is not well-formed XML, or uses a refused feature."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse_xml(data: bytes) -> tuple[Element, Mapping[Element, int]]:
    """Parse a document into its outermost element and the line of each.

    Names count without their namespace and in lower case, as the files of XMOS's boards write them both ways.
    """
    parser = expat.ParserCreate()
    builder = TreeBuilder()
    lines: dict[Element, int] = {}
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise XmlError("nested too deep", parser.CurrentLineNumber)
        element = builder.start(_plain(name), {_plain(key): value for key, value in attributes.items()})
        lines[element] = parser.CurrentLineNumber

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_plain(name))

    def doctype(*_details: object) -> None:
        raise XmlError("a document type declaration", parser.CurrentLineNumber)

    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise XmlError(expat.ErrorString(error.code), error.lineno) from None
    except (LookupError, ValueError) as error:  # of the encoding that the text names
        raise XmlError(str(error), 1) from None
    return builder.close(), lines


def _plain(name: str) -> str:
    return name.rpartition(":")[2].lower()
