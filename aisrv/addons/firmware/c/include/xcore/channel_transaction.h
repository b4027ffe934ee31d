/* Transactions: one handshake around many values in both directions. */
#ifndef AISRV_XCORE_CHANNEL_TRANSACTION_H
#define AISRV_XCORE_CHANNEL_TRANSACTION_H

#include <xcore/chanend.h>

typedef struct transacting_chanend_t {
    chanend_t end;
    unsigned last_out; /* whether this side sent last */
} transacting_chanend_t;

XC_BEGIN
transacting_chanend_t chan_init_transaction_master(chanend_t c);
transacting_chanend_t chan_init_transaction_slave(chanend_t c);
chanend_t chan_complete_transaction(transacting_chanend_t tc);
void t_chan_out_word(transacting_chanend_t *tc, uint32_t word);
void t_chan_out_byte(transacting_chanend_t *tc, uint8_t byte);
void t_chan_out_buf_word(transacting_chanend_t *tc, const uint32_t words[], size_t count);
void t_chan_out_buf_byte(transacting_chanend_t *tc, const uint8_t bytes[], size_t count);
uint32_t t_chan_in_word(transacting_chanend_t *tc);
uint8_t t_chan_in_byte(transacting_chanend_t *tc);
void t_chan_in_buf_word(transacting_chanend_t *tc, uint32_t words[], size_t count);
void t_chan_in_buf_byte(transacting_chanend_t *tc, uint8_t bytes[], size_t count);
XC_END

#endif
