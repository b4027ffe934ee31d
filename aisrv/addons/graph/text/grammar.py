"""The tags of graph texts, each with its section and its fields, and those of the first grammar."""

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """Kind of a field of a tag."""

    INT = "a whole number"
    NUMBER = "a number"
    HEX = "a hexadecimal number"
    WORD = "a word"


class Section(StrEnum):
    """Section of a tag; the value is the tag that opens it."""

    GRAPH = "the graph"
    FORMAT = "format_index"
    IO = "stream_io"
    NODE = "node"
    SCRIPT = "script"
    ARC = "arc"


class Tag(NamedTuple):
    """A tag: the sections that take it, its fields, and how many of them are required."""

    sections: tuple[Section, ...]
    fields: tuple[Kind, ...]
    needed: int


def _tag(sections: Section | tuple[Section, ...], *fields: Kind, optional: int = 0) -> Tag:
    return Tag(sections if isinstance(sections, tuple) else (sections,), fields, len(fields) - optional)


_I, _N, _H, _W = Kind.INT, Kind.NUMBER, Kind.HEX, Kind.WORD
_CODED: Final = (Section.NODE, Section.SCRIPT)

OPENERS: Final = {
    "format_index": _tag(Section.GRAPH, _I),
    "stream_io": _tag(Section.GRAPH, _I),
    "node": _tag(Section.GRAPH, _W, _I, optional=1),
    "script": _tag(Section.GRAPH, _I),
    "arc": _tag(Section.GRAPH, _W, _I, _I, _I, _W, _I, _I, _I),
    "arc_input": _tag(Section.GRAPH, _I, _I, _I, _W, _I, _I, _I),
    "arc_output": _tag(Section.GRAPH, _I, _I, _I, _W, _I, _I, _I),
    "subgraph": _tag(Section.GRAPH, _W),
}

FIRST_GRAMMAR_ARC: Final = _tag(Section.GRAPH, _I, _W, _I, _I, _I)
"""`arc_input` and `arc_output` as the first grammar has them: a name comes second."""

TAGS: Final = {
    "graph_location": _tag(Section.GRAPH, _I),
    "graph_location_offset": _tag(Section.GRAPH, _I),
    "graph_memory_bank": _tag(Section.GRAPH, _I),
    "debug_script_fields": _tag(Section.GRAPH, _I),
    "scheduler_return": _tag(Section.GRAPH, _I),
    "allowed_processors": _tag(Section.GRAPH, _I),
    "set_file_path": _tag(Section.GRAPH, _I, _W),
    "mem_fill_pattern": _tag(Section.GRAPH, _I, _H),
    "memory_mapping": _tag(Section.GRAPH, _I, _I, _I, _I),
    "format_raw_data": _tag(Section.FORMAT, _W),
    "format_frame_length": _tag(Section.FORMAT, _I),
    "format_nbchan": _tag(Section.FORMAT, _I),
    "format_interleaving": _tag(Section.FORMAT, _I),
    "format_time_stamp": _tag(Section.FORMAT, _I),
    "format_domain": _tag(Section.FORMAT, _W),
    "format_sdomain": _tag(Section.FORMAT, _W),
    "format_sampling_rate": _tag(Section.FORMAT, _N),
    "format_audio_mapping": _tag(Section.FORMAT, _I),
    "format_motion_mapping": _tag(Section.FORMAT, _I),
    "format_2d_height": _tag(Section.FORMAT, _I),
    "format_2d_width": _tag(Section.FORMAT, _I),
    "format_2d_border": _tag(Section.FORMAT, _I),
    "stream_io_hwid": _tag(Section.IO, _I),
    "stream_io_format": _tag(Section.IO, _I),
    "stream_io_setting": _tag(Section.IO, _I, _I, _I, optional=2),
    "stream_io_setting_callback": _tag(Section.IO, _I, _I),
    "node_preset": _tag(Section.NODE, _I),
    "node_malloc_add": _tag(Section.NODE, _I, _I),
    "node_map_hwblock": _tag(Section.NODE, _I, _I),
    "node_map_swap": _tag(Section.NODE, _I, _I),
    "node_memory_clear": _tag(Section.NODE, _I),
    "node_memory_isolation": _tag(Section.NODE, _I),
    "node_trace_id": _tag(Section.NODE, _I),
    "node_map_proc": _tag(Section.NODE, _I),
    "node_map_arch": _tag(Section.NODE, _I),
    "node_map_rtos": _tag(Section.NODE, _I),
    "node_map_verbose": _tag(Section.NODE, _I),
    "node_script": _tag(Section.NODE, _I),
    "node_user_key": _tag(Section.NODE, _I, _I),
    "node_nb_arcs": _tag(Section.NODE, _I, _I),
    "node_parameters": _tag(Section.NODE, _I, optional=1),
    "script_register": _tag(_CODED, _I),
    "script_stack": _tag(_CODED, _I),
    "script_mem_shared": _tag(_CODED, _I),
    "script_mem_map": _tag(_CODED, _I),
    "script_code": _tag(_CODED, _I, optional=1),
    "script_parameters": _tag(_CODED, _I, optional=1),
    "script_heap": _tag(_CODED, _I, optional=1),
    "arc_flow_error": _tag(Section.ARC, _I),
    "arc_debug_cmd": _tag(Section.ARC, _I),
    "arc_debug_reg": _tag(Section.ARC, _I),
    "arc_debug_page": _tag(Section.ARC, _I),
    "arc_flush": _tag(Section.ARC, _I),
    "arc_extend_address": _tag(Section.ARC, _I),
    "arc_map_hwblock": _tag(Section.ARC, _I),
    "arc_jitter_ctrl": _tag(Section.ARC, _N),
    "arc_parameters": _tag(Section.ARC, _I, optional=1),
}
"""All other tags, `end`, `label` and `include` apart."""

ALIASES: Final = {
    "_end_": "end",
    "format": "format_index",
    "graph_map_hwblock": "graph_memory_bank",
    "script_registers": "script_register",
    "stream_io_setting1": "stream_io_setting",
    "arc_extend_addr": "arc_extend_address",
    "node_script_code": "script_code",
    "node_malloc_E": "node_malloc_add",
}
"""Tags of the first grammar, and second names."""

WITHOUT_EFFECT: Final = frozenset(
    {"arc_section", "script_pointers", "node_steady_stream", "node_same_data_rate"}
    | {"node_use_dtcm", "node_use_arc_format", "node_arc_parameter", "node_map_copy"}
)
"""Tags of the first grammar that change nothing."""

REPEATED: Final = frozenset(
    {"node_malloc_add", "node_map_hwblock", "node_map_swap", "node_memory_clear", "set_file_path"}
    | {"memory_mapping", "mem_fill_pattern"}
)
"""Tags that may come several times in a section."""

DATA_BLOCKS: Final = frozenset(
    {"node_parameters", "script_code", "script_parameters", "script_heap", "arc_parameters"}
)
"""Tags that open a block of data lines or code, which `end` closes."""

NODE_ALIASES: Final = {"arm_stream_detector": "sigp_stream_detector"}
"""Names of nodes in the first grammar."""

SCRIPT_NODE_NAME: Final = "arm_stream_script"
EVERY_TAG: Final = tuple(sorted({*OPENERS, *TAGS, *ALIASES, *WITHOUT_EFFECT, "end", "label", "include"}))


def node_name(name: str) -> str:
    """Return the name of a node as manifests have it."""
    return NODE_ALIASES.get(name, name)
