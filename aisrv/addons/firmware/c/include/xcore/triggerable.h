/* Events by hand: a label for each resource, and a wait for those that are enabled. Interrupts: a callback for each. */
#ifndef AISRV_XCORE_TRIGGERABLE_H
#define AISRV_XCORE_TRIGGERABLE_H

#include <xs1.h>

/* What INTERRUPT_CALLBACK names. */
typedef void (*interrupt_callback_t)(void *);

XC_BEGIN
void xc_event_vector(resource_t resource, void *label);
/* The label of the first event; where `wait` is 0 and there is none, NULL. */
void *xc_event_label(int wait);
void triggerable_enable_trigger(resource_t resource);
void triggerable_disable_trigger(resource_t resource);
void triggerable_set_trigger_enabled(resource_t resource, int enabled);
/* Have the resource, once it is enabled, interrupt this core: the callback is called with the data. It takes the event, or
 * it is called again. */
void triggerable_setup_interrupt_callback(resource_t resource, void *data, interrupt_callback_t callback);
/* Disable the events and interrupts of all resources that this core set up. */
void triggerable_disable_all(void);
XC_END

#define TRIGGERABLE_SETUP_EVENT_VECTOR(resource, label) xc_event_vector(resource, &&label)
#define TRIGGERABLE_WAIT_EVENT(...) goto *xc_event_label(1)
#define TRIGGERABLE_TAKE_EVENT(...)              \
    do {                                         \
        void *xc_label = xc_event_label(0);      \
        if (xc_label) goto *xc_label;            \
    } while (0)

#endif
