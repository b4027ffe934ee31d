"""What is odd about the public compiler of December 2024, for words that are its own to the bit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from aisrv.graph.binary.model import Format, Segment
from aisrv.graph.text.grammar import SCRIPT_NODE_NAME, Section, node_name
from aisrv.graph.text.sections import GraphText, Statement, TextSection

if TYPE_CHECKING:
    from aisrv.graph.script.assembler import Code
    from aisrv.graph.text.messages import Messages

UNDECLARED: Final = Format(other_channels=31)
"""A format between declared ones: it has 0 channels, and the field holds them minus 1."""
_SCRIPT_OPTIONS: Final = ("script_register", "script_stack", "script_mem_shared", "script_mem_map")
_SET_THE_BANK: Final = (
    "arc_flow_error", "arc_debug_cmd", "arc_debug_reg", "arc_debug_page", "arc_flush", "arc_extend_address",
    "arc_map_hwblock",
)  # fmt: skip
_TOP_BITS: Final = 28


def give_script_options_to_nodes(text: GraphText) -> None:
    """Options of a script behind a script node are that node's, until another node opens."""
    node: TextSection | None = None
    for section in text.order:
        if not isinstance(section, TextSection):
            continue
        if section.kind is Section.NODE:
            is_script = node_name(str(section.opening.values[0])) == SCRIPT_NODE_NAME
            node = section if is_script else None
        elif section.kind is Section.SCRIPT and node is not None:
            for tag in _SCRIPT_OPTIONS:
                given = section.statements.pop(tag, [])
                if given:
                    node.statements.setdefault(tag, []).extend(given)


def bank_options_alone(text: TextSection) -> TextSection:
    """The options of an arc: each of some sets its bank, the last counts, and they set nothing else."""
    given = [statement for tag in _SET_THE_BANK for statement in text.every(tag)]
    statements = {tag: each for tag, each in text.statements.items() if tag not in _SET_THE_BANK}
    if given:
        last = max(given, key=lambda statement: statement.place.line)
        statements["arc_map_hwblock"] = [Statement("arc_map_hwblock", last.values, last.place)]
    return dataclasses.replace(text, statements=statements)


def scratch_of_the_public_compiler(segment: Segment, last: Segment | None, key: int | None) -> Segment:
    """The flags of a working segment: those of the graph's last static one.

    `key` is the second word of a user key before it, whose top bits are then those of its address.
    """
    address = Segment(bank=segment.bank, offset=segment.offset, size=segment.size)
    if last is None:
        return address
    flags = dataclasses.replace(last, bank=segment.bank, offset=segment.offset, size=segment.size)
    if key is None:
        return flags
    words = flags.words()
    return Segment.from_words((words[0] & ~(15 << _TOP_BITS) | key >> _TOP_BITS << _TOP_BITS, words[1]))


def refuse_graph_positions(code: Code, messages: Messages) -> None:
    """Refuse what overwrites a word of the header or of an IO."""
    for reference in code.nodes:
        messages.error(
            reference.place,
            "the public compiler overwrites another word for the position of a node in a script",
        )
