/* Protocols of ports: not there for C tasks yet. */
#ifndef AISRV_XCORE_PORT_PROTOCOL_H
#define AISRV_XCORE_PORT_PROTOCOL_H

#include <xs1.h>

XC_MISSING(port_protocol_in_handshake, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_protocol_out_handshake, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_protocol_in_strobed_master, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_protocol_out_strobed_master, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_protocol_in_strobed_slave, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_protocol_out_strobed_slave, "C tasks have no ports yet; a task in Python may drive them")

#endif
