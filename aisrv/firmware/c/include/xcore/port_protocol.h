/* Protocols of ports with ready signals: not there for C tasks yet. */
#ifndef AISRV_XCORE_PORT_PROTOCOL_H
#define AISRV_XCORE_PORT_PROTOCOL_H

#include <xcore/port.h>

XC_MISSING(port_protocol_in_handshake, "C tasks have no ready signals yet")
XC_MISSING(port_protocol_out_handshake, "C tasks have no ready signals yet")
XC_MISSING(port_protocol_in_strobed_master, "C tasks have no ready signals yet")
XC_MISSING(port_protocol_out_strobed_master, "C tasks have no ready signals yet")
XC_MISSING(port_protocol_in_strobed_slave, "C tasks have no ready signals yet")
XC_MISSING(port_protocol_out_strobed_slave, "C tasks have no ready signals yet")

#endif
