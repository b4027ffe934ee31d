// A lock between cores: each adds in two steps, and none is lost.
#include <stdio.h>
#include <xcore/hwtimer.h>
#include <xcore/lock.h>
#include <xcore/parallel.h>

static volatile unsigned total;

DECLARE_JOB(add, (lock_t, unsigned));
void add(lock_t l, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        lock_acquire(l);
        unsigned before = total;
        delay_ticks(1);
        total = before + 1;
        lock_release(l);
    }
}

int main(void) {
    lock_t l = lock_alloc();
    PAR_JOBS(PJOB(add, (l, 20)), PJOB(add, (l, 30)), PJOB(add, (l, 50)));
    lock_free(l);
    printf("%u\n", total);
    return 0;
}
