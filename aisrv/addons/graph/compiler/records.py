"""Records of words from the statements of a section: each field by its tag."""

from collections.abc import Mapping

from aisrv.addons.graph.binary.bitfields import WordRecord
from aisrv.addons.graph.errors import FieldError, Messages
from aisrv.addons.graph.text.sections import TextSection


def fields_of(text: TextSection, tags: Mapping[str, str]) -> dict[str, int]:
    """Return the values of fields whose tags are given; 0 if the text has none."""
    return {field: text.whole(tag) for field, tag in tags.items()}


def check_fields(record: WordRecord, text: TextSection, tags: Mapping[str, str], messages: Messages) -> None:
    """Check that all fields hold their values; else an error at the tag that gives the value."""
    try:
        record.words()
    except FieldError as error:
        tag = tags.get(error.field.partition(".")[2], "")
        messages.error(text.place_of(tag), f"{tag}: {error}" if tag else str(error))
