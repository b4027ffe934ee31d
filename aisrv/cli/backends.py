"""`aisrv backends`: the known engines and kernel backends, and which of them are installed."""

import json
from typing import NamedTuple

import click

from aisrv.protocol.engine_kind import NO_MODEL, EngineKind, EngineKindError, find_kind, kind_names


class Backend(NamedTuple):
    """An engine as `--engine` takes it, its package, and the command that installs a missing one."""

    name: str
    origin: str
    missing: str | None = None
    detail: str | None = None
    """Name of the implementation, if that depends on the machine."""


def list_backends() -> list[Backend]:
    """Return the engines, then their variants: what is shipped, then what comes from other packages."""
    kinds = [EngineKind(name) for name in kind_names() if name != NO_MODEL]
    found = [_backend(kind, _package(kind)) for kind in kinds]
    for kind in kinds:
        for name, origin in kind.variant.names().items():
            found.append(_backend(EngineKind(kind.name, name), origin))
    return found


def _backend(kind: EngineKind, origin: str) -> Backend:
    from aisrv.inference.packages import missing_package

    missing = missing_package(kind)
    if missing is not None:
        return Backend(str(kind), origin, missing.advice)
    try:
        return Backend(str(kind), origin, detail=kind.variant.implementation())
    except EngineKindError as error:
        return Backend(str(kind), origin, str(error))


def _package(kind: EngineKind) -> str:
    """Return the top package of a kind's interpreter."""
    found = find_kind(kind.name)
    return found.interpreter.partition(".")[0].partition(":")[0] if found else ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backends(as_json: bool) -> None:
    """List what can run models: the engines and kernel backends that `--engine` takes.

    A package of your own adds kernel backends by the entry point aisrv.kernel_backends. Any class of your own
    is an engine, too, as module:class.

    \b
    Examples:
      aisrv backends
      aisrv backends --json
      aisrv run --engine kernels:numpy
    """
    found = list_backends()
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found], indent=2))
        return
    width = max(len(each.name) for each in found)
    places = max(len(each.origin) for each in found)
    for each in found:
        state = each.missing or (f"installed: {each.detail}" if each.detail else "installed")
        click.echo(f"{each.name:<{width}}  {each.origin:<{places}}  {state}")
