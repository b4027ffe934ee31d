// A select written out: a label for each resource, and a wait for those that are enabled.
#include <stdio.h>
#include <xcore/channel_streaming.h>
#include <xcore/hwtimer.h>
#include <xcore/parallel.h>
#include <xcore/triggerable.h>

DECLARE_JOB(wait_for_both, (chanend_t));
DECLARE_JOB(send, (chanend_t));

void wait_for_both(chanend_t c) {
    hwtimer_t t = hwtimer_alloc();
    TRIGGERABLE_SETUP_EVENT_VECTOR(c, on_word);
    TRIGGERABLE_SETUP_EVENT_VECTOR(t, on_time);
    hwtimer_set_trigger_time(t, get_reference_time() + 200);
    triggerable_set_trigger_enabled(c, 1);
    triggerable_enable_trigger(t);
    TRIGGERABLE_TAKE_EVENT();
    puts("nothing yet");
    TRIGGERABLE_WAIT_EVENT();
on_word:
    printf("word %u\n", (unsigned)s_chan_in_word(c));
    triggerable_disable_trigger(c);
    TRIGGERABLE_WAIT_EVENT();
on_time:
    hwtimer_get_time(t);
    puts("time");
    triggerable_disable_all();
    hwtimer_free(t);
}

void send(chanend_t c) {
    delay_ticks(100);
    s_chan_out_word(c, 42);
}

int main(void) {
    streaming_channel_t c = s_chan_alloc();
    PAR_JOBS(PJOB(wait_for_both, (c.end_a)), PJOB(send, (c.end_b)));
    return 0;
}
