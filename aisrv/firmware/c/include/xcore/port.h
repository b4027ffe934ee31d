/* Ports: not there for C tasks yet. */
#ifndef AISRV_XCORE_PORT_H
#define AISRV_XCORE_PORT_H

#include <xs1.h>

typedef resource_t port_t;

XC_MISSING(port_enable, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_reset, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_start_buffered, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_disable, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_transfer_width, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_buffered, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_unbuffered, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_clock, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_inout_data, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_out_clock, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_out_ready, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_invert, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_no_invert, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_sample_falling_edge, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_sample_rising_edge, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_master, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_slave, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_no_ready, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_ready_strobed, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_ready_handshake, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_get_trigger_time, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_trigger_time, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_clear_trigger_time, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_trigger_in_equal, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_trigger_in_not_equal, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_clear_trigger_in, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_peek, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_out, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_in, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_out_shift_right, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_in_shift_right, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_out_at_time, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_in_at_time, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_out_shift_right_at_time, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_in_shift_right_at_time, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_in_when_pinseq, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_in_when_pinsneq, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_in_shift_right_when_pinseq, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_in_shift_right_when_pinsneq, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_clear_buffer, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_endin, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_force_input, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_setup_interrupt_callback, "C tasks have no ports yet; a task in Python may drive them")
XC_MISSING(port_set_trigger_value, "C tasks have no ports yet; a task in Python may drive them")

#endif
