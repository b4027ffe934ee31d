// Interrupts: words come in to a callback while the core computes; the core ends when it has had them all.
#include <stdio.h>
#include <xcore/channel_streaming.h>
#include <xcore/hwtimer.h>
#include <xcore/interrupt.h>
#include <xcore/interrupt_wrappers.h>
#include <xcore/parallel.h>
#include <xcore/triggerable.h>

typedef struct {
    chanend_t end;
    volatile unsigned count, sum;
} inbox_t;

DECLARE_INTERRUPT_CALLBACK(on_word, data);
DEFINE_INTERRUPT_CALLBACK(inbox, on_word, data) {
    inbox_t *inbox = data;
    inbox->sum += s_chan_in_word(inbox->end);
    inbox->count++;
}

DECLARE_INTERRUPT_PERMITTED(void, compute, chanend_t);
DEFINE_INTERRUPT_PERMITTED(inbox, void, compute, chanend_t c) {
    inbox_t inbox = {c, 0, 0};
    triggerable_setup_interrupt_callback(c, &inbox, INTERRUPT_CALLBACK(on_word));
    triggerable_enable_trigger(c);
    interrupt_unmask_all();
    while (inbox.count < 4) delay_ticks(100);
    interrupt_mask_all();
    triggerable_disable_all();
    printf("%u words, %u together\n", inbox.count, inbox.sum);
}

void send(chanend_t c) {
    for (unsigned i = 1; i <= 4; i++) {
        s_chan_out_word(c, i * i);
        delay_ticks(50);
    }
}

DECLARE_JOB(INTERRUPT_PERMITTED(compute), (chanend_t));
DECLARE_JOB(send, (chanend_t));

int main(void) {
    streaming_channel_t c = s_chan_alloc();
    PAR_JOBS(PJOB(INTERRUPT_PERMITTED(compute), (c.end_a)), PJOB(send, (c.end_b)));
    s_chan_free(c);
    return 0;
}
