"""`aisrv backends`: the known engines and kernel backends, and which of them are installed."""

import json
from typing import Final, NamedTuple

import click

from aisrv.protocol.engine_kind import ENGINE_KINDS, KERNELS, NO_MODEL, EngineKind

_NATIVE: Final = "kernels:native"


class Backend(NamedTuple):
    """An engine as `--engine` takes it, its package, and the command that installs a missing one."""

    name: str
    origin: str
    missing: str | None = None
    detail: str | None = None
    """Name of the implementation, if that depends on the machine."""


def list_backends() -> list[Backend]:
    """Return the shipped engines and kernel backends, then the backends of other packages."""
    from aisrv.addons.kernels.backends.registry import SHIPPED, registered_backends

    names = [name for name in ENGINE_KINDS if name != NO_MODEL]
    names += [f"{KERNELS}:{name}" for name in SHIPPED]
    shipped = [Backend(name, "aisrv", _missing(name), _detail(name)) for name in names]
    others = [Backend(f"{KERNELS}:{name}", origin) for name, origin in registered_backends().items()]
    return shipped + others


def _detail(name: str) -> str | None:
    from aisrv.addons.kernels.backends.registry import default_backend

    if name == KERNELS:
        return f"on {default_backend()}"
    return _native()[1] if name == _NATIVE else None


def _native() -> tuple[str | None, str | None]:
    """Return why there are no native kernels, else which variant of them this processor runs."""
    from aisrv.addons.kernels.backends.native.library import NativeError, load

    try:
        return None, load().variants[-1].value
    except NativeError as error:
        return str(error), None


def _missing(name: str) -> str | None:
    if name == _NATIVE:
        return _native()[0]
    from aisrv.inference.packages import missing_package

    missing = missing_package(EngineKind.parse(name))
    return None if missing is None else missing.advice


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
