/* Timers, which read the reference clock and raise an event after a trigger time. */
#ifndef AISRV_XCORE_HWTIMER_H
#define AISRV_XCORE_HWTIMER_H

#include <xcore/triggerable.h>

typedef resource_t hwtimer_t;

#define LIBXCORE_HWTIMER_HAS_REFERENCE_TIME

XC_BEGIN
hwtimer_t hwtimer_alloc(void);
void hwtimer_free(hwtimer_t t);
/* Read the timer; where it has a trigger time, wait until that has passed. */
uint32_t hwtimer_get_time(hwtimer_t t);
uint32_t hwtimer_get_trigger_time(hwtimer_t t);
void hwtimer_set_trigger_time(hwtimer_t t, uint32_t time);
void hwtimer_change_trigger_time(hwtimer_t t, uint32_t time);
void hwtimer_clear_trigger_time(hwtimer_t t);
uint32_t hwtimer_wait_until(hwtimer_t t, uint32_t time);
void hwtimer_delay(hwtimer_t t, uint32_t period);
void hwtimer_setup_interrupt_callback(hwtimer_t t, uint32_t time, void *data, interrupt_callback_t callback);
/* XC's own timer of a core: there is none to free here. */
void hwtimer_free_xc_timer(void);
void hwtimer_realloc_xc_timer(void);

/* Waits on a timer of the core's own. */
void delay_ticks(unsigned ticks);
void delay_ticks_longlong(unsigned long long ticks);
void delay_seconds(unsigned seconds);
void delay_milliseconds(unsigned milliseconds);
void delay_microseconds(unsigned microseconds);
XC_END

#endif
