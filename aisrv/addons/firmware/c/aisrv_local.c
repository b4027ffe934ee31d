/* Commands on a channel to an engine; the order on the wire is that of `aisrv/protocol/engine_channel.py`. */
#include <aisrv_local.h>
#include <string.h>
#include <xcore/channel.h>
#include <xcore/channel_streaming.h>

#include "runtime.h"

enum { PIECE = 32768, TOKEN = 0x80000000 };

static void send_array(chanend_t c, const uint8_t *data, size_t bytes) {
    size_t whole = bytes & ~(size_t)3;
    for (size_t done = 0; done < whole; done += PIECE) {
        size_t piece = whole - done < PIECE ? whole - done : PIECE;
        runtime_verb_with(VERB_OUTWORDS, c, 0, data + done, piece, NULL, 0);
    }
    chanend_out_end_token(c);
    if (bytes > whole) s_chan_out_buf_byte(c, data + whole, bytes - whole);
    chanend_out_end_token(c);
}

/* Take data up to a control token; words are turned from the order of the wire. */
static size_t receive_part(chanend_t c, uint8_t *data, size_t room, int words) {
    uint8_t piece[4096];
    size_t length = 0;
    for (;;) {
        uint32_t got = runtime_verb_with(VERB_IN_UNTIL_CONTROL, c, 0, NULL, 0, piece, sizeof piece);
        if (got & (uint32_t)TOKEN) return length;
        for (uint32_t i = 0; i < got; i++, length++) {
            size_t place = words ? (length & ~(size_t)3) + (3 - (length & 3)) : length;
            if (place < room) data[place] = piece[i];
        }
    }
}

unsigned aisrv_local_set(chanend_t c, unsigned command, unsigned tensor, const void *data, size_t bytes) {
    chan_out_word(c, command);
    chan_out_word(c, tensor);
    send_array(c, data, bytes);
    unsigned status = chanend_in_word(c);
    chanend_check_end_token(c);
    return status;
}

unsigned aisrv_local_get(chanend_t c, unsigned command, unsigned tensor, void *data, size_t room, size_t *got) {
    chan_out_word(c, command);
    chan_out_word(c, tensor);
    unsigned status = chan_in_word(c);
    size_t length = 0;
    if (!status) {
        length = receive_part(c, data, room, 1);
        uint8_t tail[4];
        size_t rest = receive_part(c, tail, sizeof tail, 0);
        for (size_t i = 0; i < rest && length + i < room; i++) ((uint8_t *)data)[length + i] = tail[i];
        length += rest;
    }
    if (got) *got = length;
    return status;
}

static unsigned get_word(chanend_t c, unsigned command, unsigned tensor, uint32_t *word) {
    *word = 0;
    return aisrv_local_get(c, command, tensor, word, sizeof *word, NULL);
}

unsigned aisrv_local_load_model(chanend_t c, const void *model, size_t bytes) {
    return aisrv_local_set(c, COMMAND_SET_MODEL_ARENA, 0, model, bytes);
}
unsigned aisrv_local_load_model_from_flash(chanend_t c) {
    return aisrv_local_set(c, COMMAND_SET_MODEL_ARENA_FLASH, 0, NULL, 0);
}
unsigned aisrv_local_set_input_tensor(chanend_t c, unsigned tensor, const void *data, size_t bytes) {
    return aisrv_local_set(c, COMMAND_SET_INPUT_TENSOR, tensor, data, bytes);
}
unsigned aisrv_local_get_input_tensor(chanend_t c, unsigned tensor, void *data, size_t room, size_t *got) {
    return aisrv_local_get(c, COMMAND_GET_INPUT_TENSOR, tensor, data, room, got);
}
unsigned aisrv_local_get_output_tensor(chanend_t c, unsigned tensor, void *data, size_t room, size_t *got) {
    return aisrv_local_get(c, COMMAND_GET_OUTPUT_TENSOR, tensor, data, room, got);
}
unsigned aisrv_local_get_input_tensor_length(chanend_t c, unsigned tensor, uint32_t *bytes) {
    return get_word(c, COMMAND_GET_INPUT_TENSOR_LENGTH, tensor, bytes);
}
unsigned aisrv_local_get_output_tensor_length(chanend_t c, unsigned tensor, uint32_t *bytes) {
    return get_word(c, COMMAND_GET_OUTPUT_TENSOR_LENGTH, tensor, bytes);
}
unsigned aisrv_local_start_inference(chanend_t c) { return aisrv_local_set(c, COMMAND_START_INFER, 0, NULL, 0); }
unsigned aisrv_local_get_status(chanend_t c, uint32_t *errors) { return get_word(c, COMMAND_GET_STATUS, 0, errors); }
unsigned aisrv_local_acquire_frame(chanend_t c) {
    return aisrv_local_set(c, COMMAND_START_ACQUIRE_SINGLE, 0, NULL, 0);
}
