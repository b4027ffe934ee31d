#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
#include <assert.h>
#include <xcore/channel.h>
#include <xcore/parallel.h>
#include <xcore/assert.h>
static int deep(int n) { volatile char big[500]; big[0] = n; return deep(n + 1) + big[0]; }
void bad(int how) {
    volatile int zero = 0;
    if (how == 0) *(volatile int *)0 = 1;
    if (how == 1) printf("%d\n", deep(0));
    if (how == 2) { char *volatile p = malloc(10); free(p); free(p); }
    if (how == 3) xassert(how == 4);
    if (how == 4) assert(how == 5);
    if (how == 5) for (;;) {}
    if (how == 6) fork();
    if (how == 7) exit(3);
    if (how == 8) printf("%d\n", 1 / zero);
    if (how == 9) chan_out_word(0x80000302, 5);
    if (how == 10) system("true");
    if (how == 11) abort();
    if (how == 12) { chanend_t c = chanend_alloc(); chan_out_word(c, 5); }
    if (how == 13) kill(getpid(), 9);
}
DECLARE_JOB(other, (chanend_t));
void other(chanend_t c) { for (int i = 0; i < 50; i++) chan_out_word(c, i); }
DECLARE_JOB(sink, (chanend_t));
void sink(chanend_t c) { unsigned sum = 0; for (int i = 0; i < 50; i++) sum += chan_in_word(c); printf("sum %u\n", sum); fflush(stdout);}
int main(void) {
    channel_t c = chan_alloc();
    PAR_JOBS(PJOB(bad, (HOW)), PJOB(other, (c.end_a)), PJOB(sink, (c.end_b)));
    return 0;
}
