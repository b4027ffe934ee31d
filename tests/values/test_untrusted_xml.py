"""XML that nobody vouches for: names, lines, and what is refused."""

import pytest

from aisrv.values.untrusted_xml import DEEPEST, XmlError, parse_xml


def test_names_are_plain_and_each_element_has_its_line() -> None:
    root, lines = parse_xml(b'<?xml version="1.0"?>\n<A:Board xmlns:A="x">\n <Tile Name="T"/>\n</A:Board>')
    assert (root.tag, [(each.tag, each.attrib, lines[each]) for each in root]) == (
        "board",
        [("tile", {"name": "T"}, 3)],
    )


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"", 1, "no element found"),
        (b"<a>\n<b></a>", 2, "mismatched tag"),
        (b"<a>" * (DEEPEST + 1), 1, "nested too deep"),
        (b'\n<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', 2, "a document type declaration"),
        (b"<a>&b;</a>", 1, "undefined entity"),
        (b'<?xml version="1.0" encoding="no-such"?><a/>', 1, "unknown encoding: no-such"),
    ],
)
def test_what_is_refused_is_named_with_its_line(data: bytes, line: int, message: str) -> None:
    with pytest.raises(XmlError) as error:
        parse_xml(data)
    assert (error.value.line, str(error.value)) == (line, message)
