// Ports: what an inverted pin shows, a condition that holds, and one that a timer comes before.
#include <stdio.h>
#include <xcore/hwtimer.h>
#include <xcore/port.h>
#include <xcore/select.h>

int main(void) {
    port_t out = XS1_PORT_1B, in = XS1_PORT_1A;
    port_enable(out);
    port_enable(in);
    port_out(out, 1);
    port_sync(out);
    printf("%u ", (unsigned)port_peek(out));
    printf("%u ", (unsigned)port_peek(in));
    port_set_invert(in);
    printf("%u\n", (unsigned)port_peek(in));
    port_set_no_invert(in);

    hwtimer_t t = hwtimer_alloc();
    printf("%u\n", (unsigned)port_in_when_pinseq(in, PORT_UNBUFFERED, 0));
    port_set_trigger_in_not_equal(in, 0);
    hwtimer_set_trigger_time(t, get_reference_time() + 100);
    SELECT_RES(CASE_THEN(in, on_pin), CASE_THEN(t, on_time)) {
    on_pin:
        puts("a pin");
        break;
    on_time:
        hwtimer_get_time(t);
        puts("no pin");
        break;
    }
    port_clear_trigger_in(in);
    hwtimer_free(t);
    port_disable(in);
    port_disable(out);
    return 0;
}
