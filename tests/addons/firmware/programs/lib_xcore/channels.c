// Words, bytes and arrays on a channel, in both directions.
#include <stdio.h>
#include <xcore/channel.h>
#include <xcore/parallel.h>

DECLARE_JOB(ask, (chanend_t));
DECLARE_JOB(answer, (chanend_t));

void ask(chanend_t c) {
    const uint32_t numbers[] = {3, 5, 7};
    uint8_t letters[4] = {0};
    chan_out_word(c, 3);
    chan_out_buf_word(c, numbers, 3);
    chan_in_buf_byte(c, letters, 3);
    printf("%u %s\n", (unsigned)chan_in_byte(c), (const char *)letters);
}

void answer(chanend_t c) {
    uint32_t numbers[8];
    unsigned count = chan_in_word(c), sum = 0;
    chan_in_buf_word(c, numbers, count);
    for (unsigned i = 0; i < count; i++) sum += numbers[i];
    chan_out_buf_byte(c, (const uint8_t *)"sum", 3);
    chan_out_byte(c, (uint8_t)sum);
}

int main(void) {
    channel_t c = chan_alloc();
    PAR_JOBS(PJOB(ask, (c.end_a)), PJOB(answer, (c.end_b)));
    chan_free(c);
    return 0;
}
