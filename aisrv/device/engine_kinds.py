"""Whether the engines of a board can be had: backends and modules that are named, but not installed."""

from importlib.util import find_spec

from aisrv.board import Board, BoardError
from aisrv.protocol.engine_kind import ENGINE_KINDS, KERNELS, EngineKind


def check_engine_kinds(board: Board) -> None:
    """Raise BoardError, which says where the kind is written, for one whose backend or module is not there.

    No code of the user's is run.
    """
    for number, engine in enumerate(board.engines):
        missing = _missing(engine.kind)
        if missing:
            raise BoardError(f"{engine.origin or f'engine {number}'}: {missing}")


def _missing(kind: EngineKind) -> str:
    """Describe what a kind needs and is not there; empty where it can be tried."""
    if kind.name not in ENGINE_KINDS:
        module = kind.name.partition(":")[0]
        package = module.partition(".")[0]
        try:
            found = find_spec(package)
        except ValueError:  # a module without a specification, such as __main__
            return ""
        return "" if found else f"there is no module {package!r} for the engine {kind.name!r}"
    if kind.name != KERNELS or kind.backend is None:
        return ""
    from aisrv.kernels.backends.names import SHIPPED, plain_name
    from aisrv.kernels.backends.registry import backend_names

    backend = plain_name(kind.backend)
    if backend in SHIPPED or backend in backend_names():
        return ""
    return f"there is no kernel backend {backend!r}; there are: {', '.join(backend_names())}"
