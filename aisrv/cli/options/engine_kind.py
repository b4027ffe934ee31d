"""Kinds of engine as values of command-line options."""

from typing import Final

import click
from click.shell_completion import CompletionItem

from aisrv.protocol.engine_kind import ENGINE_KINDS, KERNELS, EngineKind, EngineKindError


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
        """Complete kinds, and after `kernels:` the backends that are installed."""
        _ = ctx, param
        names = list(ENGINE_KINDS)
        if incomplete.startswith(f"{KERNELS}:"):
            from aisrv.addons.kernels.backends.registry import backend_names

            names = [f"{KERNELS}:{name}" for name in backend_names()]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


ENGINE_KIND: Final = EngineKindType()
