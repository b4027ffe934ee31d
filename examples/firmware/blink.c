// A lamp that blinks, faster each time that a button is pressed; after three presses it stays dark.
//
//     aisrv firmware run examples/firmware/blink.c --pins blink_pins:button --pins blink_pins:lamp
#include <stdio.h>
#include <xcore/hwtimer.h>
#include <xcore/port.h>
#include <xcore/select.h>

#define MILLISECOND 100000 // ticks of the reference clock

int main(void) {
    const port_t lamp = XS1_PORT_1A, button = XS1_PORT_1B; // the button pulls its pin to 0
    const hwtimer_t timer = hwtimer_alloc();
    uint32_t next = get_reference_time(), period = 80 * MILLISECOND;
    unsigned lit = 0, presses = 0;

    port_enable(lamp);
    port_enable(button);
    port_set_trigger_in_equal(button, 0);
    hwtimer_set_trigger_time(timer, next);
    SELECT_RES(CASE_THEN(timer, on_time), CASE_THEN(button, on_button)) {
    on_time:
        hwtimer_get_time(timer);
        port_out(lamp, lit ^= 1);
        hwtimer_set_trigger_time(timer, next += period);
        continue;
    on_button:
        if (port_in(button) == 1) { // let go
            port_set_trigger_in_equal(button, 0);
            continue;
        }
        port_set_trigger_in_equal(button, 1);
        period /= 2;
        printf("press %u: every %u ms\n", ++presses, (unsigned)(period / MILLISECOND));
        if (presses < 3) continue;
        break;
    }
    port_out(lamp, 0);
    port_sync(lamp);
    hwtimer_free(timer);
    return 0;
}
