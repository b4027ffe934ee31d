"""Kinds of engine as values of command-line options."""

from typing import Final

import click
from click.shell_completion import CompletionItem

from aisrv.protocol.engine_kind import EngineKind, EngineKindError, find_kind, kind_names


class EngineKindType(click.ParamType[EngineKind]):
    """A kind of engine in its text form."""

    name = "kind"

    def convert(
        self, value: str | EngineKind, param: click.Parameter | None, ctx: click.Context | None
    ) -> EngineKind:
        if isinstance(value, EngineKind):
            return value
        try:
            return EngineKind.parse(value)
        except EngineKindError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete kinds, and after a kind and a colon its variants that are installed."""
        _ = ctx, param
        kind, colon, _ = incomplete.partition(":")
        if colon and find_kind(kind) is not None:
            names = tuple(f"{kind}:{name}" for name in EngineKind(kind).variant.names())
        else:
            names = kind_names()
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


ENGINE_KIND: Final = EngineKindType()
