// Threads with stacks of the program's own memory: one that is waited for, one that nobody waits for.
#include <stdio.h>
#include <xcore/channel.h>
#include <xcore/thread.h>

enum { WORDS = 256 };
static uint32_t memory[2][WORDS];

static void square(void *argument) {
    unsigned *value = argument;
    *value *= *value;
}

static void report(void *argument) {
    char text[64];
    snprintf(text, sizeof text, "deep in %d bytes", (int)sizeof text);
    puts(text);
    chan_out_word(*(chanend_t *)argument, 1);
}

int main(void) {
    unsigned value = 12;
    channel_t c = chan_alloc();
    xthread_t thread = xthread_alloc_and_start(square, &value, stack_base(memory[0], WORDS));
    xthread_wait_and_free(thread);
    run_async(report, &c.end_b, stack_base(memory[1], WORDS));
    chan_in_word(c.end_a);
    printf("%u\n", value);
    return 0;
}
