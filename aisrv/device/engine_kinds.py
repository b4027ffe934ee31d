"""Whether the engines of a board are available: backends and modules that are named, but not installed."""

from importlib.util import find_spec

from aisrv.board import Board, BoardError, EngineSpec
from aisrv.inference.packages import missing_package
from aisrv.protocol.engine_kind import KINDS, NO_MODEL, EngineKind, find_kind


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
    if not _takes_fallback(engine.kind):
        takers = " and ".join(name for name, kind in KINDS.items() if kind.takes_fallback)
        reason = f"only {takers} does" if takers else "no kind here does"
        return f"an engine of kind {str(engine.kind)!r} has no fallback: {reason}"
    if _takes_fallback(engine.fallback) or engine.fallback.name == NO_MODEL:
        return f"{str(engine.fallback)!r} is not a fallback: another kind must run the models, such as tflm"
    return _missing(engine.fallback)


def _takes_fallback(kind: EngineKind) -> bool:
    found = find_kind(kind.name)
    return found is not None and found.takes_fallback


def _missing(kind: EngineKind) -> str:
    """Describe what a kind needs and is not there; empty where it can be tried."""
    if find_kind(kind.name) is None:
        module = kind.name.partition(":")[0]
        package = module.partition(".")[0]
        try:
            found = find_spec(package)
        except ValueError:  # a module without a specification, such as __main__
            return ""
        return "" if found else f"there is no module {package!r} for the engine {kind.name!r}"
    missing = missing_package(kind)
    return kind.variant.refusal() if missing is None else str(missing)
