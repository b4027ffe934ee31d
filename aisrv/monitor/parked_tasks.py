"""What a logical core does, as a value."""

from aisrv.monitor.values import CoreState, CoreStatus, Peer
from aisrv.xcore.core import Core
from aisrv.xcore.report import peers_of, wait_of
from aisrv.xcore.traps import Trap


def core_status(core: Core) -> CoreStatus:
    """Describe a core that is in use. Call it from another task than the core's, in the same thread."""
    if core.trap is not None:
        return CoreStatus(core.number, core.name, CoreState.HALTED, trap=_describe(core.trap))
    if core.task is None:
        return CoreStatus(core.number, core.name, CoreState.SET_ASIDE)
    wait = wait_of(core)
    if wait is None:  # nothing, or a resource that has just woken it
        return CoreStatus(core.number, core.name, CoreState.RUNNING)
    peers = tuple(map(_peer, peers_of(core)))
    return CoreStatus(core.number, core.name, CoreState.WAITING, wait.verb, wait.resource, peers)


def _peer(core: Core) -> Peer:
    return Peer(core.tile, core.name, core.trap is not None)


def _describe(trap: Trap) -> str:
    return f"{trap.place}: {trap}" if trap.place else str(trap)
