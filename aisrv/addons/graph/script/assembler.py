"""The assembler: lines of a script become words."""

from dataclasses import dataclass, field
from typing import Final

from aisrv.addons.graph.binary.bitfields import words_of_bytes
from aisrv.addons.graph.errors import Messages, Place, nearest, shown
from aisrv.addons.graph.script.instructions import is_short, short
from aisrv.addons.graph.script.line import AssemblyError, LineAssembler, Reference
from aisrv.addons.graph.script.table import code_length
from aisrv.addons.graph.text.sections import DataBlock, Label
from aisrv.addons.graph.text.source import Data, Line, is_data_line, read_data

OPAQUE: Final = 1
"""Format of a script of 16-bit codes, which no machine runs."""


@dataclass(slots=True)
class Code:
    """Assembled code with its parameters; `nodes` are the words for the positions of nodes."""

    words: list[int] = field(default_factory=list)
    parameters: bytes = b""
    heap_bytes: int = 0
    format: int = 0
    nodes: list[Reference] = field(default_factory=list)

    def all_words(self) -> list[int]:
        """Code, then parameters, padded to words with zeros."""
        return self.words + words_of_bytes(self.parameters)


def assemble(
    blocks: dict[str, DataBlock], place: Place, messages: Messages, line: type[LineAssembler] = LineAssembler
) -> Code:
    """Assemble `script_code`, line by line, with its `script_parameters` and `script_heap`."""
    code = Code()
    parameters, heap = blocks.get("script_parameters"), blocks.get("script_heap")
    offsets: dict[str, dict[str, int]] = {"param": {}, "heap": {}, "label": {}}
    if parameters is not None:
        offsets["param"], code.parameters = _layout(parameters, messages)
    if heap is not None:
        offsets["heap"], values = _layout(heap, messages)
        code.heap_bytes = len(values)
        if any(values):
            messages.warn(heap.opening.place, "the words hold no values of the heap: it starts as zeros")
    block = blocks.get("script_code")
    if block is None:
        messages.error(place, "the script has no script_code")
        return code
    data = [_data(item, messages) for item in block.items]
    if any(each is not None and each.type[1:] != "32" for each in data):
        return _opaque(code, block, data, messages)
    references = _assemble_lines(code, block, data, offsets["label"], messages, line)
    _resolve(code, references, offsets, messages)
    length = code_length(code.all_words())
    if length > len(code.words):
        messages.warn(block.opening.place, "the code runs on behind its end: it has no return there")
    elif length < len(code.words) and code.parameters:
        messages.warn(
            block.opening.place,
            f"the last {len(code.words) - length} words of the code are never reached:"
            " a run takes them for the start of the parameters",
        )
    return code


def _data(item: Data | Label | Line, messages: Messages) -> Data | None:
    return read_data(item, messages) if isinstance(item, Line) and is_data_line(item) else None


def _layout(block: DataBlock, messages: Messages) -> tuple[dict[str, int], bytes]:
    """Return offsets of the labels in a block of data, and its bytes."""
    offsets: dict[str, int] = {}
    parts: list[bytes] = []
    at = 0
    for item in block.items:
        if isinstance(item, Label):
            if item.name in offsets:
                messages.error(item.place, f"label {shown(item.name)} exists already")
            offsets[item.name] = at
        elif isinstance(item, Data):
            parts.append(item.value)
            at += len(item.value)
    return offsets, b"".join(parts)


def _opaque(code: Code, block: DataBlock, data: list[Data | None], messages: Messages) -> Code:
    code.format = OPAQUE
    value = b""
    for item, each in zip(block.items, data, strict=True):
        if each is None:
            messages.error(item.place, "a script has either 16-bit codes or instructions, not both")
        else:
            value += each.value
    code.words = words_of_bytes(value)
    return code


def _assemble_lines(
    code: Code,
    block: DataBlock,
    data: list[Data | None],
    labels: dict[str, int],
    messages: Messages,
    assembler: type[LineAssembler],
) -> list[Reference]:
    references: list[Reference] = []
    for item, raw in zip(block.items, data, strict=True):
        if isinstance(item, Label):
            if item.name in labels:
                messages.error(item.place, f"label {shown(item.name)} exists already")
            labels[item.name] = len(code.words)
        elif raw is not None:
            code.words += words_of_bytes(raw.value)
        elif isinstance(item, Line):
            line = assembler(item, len(code.words), references)
            try:
                code.words += line.assemble()
            except AssemblyError as error:
                messages.error(item.place, str(error))
                code.words.append(0)
    return references


def _resolve(
    code: Code, references: list[Reference], offsets: dict[str, dict[str, int]], messages: Messages
) -> None:
    for reference in references:
        if reference.kind == "graph":
            code.nodes.append(reference)
            continue
        known = offsets[reference.kind]
        offset = known.get(reference.name)
        if offset is None:
            where = {"label": "code", "param": "parameters", "heap": "heap"}[reference.kind]
            messages.error(
                reference.place,
                f"no label {shown(reference.name)} in the {where}{nearest(reference.name, known)}",
            )
        elif reference.kind != "label":
            code.words[reference.at] = offset
        elif not is_short(offset - reference.at):
            messages.error(reference.place, f"label {shown(reference.name)} is too far away to jump to")
        else:
            code.words[reference.at] |= short(offset - reference.at)
