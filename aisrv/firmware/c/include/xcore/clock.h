/* Clock blocks: not there for C tasks yet. */
#ifndef AISRV_XCORE_CLOCK_H
#define AISRV_XCORE_CLOCK_H

#include <xs1.h>

typedef resource_t xclock_t;

XC_MISSING(clock_enable, "C tasks have no clock blocks yet")
XC_MISSING(clock_disable, "C tasks have no clock blocks yet")
XC_MISSING(clock_start, "C tasks have no clock blocks yet")
XC_MISSING(clock_stop, "C tasks have no clock blocks yet")
XC_MISSING(clock_set_source_port, "C tasks have no clock blocks yet")
XC_MISSING(clock_set_source_clk_ref, "C tasks have no clock blocks yet")
XC_MISSING(clock_set_source_clk_xcore, "C tasks have no clock blocks yet")
XC_MISSING(clock_set_divide, "C tasks have no clock blocks yet")
XC_MISSING(clock_set_ready_src, "C tasks have no clock blocks yet")

#endif
