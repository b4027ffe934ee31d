/* Ports with ready signals, and their clock: each function makes `p` buffered. The ports of the signals have one bit, and all
 * are enabled. With an output, `initial` is on the pins when the function returns. */
#ifndef AISRV_XCORE_PORT_PROTOCOL_H
#define AISRV_XCORE_PORT_PROTOCOL_H

#include <xcore/port.h>

XC_BEGIN
/* Both ends say when they are ready: words wait for each other. */
void port_protocol_in_handshake(port_t p, port_t readyin, port_t readyout, xclock_t clk);
void port_protocol_out_handshake(port_t p, port_t readyin, port_t readyout, xclock_t clk, uint32_t initial);
/* The port says when it samples, or when its data are valid. */
void port_protocol_in_strobed_master(port_t p, port_t readyout, xclock_t clk);
void port_protocol_out_strobed_master(port_t p, port_t readyout, xclock_t clk, uint32_t initial);
/* The port samples, or goes on to the next data, where the other end says so. */
void port_protocol_in_strobed_slave(port_t p, port_t readyin, xclock_t clk);
void port_protocol_out_strobed_slave(port_t p, port_t readyin, xclock_t clk, uint32_t initial);
XC_END

#endif
