"""The ports and clock blocks of a tile, each made when it is first asked for."""

from functools import partial
from typing import Final

from aisrv.xcore.core import check_tile
from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.map import CLOCK_BLOCK_TYPE, PORT_PINS, port_name
from aisrv.xcore.ports.pins import Pins
from aisrv.xcore.ports.port import Port
from aisrv.xcore.ports.settings import PortSettings
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.traps import SizeError, Trap, TrapKind

CLOCK_BLOCKS: Final = 6


class Ports:
    """Those of one tile; `port_class` is what its ports are made of, `block_class` its clock blocks."""

    def __init__(
        self,
        runtime: Runtime,
        tile: int,
        core_clock_mhz: int,
        pins: Pins,
        port_class: type[Port] = Port,
        block_class: type[ClockBlock] = ClockBlock,
    ) -> None:
        self.tile: Final = tile
        """The tile's number."""
        self._runtime = runtime
        self._pins = pins
        self._port_class = port_class
        self._make_block = partial(block_class, runtime, tile, core_clock_mhz=core_clock_mhz)
        self._made: dict[str, Port] = {}
        self._blocks: dict[int, ClockBlock] = {}
        self.reference: Final = self.clock_block(CLOCK_BLOCK_TYPE)
        """Clock block 0."""

    def port(self, port: str | int) -> Port:
        """Return a port by its name or resource id; raises SizeError where the tile has no such."""
        name = port_name(port)
        made = self._made.get(name)
        if made is None:
            pins = tuple(map(self._pins.numbered, PORT_PINS[name]))
            made = self._made[name] = self._port_class(self._runtime, self, name, pins)
        return made

    def clock_block(self, resource_id: int) -> ClockBlock:
        """Return a clock block by its resource id, `XS1_CLKBLK_REF` 0x006 to `XS1_CLKBLK_5` 0x506.

        Raises SizeError for another one.
        """
        number, kind = resource_id >> 8, resource_id & 0xFF
        if kind != CLOCK_BLOCK_TYPE or not 0 <= number < CLOCK_BLOCKS:
            raise SizeError(f"clock block 0x{resource_id:x}: a tile has 0x006 to 0x506")
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = self._make_block(number)
        return block

    def allocate_clock_block(self) -> ClockBlock:
        """Enable the lowest clock block that is not; traps with ILLEGAL_RESOURCE where all are."""
        check_tile(self.tile, "getr of a clock block")
        for number in range(1, CLOCK_BLOCKS):
            block = self.clock_block(number << 8 | CLOCK_BLOCK_TYPE)
            if not block.is_enabled:
                block.enable()
                return block
        raise Trap(
            TrapKind.ILLEGAL_RESOURCE, f"tile {self.tile} has {CLOCK_BLOCKS} clock blocks, all are in use"
        )

    def source_inverted(self, port: PortSettings) -> None:
        """Have the blocks that a port clocks follow it."""
        for block in self._blocks.values():
            block.source_inverted(port)

    def enabled_changed(self, changed: PortSettings, now: int) -> None:
        """Let the narrowest enabled port have each pin of a port that was enabled or disabled."""
        enabled = [port for port in self._made.values() if port.is_enabled]
        enabled.sort(key=lambda port: -port.width)
        owners = {pin: port for port in enabled for pin in port.pins}
        for port in enabled:
            if not set(port.pins).isdisjoint(changed.pins):
                port.may_drive(tuple(pin for pin in port.pins if owners[pin] is port), now)
