"""Whether the engines of a board are available: backends and modules that are named, but not installed."""

from importlib.util import find_spec

from aisrv.board import Board, BoardError, EngineSpec
from aisrv.inference.packages import missing_package
from aisrv.protocol.engine_kind import ENGINE_KINDS, KERNELS, NO_MODEL, EngineKind


def check_engine_kinds(board: Board) -> None:
    """Raise BoardError, which says where the kind is written, for one whose backend or module is not there.

    No code of the user's is run.
    """
    for number, engine in enumerate(board.engines):
        wrong = _missing(engine.kind) or _wrong_fallback(engine)
        if wrong:
            raise BoardError(f"{engine.origin or f'engine {number}'}: {wrong}")


def _wrong_fallback(engine: EngineSpec) -> str:
    """Describe why an engine cannot have its fallback; empty where it can."""
    if engine.fallback is None:
        return ""
    if engine.kind.name != KERNELS:
        return f"an engine of kind {str(engine.kind)!r} has no fallback: only {KERNELS} does"
    if engine.fallback.name in (KERNELS, NO_MODEL):
        return f"{str(engine.fallback)!r} is not a fallback: another kind must run the models, such as tflm"
    return _missing(engine.fallback)


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
    missing = missing_package(kind)
    if missing is not None:
        return str(missing)
    if kind.name != KERNELS or kind.backend is None:
        return ""
    from aisrv.addons.kernels.backends.registry import SHIPPED, backend_names, plain_name

    backend = plain_name(kind.backend)
    if backend in SHIPPED or backend in backend_names():
        return ""
    return f"there is no kernel backend {backend!r}; there are: {', '.join(backend_names())}"
