// Waits: until a time, for a time, and in the core's own way.
#include <stdio.h>
#include <xcore/hwtimer.h>

int main(void) {
    hwtimer_t t = hwtimer_alloc();
    uint32_t start = hwtimer_get_time(t);
    printf("%d ", hwtimer_wait_until(t, start + 1000) - start >= 1000);
    hwtimer_delay(t, 500);
    printf("%d ", get_reference_time() - start >= 1500);
    hwtimer_free(t);
    delay_microseconds(20);
    printf("%d\n", get_reference_time() - start >= 3500);
    return 0;
}
