"""XML as `.xn` files use it: elements with attributes, each with its line.

A document type declaration is refused, so that there are no entities to expand. Names count without their
namespace and in lower case, as the files of XMOS's boards write them both ways.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

DEEPEST = 32
"""Elements within each other; boards have about eight."""


class XmlError(ValueError):
    """Text that is no such XML; `line` says where."""

    def __init__(self, message: str, line: int) -> None:
        """Keep the line, from 1."""
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class Element:
    """An element: its name, attributes and text, and the elements in it."""

    name: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    elements: list["Element"] = field(default_factory=list)

    def get(self, attribute: str) -> str | None:
        """Return an attribute, or None where it is absent or empty."""
        return self.attributes.get(attribute, "").strip() or None

    def all(self, name: str) -> Iterator["Element"]:
        """Find the elements of a name at any depth, in the order of the text."""
        for element in self.elements:
            if element.name == name:
                yield element
            yield from element.all(name)


def parse_elements(data: bytes) -> Element:
    """Parse a document into its outermost element. Raises XmlError."""
    parser = expat.ParserCreate()
    document = Element("", {}, 1)
    open_elements = [document]

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(open_elements) > DEEPEST:
            raise XmlError("nested too deep", parser.CurrentLineNumber)
        named = {_plain(key): value for key, value in attributes.items()}
        element = Element(_plain(name), named, parser.CurrentLineNumber)
        open_elements[-1].elements.append(element)
        open_elements.append(element)

    def end(_name: str) -> None:
        element = open_elements.pop()
        element.text = element.text.strip()

    def characters(text: str) -> None:
        open_elements[-1].text += text

    def doctype(*_details: object) -> None:
        raise XmlError("a document type declaration, which boards do without", parser.CurrentLineNumber)

    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise XmlError(expat.ErrorString(error.code), error.lineno) from None
    except XmlError:
        raise
    except (LookupError, ValueError) as error:  # of the encoding that the text names
        raise XmlError(str(error), 1) from None
    return document.elements[0]


def _plain(name: str) -> str:
    return name.rpartition(":")[2].lower()
