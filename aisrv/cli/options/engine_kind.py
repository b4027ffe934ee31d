"""Kinds of engine as values of command-line options."""

from typing import Final

import click

from aisrv.protocol.engine_kind import EngineKind, EngineKindError


class EngineKindType(click.ParamType[EngineKind]):
    """A kind of engine in its text form."""

    name = "kind"

    def convert(
        self, value: str | EngineKind, param: click.Parameter | None, ctx: click.Context | None
    ) -> EngineKind:
        """Read the text."""
        if isinstance(value, EngineKind):
            return value
        try:
            return EngineKind.parse(value)
        except EngineKindError as error:
            self.fail(str(error), param, ctx)


ENGINE_KIND: Final = EngineKindType()
