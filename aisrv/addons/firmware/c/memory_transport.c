/* `transmit_tx` and `receive_rx` of lib_tflite_micro, which are assembly of the XS3 there: one of four cores that move a
 * block of memory together. Of each 24 words core k moves six, from 6k; before them it moves a word without a meaning,
 * after them another one, then END. A program's own functions of these names come before. */
#include <xcore/chanend.h>
#include <xcore/channel_streaming.h>

enum { WORDS = 6, CORES = 4 };
typedef struct {
    int count; /* blocks of 24 words */
    uint32_t *data;
} destination_t;

__attribute__((weak)) void transmit_tx(chanend_t c, int number, int count, uint32_t *data) {
    chanend_out_word(c, (uint32_t)(uintptr_t)data);
    for (int block = 0; block < count; block++) {
        s_chan_out_buf_word(c, &data[(block * CORES + number) * WORDS], WORDS);
    }
    chanend_out_word(c, (uint32_t)(uintptr_t)data);
    chanend_out_end_token(c);
}
__attribute__((weak)) void receive_rx(destination_t *destination, chanend_t c, int number) {
    chanend_in_word(c);
    for (int block = 0; block < destination->count; block++) {
        s_chan_in_buf_word(c, &destination->data[(block * CORES + number) * WORDS], WORDS);
    }
    chanend_in_word(c);
    chanend_check_end_token(c);
}
