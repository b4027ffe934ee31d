"""The classes of which a node makes its resources.

Substrates that charge their verbs with time, or count what crosses an end, are other classes and not flags:
`open_node` takes them as one value, and no verb asks which there are.
"""

from typing import Final

from msgspec import Struct

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.core import Core
from aisrv.xcore.lock import Lock
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.synchronizer import Synchronizer
from aisrv.xcore.timer import Timer


class ResourceClasses(Struct, frozen=True):
    """A class for each kind of resource; each is one of `aisrv.xcore` or derived from it."""

    runtime: type[Runtime] = Runtime
    core: type[Core] = Core
    chanend: type[ChanEnd] = ChanEnd
    timer: type[Timer] = Timer
    lock: type[Lock] = Lock
    synchronizer: type[Synchronizer] = Synchronizer


PLAIN: Final = ResourceClasses()
"""Those of a node whose verbs take no time."""
