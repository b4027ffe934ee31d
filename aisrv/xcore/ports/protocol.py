"""Ports with ready signals, set up as lib_xcore's port_protocol.h does. Rules: "Ports", Ready signals.

Each function makes the port buffered, and attaches it to the clock block. The ports of the ready signals have
one bit and are enabled. Call one before data matter. Traps are those of the settings.
"""

from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.port import Port


async def port_protocol_in_handshake(p: Port, readyin: Port, readyout: Port, clk: ClockBlock) -> None:
    """Have a port sample where its ready signal and that of who sends are both high."""
    await prepare_input(p)
    clk.set_ready_src(readyin)
    p.set_clock(clk)
    p.set_ready_handshake()
    p.clear_buffer()
    readyout.set_out_ready(p)


async def port_protocol_out_handshake(
    p: Port, readyin: Port, readyout: Port, clk: ClockBlock, initial: int
) -> None:
    """Have a port output at falling edges before which the one who receives was ready, and say so.

    `initial` is on its pins when the function returns.
    """
    await prepare_output(p, initial)
    clk.set_ready_src(readyin)
    p.set_clock(clk)
    p.set_ready_handshake()
    p.clear_buffer()
    readyout.set_out_ready(p)


async def port_protocol_in_strobed_master(p: Port, readyout: Port, clk: ClockBlock) -> None:
    """Have a port drive a ready signal while it has room, and sample while that is high."""
    await prepare_input(p)
    p.set_clock(clk)
    p.set_ready_strobed()
    p.set_master()
    p.clear_buffer()
    readyout.set_out_ready(p)


async def port_protocol_out_strobed_master(p: Port, readyout: Port, clk: ClockBlock, initial: int) -> None:
    """Have a port drive a ready signal while its data are valid; `initial` is on its pins at the return."""
    await prepare_output(p, initial)
    p.set_clock(clk)
    p.set_ready_strobed()
    p.set_master()
    p.clear_buffer()
    readyout.set_out_ready(p)


async def port_protocol_in_strobed_slave(p: Port, readyin: Port, clk: ClockBlock) -> None:
    """Have a port sample while a ready signal is high."""
    await prepare_input(p)
    clk.set_ready_src(readyin)
    p.set_clock(clk)
    p.set_ready_strobed()
    p.set_slave()
    p.clear_buffer()


async def port_protocol_out_strobed_slave(p: Port, readyin: Port, clk: ClockBlock, initial: int) -> None:
    """Have a port output at falling edges before which a ready signal was high.

    `initial` is on its pins when the function returns.
    """
    await prepare_output(p, initial)
    clk.set_ready_src(readyin)
    p.set_clock(clk)
    p.set_ready_strobed()
    p.set_slave()


async def prepare_input(p: Port) -> None:
    """Have a port be a buffered input, as all inputs with ready signals begin."""
    p.set_inout_data()
    p.set_buffered()
    if p.is_output:
        await p.in_()


async def prepare_output(p: Port, initial: int) -> None:
    """Have a port be a buffered output, with `initial` on its pins, as all with ready signals begin."""
    p.set_inout_data()
    p.set_buffered()
    await p.out_part_word(initial, p.width)
    if p.clock.runs:
        await p.sync()  # code takes no time here: on the chip the next settings come later
