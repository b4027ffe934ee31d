"""Arcs as the words have them: buffers, and the memory of scripts."""

import math
from dataclasses import dataclass, field
from typing import Final

from aisrv.addons.graph.binary.model import Arc, Format, ScriptArc
from aisrv.addons.graph.compiler.dialect import Dialect
from aisrv.addons.graph.compiler.memory_plan import MemoryPlan
from aisrv.addons.graph.compiler.network import ArcUse, Network
from aisrv.addons.graph.compiler.records import check_fields, fields_of
from aisrv.addons.graph.compiler.segments import rounded
from aisrv.addons.graph.errors import Messages
from aisrv.addons.graph.script.assembler import Code

DEBUG_COMMANDS: Final = frozenset({0, 1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15})
ARC: Final = {
    "flow_error": "arc_flow_error",
    "flush": "arc_flush",
    "extension": "arc_extend_address",
    "debug_command": "arc_debug_cmd",
    "debug_register": "arc_debug_reg",
}


@dataclass(slots=True)
class ArcRecords:
    """The arcs of a network, placed as they are built."""

    network: Network
    formats: tuple[Format, ...]
    codes: dict[int, Code]
    plan: MemoryPlan
    dialect: Dialect
    messages: Messages
    arcs: list[Arc | ScriptArc] = field(default_factory=list)

    def debug_pages(self) -> int:
        """Number of pages of debug registers in use."""
        pages = 0
        for arc in self.network.arcs:
            text = arc.text
            if text.find("arc_parameters"):
                self.messages.error(text.place_of("arc_parameters"), "parameters as arcs are not supported")
            command = text.whole("arc_debug_cmd")
            if command not in DEBUG_COMMANDS:
                self.messages.error(text.place_of("arc_debug_cmd"), f"unknown arc debug command {command}")
            register, page = text.whole("arc_debug_reg"), text.whole("arc_debug_page")
            if not 0 <= register < 16 or not 0 <= page < 4:
                self.messages.error(text.place, "an arc has debug register 0 to 15 of page 0 to 3")
            elif command or page:
                pages = max(pages, page + 1)
        return pages

    def place(self) -> None:
        """Place all arcs but the memory that scripts share."""
        for index, use in enumerate(self.network.arcs):
            if use.code is None:
                self.arcs.append(self._arc(index, use))
            else:
                self.arcs.append(ScriptArc() if _is_shared(use) else self._script_arc(index, use))

    def place_shared(self) -> None:
        """Place the memory that scripts share, which overlays the space behind the static blocks."""
        for index, use in enumerate(self.network.arcs):
            if _is_shared(use):
                self.arcs[index] = self._script_arc(index, use, is_shared=True)

    def _script_arc(self, index: int, use: ArcUse, *, is_shared: bool = False) -> ScriptArc:
        text = use.text
        code = self.codes[index]
        # A script node that does not say how many registers it has counts six, r12 not among them.
        is_bare = text.opening.tag == "node" and text.find("script_register") is None
        registers = 6 if is_bare else text.whole("script_register", 6) + 1
        stack = text.whole("script_stack", 6)
        if not 0 <= registers < 16 or not 0 <= stack < 128:
            self.messages.error(text.place, "a script has 0 to 12 registers and 0 to 127 places of stack")
            registers, stack = 6, 6
        words = 2 * registers + 2 * stack + -(-code.heap_bytes // self.dialect.heap_unit)
        vid = text.whole("script_mem_map", text.default_bank)
        put = self.plan.overlay if is_shared else self.plan.place
        address = put(f"memory of {use.producer}", vid, 4 * words, text.place)
        if is_shared:
            address = self.dialect.shared_address(address)
        arc = ScriptArc(
            bank=address.offset_id,
            offset=address.byte,
            code_words=len(code.all_words()),
            size=4 * words,
            buffer_words=words,
            registers=registers,
            stack=stack,
        )
        check_fields(arc, text, {}, self.messages)
        return arc

    def _arc(self, index: int, use: ArcUse) -> Arc:
        text = use.text
        producer, consumer = (
            self.formats[number].frame_bytes for number in (use.producer_format, use.consumer_format)
        )
        jitter = text.real("arc_jitter_ctrl", 1.0)
        if jitter < 1:
            self.messages.error(
                text.place_of("arc_jitter_ctrl"), f"arc_jitter_ctrl is 1 or more, not {jitter:g}"
            )
        size = rounded(jitter * max(producer, consumer))
        is_set = use.io is not None and not use.io.copy
        what = f"arc {index}, {use.producer} to {use.consumer}"
        bank = text.whole("arc_map_hwblock", text.default_bank)
        address = self.plan.place(what, bank, 0 if is_set else size, text.place_of("arc_map_hwblock"))
        if not is_set:
            self._warn_of_dead_lock(index, use, size, producer, consumer)
        arc = Arc(
            bank=address.offset_id,
            offset=address.byte,
            size=size,
            consumer_format=use.consumer_format,
            producer_format=use.producer_format,
            **fields_of(text, ARC),
        )
        check_fields(arc, text, ARC | {"size": "arc_jitter_ctrl"}, self.messages)
        return arc

    def _warn_of_dead_lock(self, index: int, use: ArcUse, size: int, producer: int, consumer: int) -> None:
        if not producer or not consumer:
            return
        needed = producer + consumer - math.gcd(producer, consumer)
        if size < needed:
            factor = math.ceil(1000 * needed / max(producer, consumer)) / 1000
            self.messages.warn(
                use.text.place,
                f"arc {index} can come to a dead-lock: frames of {producer} and {consumer} bytes need a"
                f" buffer of {needed}, not {size}; arc_jitter_ctrl {factor:g} is enough",
            )


def _is_shared(arc: ArcUse) -> bool:
    return arc.code is not None and arc.code.whole("script_mem_shared") != 0
