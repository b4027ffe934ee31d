/* An engine as its local clients use it, under the names of `phy/local.py`.
 *
 * `c` is a channel end that the board joins to an engine. Each function returns when the engine has answered, with its
 * status: 0 for OKAY. One core at a time may use an end. */
#ifndef AISRV_LOCAL_H
#define AISRV_LOCAL_H

#include <xcore/chanend.h>

XC_BEGIN
/* Any command by its code. A GET copies up to `room` bytes of the answer, and says in `got` how many there were;
 * `got` may be NULL. */
unsigned aisrv_local_set(chanend_t c, unsigned command, unsigned tensor, const void *data, size_t bytes);
unsigned aisrv_local_get(chanend_t c, unsigned command, unsigned tensor, void *data, size_t room, size_t *got);

/* Models. */
unsigned aisrv_local_load_model(chanend_t c, const void *model, size_t bytes);
unsigned aisrv_local_load_model_from_flash(chanend_t c);

/* Tensors. */
unsigned aisrv_local_set_input_tensor(chanend_t c, unsigned tensor, const void *data, size_t bytes);
unsigned aisrv_local_get_input_tensor(chanend_t c, unsigned tensor, void *data, size_t room, size_t *got);
unsigned aisrv_local_get_output_tensor(chanend_t c, unsigned tensor, void *data, size_t room, size_t *got);
unsigned aisrv_local_get_input_tensor_length(chanend_t c, unsigned tensor, uint32_t *bytes);
unsigned aisrv_local_get_output_tensor_length(chanend_t c, unsigned tensor, uint32_t *bytes);

unsigned aisrv_local_start_inference(chanend_t c);
/* The error bits of all clients' commands since they were last read. */
unsigned aisrv_local_get_status(chanend_t c, uint32_t *errors);
/* The sensor's next frame, at the size of the input tensor. */
unsigned aisrv_local_acquire_frame(chanend_t c);
XC_END

#endif
