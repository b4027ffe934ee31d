"""The interface of nodes that the scheduler calls, and that nodes of your own implement.

A node gets NumPy views of the arcs' memory and says how many bytes it has consumed and produced; nothing is
copied on the way. Its state lives in the object. A package makes its nodes known by an entry point of the
group `aisrv.graph_nodes`, named as in the node's manifest:

    [project.entry-points."aisrv.graph_nodes"]
    my_stream_gain = "my_package.gain:Gain"
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.arcs import Bytes


class NodeError(GraphError):
    """A node that cannot do what it is told: parameters, formats or numbers of arcs that it does not take."""


class Moved(NamedTuple):
    """Result of one call of a node."""

    consumed: Sequence[int]
    """Bytes taken from each input, in the order of the inputs."""
    produced: Sequence[int]
    """Bytes put into each output."""
    again: bool = False
    """Whether the node has more to do at once: status 1, else 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSetup:
    """Parameters of RESET."""

    inputs: tuple[Format, ...] = ()
    """Format of each input, as the node sees it."""
    outputs: tuple[Format, ...] = ()
    segments: tuple[Bytes, ...] = ()
    """Memory that the node's manifest asked for, in its order; kept from RESET to RESET."""
    preset: int = 0
    user_key: tuple[int, int] | None = None
    """Key that the graph names, or None."""
    warm_boot: bool = False
    """Whether the retained memory is to be used again."""
    log: Callable[[str], None] = print
    """Takes a line of the graph's log."""


class StreamNode:
    """Base of nodes. An instance is one node of one graph."""

    takes_time_stamps: ClassVar[bool] = False
    """Whether inputs may have a time-stamp at the start of each frame."""

    def reset(self, setup: NodeSetup) -> None:
        """Begin anew, with the formats of the arcs and the preset. Raises NodeError."""

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take parameters, the whole block for tag 0; `data` may be longer by zeros. Raises NodeError."""
        del data
        raise NodeError(f"unknown parameter {tag}")

    def read_parameter(self, tag: int) -> bytes:
        """Return the parameter with the number `tag`. Raises NodeError for an unknown one."""
        raise NodeError(f"unknown parameter {tag} to read")

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        """Process at least a frame of each input, with room for one in each output.

        `inputs` are the filled bytes, `outputs` the room; the answer says how many of each were used.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Stop with the graph."""


def need_arcs(setup: NodeSetup, inputs: int, outputs: int) -> None:
    """Raise NodeError unless a node has these numbers of inputs and outputs."""
    if (len(setup.inputs), len(setup.outputs)) != (inputs, outputs):
        raise NodeError(
            f"it has {len(setup.inputs)} inputs and {len(setup.outputs)} outputs, "
            f"it works with {inputs} and {outputs}"
        )


def need_bytes(data: bytes, size: int, what: str) -> None:
    """Raise NodeError if parameters have fewer than `size` bytes; `what` begins the message."""
    if len(data) < size:
        raise NodeError(f"{what} take {size} bytes, there are {len(data)}")
