/* What the scheduler and other functions of lib_xcore need of interrupts. */
#ifndef AISRV_INTERRUPTS_H
#define AISRV_INTERRUPTS_H

#include <xs1.h>

/* A coroutine begins to run, with interrupts masked and none set up. */
void interrupts_begin_core(unsigned core);
/* Whether the running core has a callback for a resource. */
int interrupts_have(resource_t resource);
void interrupts_set_enabled(resource_t resource, int enabled);
void interrupts_disable_all(void);
/* The resource raises events from now on. */
void interrupts_forget(resource_t resource);
/* Give a timer its trigger time, or take it away, and tell the interrupt that it has. */
void interrupts_set_trigger(resource_t timer, uint32_t time);
void interrupts_clear_trigger(resource_t timer);
/* Whether the running core may be interrupted. */
int interrupts_unmasked(void);
/* Whether that could be so without a verb of its own. */
int interrupts_may_come(void);

#endif
