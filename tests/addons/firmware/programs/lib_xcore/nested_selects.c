// A select within a case of another one; the first waits for words again when the second has had its reply.
#include <stdio.h>
#include <xcore/channel_streaming.h>
#include <xcore/hwtimer.h>
#include <xcore/parallel.h>
#include <xcore/select.h>

DECLARE_JOB(serve, (chanend_t, chanend_t));
DECLARE_JOB(ask, (chanend_t));
DECLARE_JOB(reply, (chanend_t));

static unsigned reply_within(chanend_t c, hwtimer_t t, unsigned ticks) {
    unsigned found = 0;
    hwtimer_set_trigger_time(t, get_reference_time() + ticks);
    SELECT_RES(CASE_THEN(c, on_reply), CASE_THEN(t, on_time)) {
    on_reply:
        found = s_chan_in_word(c);
        break;
    on_time:
        hwtimer_get_time(t);
        break;
    }
    hwtimer_clear_trigger_time(t);
    return found;
}

void serve(chanend_t questions, chanend_t replies) {
    hwtimer_t t = hwtimer_alloc();
    unsigned asked = 0;
    SELECT_RES(CASE_GUARD_THEN(questions, asked < 3, on_question), DEFAULT_NGUARD_THEN(asked < 3, at_end)) {
    on_question:
        printf("%u: ", (unsigned)s_chan_in_word(questions));
        printf("%u\n", reply_within(replies, t, 500));
        asked++;
        SELECT_CONTINUE_RESET;
    at_end:
        break;
    }
    hwtimer_free(t);
}

void ask(chanend_t c) {
    for (unsigned i = 1; i <= 3; i++) s_chan_out_word(c, i);
}

void reply(chanend_t c) {
    s_chan_out_word(c, 11);
    s_chan_out_word(c, 22);
}

int main(void) {
    streaming_channel_t c = s_chan_alloc(), d = s_chan_alloc();
    PAR_JOBS(PJOB(serve, (c.end_a, d.end_a)), PJOB(ask, (c.end_b)), PJOB(reply, (d.end_b)));
    return 0;
}
