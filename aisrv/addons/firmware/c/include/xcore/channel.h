/* Normal channels: each value has a handshake. */
#ifndef AISRV_XCORE_CHANNEL_H
#define AISRV_XCORE_CHANNEL_H

#include <xcore/chanend.h>

typedef struct channel_t {
    chanend_t end_a;
    chanend_t end_b;
} channel_t;

XC_BEGIN
/* Two ends of this tile, each the other's destination; both 0 where there are not two left. */
channel_t chan_alloc(void);
void chan_free(channel_t channel);
void chan_out_word(chanend_t c, uint32_t word);
void chan_out_byte(chanend_t c, uint8_t byte);
void chan_out_buf_word(chanend_t c, const uint32_t words[], size_t count);
void chan_out_buf_byte(chanend_t c, const uint8_t bytes[], size_t count);
uint32_t chan_in_word(chanend_t c);
uint8_t chan_in_byte(chanend_t c);
void chan_in_buf_word(chanend_t c, uint32_t words[], size_t count);
void chan_in_buf_byte(chanend_t c, uint8_t bytes[], size_t count);
XC_END

#endif
