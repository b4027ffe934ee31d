/* Streaming channels: outputs and inputs over a route that stays open. */
#ifndef AISRV_XCORE_CHANNEL_STREAMING_H
#define AISRV_XCORE_CHANNEL_STREAMING_H

#include <xcore/chanend.h>

typedef struct streaming_channel_t {
    chanend_t end_a;
    chanend_t end_b;
} streaming_channel_t;

XC_BEGIN
streaming_channel_t s_chan_alloc(void);
/* Close the routes of both directions, and free the ends. */
void s_chan_free(streaming_channel_t channel);
void s_chan_out_word(chanend_t c, uint32_t word);
void s_chan_out_byte(chanend_t c, uint8_t byte);
void s_chan_out_buf_word(chanend_t c, const uint32_t words[], size_t count);
void s_chan_out_buf_byte(chanend_t c, const uint8_t bytes[], size_t count);
uint32_t s_chan_in_word(chanend_t c);
uint8_t s_chan_in_byte(chanend_t c);
void s_chan_in_buf_word(chanend_t c, uint32_t words[], size_t count);
void s_chan_in_buf_byte(chanend_t c, uint8_t bytes[], size_t count);
void s_chan_out_ct(chanend_t c, uint8_t token);
void s_chan_out_ct_end(chanend_t c);
uint8_t s_chan_in_ct(chanend_t c);
void s_chan_check_ct(chanend_t c, uint8_t token);
void s_chan_check_ct_end(chanend_t c);
XC_END

#endif
