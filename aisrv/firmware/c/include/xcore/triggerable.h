/* Events by hand: a label for each resource, and a wait for those that are enabled. */
#ifndef AISRV_XCORE_TRIGGERABLE_H
#define AISRV_XCORE_TRIGGERABLE_H

#include <xs1.h>

XC_BEGIN
void xc_event_vector(resource_t resource, void *label);
/* The label of the first event; where `wait` is 0 and there is none, NULL. */
void *xc_event_label(int wait);
void triggerable_enable_trigger(resource_t resource);
void triggerable_disable_trigger(resource_t resource);
void triggerable_set_trigger_enabled(resource_t resource, int enabled);
/* Disable the events of all resources that this core set up. */
void triggerable_disable_all(void);
XC_END

#define TRIGGERABLE_SETUP_EVENT_VECTOR(resource, label) xc_event_vector(resource, &&label)
#define TRIGGERABLE_WAIT_EVENT(...) goto *xc_event_label(1)
#define TRIGGERABLE_TAKE_EVENT(...)              \
    do {                                         \
        void *xc_label = xc_event_label(0);      \
        if (xc_label) goto *xc_label;            \
    } while (0)

XC_MISSING(triggerable_setup_interrupt_callback, "interrupts are not there yet; wait in SELECT_RES")

#endif
