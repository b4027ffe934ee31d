"""A model in the terminal: two or three lines for each operator, a line for each tensor."""

from collections.abc import Iterator

from aisrv.addons.predict.model_view.drawing import tensor_text
from aisrv.addons.predict.model_view.view import ModelView, OperatorView


def to_text(view: ModelView) -> str:
    """Return all that is known of a model."""
    return "\n".join([*_head(view), "", *_operators(view), "", *_tensors(view), *_rest(view)]) + "\n"


def _head(view: ModelView) -> Iterator[str]:
    yield f"{view.name}: {view.nbytes:,} bytes, schema version {view.version}"
    if view.description:
        yield view.description
    operators = f"{len(view.operators):,} operators, {view.macs:,} multiply-accumulates"
    tools = "not converted" if view.generation.is_plain else f"tools of {view.generation}"
    yield f"{operators}; one inference takes {view.total}, {tools}"
    for name, indexes in (("input", view.inputs), ("output", view.outputs)):
        for number, index in enumerate(indexes):
            yield f"{name} {number}: {tensor_text(view.tensors[index])}"
    if view.other_subgraphs:
        yield f"{view.other_subgraphs} other subgraphs, which operators call"
    yield from (f"note: {note}" for note in view.notes)


def _operators(view: ModelView) -> Iterator[str]:
    yield "Operators"
    names = max((len(operator.name) for operator in view.operators), default=0)
    for operator in view.operators:
        yield f"{operator.index:5}  {operator.name:{names}}  {_outputs(view, operator)}"
        band = f"{_ms(view, operator.ticks)} ms ({_ms(view, operator.low)} to {_ms(view, operator.high)})"
        macs = f", {operator.macs:,} MACs" if operator.macs else ""
        yield f"       {operator.ticks:,} ticks, {band}, {operator.basis}: {operator.source}{macs}"
        if operator.options:
            yield "       " + ", ".join(f"{name} {value}" for name, value in operator.options.items())


def _outputs(view: ModelView, operator: OperatorView) -> str:
    reads = " ".join("-" if index < 0 else str(index) for index in operator.inputs)
    writes = ", ".join(f"{index} {view.tensors[index].spelt}" for index in operator.outputs)
    return f"{reads} -> {writes}"


def _ms(view: ModelView, ticks: int) -> str:
    return f"{view.total.in_ms(ticks):.3f}"


def _tensors(view: ModelView) -> Iterator[str]:
    head = "" if view.head is None else f", {view.head:,} bytes of the arena together"
    yield f"Tensors{head}"
    for tensor in view.tensors:
        yield f"  {tensor_text(tensor)}"


def _rest(view: ModelView) -> Iterator[str]:
    if view.labels:
        yield from ("", "Labels", *(f"  {number} {label}" for number, label in enumerate(view.labels)))
    if view.metadata or view.input_metadata:
        yield from ("", "Metadata", *(f"  {name}: {size:,} bytes" for name, size in view.metadata))
        yield from (f"  {text}" for text in view.input_metadata)
