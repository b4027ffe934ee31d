/* Clock blocks, which clock ports: from the reference clock, divided or not, from a 1-bit port, or from the core clock. */
#ifndef AISRV_XCORE_CLOCK_H
#define AISRV_XCORE_CLOCK_H

#include <xs1.h>

typedef resource_t xclock_t;

XC_BEGIN
/* Enable a clock block, which stands still on the undivided reference clock. */
void clock_enable(xclock_t clock);
void clock_disable(xclock_t clock);
/* Start it, and the counters of its ports from 0. */
void clock_start(xclock_t clock);
void clock_stop(xclock_t clock);
void clock_set_source_port(xclock_t clock, resource_t port);
void clock_set_source_clk_ref(xclock_t clock);
void clock_set_source_clk_xcore(xclock_t clock);
/* Divide the source by twice this; 0 leaves it as it is. */
void clock_set_divide(xclock_t clock, uint8_t divide);
/* Have its ports read their ready signal from the pin of a 1-bit port. */
void clock_set_ready_src(xclock_t clock, resource_t port);
XC_END

#endif
