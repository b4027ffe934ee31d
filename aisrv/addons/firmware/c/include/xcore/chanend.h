/* Channel ends: the instructions of one end. */
#ifndef AISRV_XCORE_CHANEND_H
#define AISRV_XCORE_CHANEND_H

#include <xcore/triggerable.h>

typedef resource_t chanend_t;

XC_BEGIN
/* Take the lowest free end of the tile; 0 where it has none left. */
chanend_t chanend_alloc(void);
void chanend_free(chanend_t c);
void chanend_set_dest(chanend_t c, chanend_t destination);
chanend_t chanend_get_dest(chanend_t c);
void chanend_out_byte(chanend_t c, char byte);
void chanend_out_word(chanend_t c, uint32_t word);
void chanend_out_control_token(chanend_t c, char token);
char chanend_in_byte(chanend_t c);
uint32_t chanend_in_word(chanend_t c);
char chanend_in_control_token(chanend_t c);
/* Take the control token that must come next; anything else traps. */
void chanend_check_control_token(chanend_t c, char token);
/* Wait for a token, and say whether it is a control token. */
int chanend_test_control_token_next_byte(chanend_t c);
/* The place of a control token among the next four, from 1; 0 where they are data. */
int chanend_test_control_token_next_word(chanend_t c);
/* Whether the destination is on this tile. */
int chanend_test_dest_local(chanend_t c);
void chanend_out_end_token(chanend_t c);
void chanend_check_end_token(chanend_t c);
void chanend_setup_interrupt_callback(chanend_t c, void *data, interrupt_callback_t callback);
XC_END

XC_MISSING(chanend_set_network, "there is one network here")
XC_MISSING(chanend_get_network, "there is one network here")

#endif
