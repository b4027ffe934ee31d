// Assertions that hold, and one of a time that has passed.
#include <stdio.h>
#include <xcore/assert.h>
#include <xcore/hwtimer.h>

int main(void) {
    uint32_t start = get_reference_time();
    xassert(start + 1 != start);
    xassert_not(start + 1 == start);
    xassert_not_after(start + 1000000);
    puts("all held");
    delay_ticks(10);
    xassert_not_after(start);
    return 0;
}
