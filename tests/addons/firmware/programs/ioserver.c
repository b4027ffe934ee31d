// The ioserver protocol in C: a core for endpoint 0, one for the two of endpoint 1, and for each model one that serves it by
// an engine of the board. Data cross between them in pieces of a packet's size.
#include <aisrv_local.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xcore/channel.h>
#include <xcore/parallel.h>
#include <xud_device.h>

enum { INVOKE = 1, SEND_OUTPUT = 2, RECEIVE_INPUT = 3, RESET = 7, EXIT = 8 };
enum { COMMAND_BYTES = 3, PACKET = 512, WORDS = PACKET / 4, ROOM = 1 << 20, RESET_VARIABLES = 0x180, MOST = 3, ENDPOINTS = 2 };
enum { DROPPED = 0, WHOLE = 1 }; // what becomes of an input whose words a model has

#define BULK(address) 7, USB_DESCTYPE_ENDPOINT, address, USB_ENDPOINT_TRANSTYPE_BULK, PACKET & 0xFF, PACKET >> 8, 0

static unsigned char device_descriptor[] = {
    18, USB_DESCTYPE_DEVICE, 0x00, 0x02, 0xFF, 0xFF, 0xFF, 64, 0xB1, 0x20, 0x5E, 0xA1, 0x00, 0x01, 1, 2, 0, 1,
};
static unsigned char configuration_descriptor[] = {
    9, USB_DESCTYPE_CONFIGURATION, 32, 0, 1, 1, 0, 0x80, 250,
    9, USB_DESCTYPE_INTERFACE, 0, 0, 2, 0xFF, 0xFF, 0xFF, 0,
    BULK(0x01), BULK(0x81),
};
static char *strings[] = {"\x09\x04", "aisrv", "xAISRV"};

DECLARE_JOB(endpoint_0, (chanend_t, chanend_t));
DECLARE_JOB(endpoint_1, (chanend_t, chanend_t, const chanend_t *, unsigned));
DECLARE_JOB(usb_core, (chanend_t *, chanend_t *));
DECLARE_JOB(model, (chanend_t, chanend_t));

void endpoint_0(chanend_t c_out, chanend_t c_in) {
    XUD_ep out = XUD_InitEp(c_out), in = XUD_InitEp(c_in);
    for (;;) {
        USB_SetupPacket_t setup;
        XUD_Result_t result = USB_GetSetupPacket(out, in, &setup);
        if (result == XUD_RES_OKAY) {
            result = USB_StandardRequests(out, in, device_descriptor, sizeof device_descriptor, configuration_descriptor,
                                          sizeof configuration_descriptor, NULL, 0, NULL, 0, strings, 3, &setup, XUD_SPEED_HS);
        }
        if (result == XUD_RES_RST) XUD_ResetEndpoint(out, &in);
    }
}

// The endpoints of one core and what it has of a packet. Each of its functions ends early where the bus is reset.
typedef struct {
    XUD_ep out, in;
    union {
        unsigned char bytes[PACKET];
        uint32_t words[WORDS];
    } packet;
    unsigned length;
} data_t;

static XUD_Result_t get_packet(data_t *data) { return XUD_GetBuffer(data->out, data->packet.bytes, &data->length); }

static void halt(const data_t *data) {
    XUD_SetStall(data->in);
    XUD_SetStall(data->out);
}

static void send_piece(chanend_t c, const uint32_t *words, unsigned count) {
    chan_out_word(c, count);
    if (count) chan_out_buf_word(c, words, count);
}

static unsigned receive_piece(chanend_t c, uint32_t *words) {
    unsigned count = chan_in_word(c);
    if (count) chan_in_buf_word(c, words, count);
    return count;
}

static unsigned order(chanend_t c, unsigned command, unsigned tensor) {
    chan_out_word(c, command);
    chan_out_word(c, tensor);
    return chan_in_word(c);
}

static XUD_Result_t invoke(data_t *data, chanend_t c) {
    XUD_Result_t result = get_packet(data); // which is dropped
    if (result == XUD_RES_OKAY && order(c, INVOKE, 0)) halt(data);
    return result;
}

static XUD_Result_t send_output(data_t *data, chanend_t c, unsigned tensor) {
    XUD_Result_t result = XUD_RES_OKAY;
    unsigned count;
    if (order(c, SEND_OUTPUT, tensor)) {
        halt(data);
        return result;
    }
    do { // after a reset of the bus, too, so that the model goes on
        count = receive_piece(c, data->packet.words);
        if (result == XUD_RES_OKAY) result = XUD_SetBuffer(data->in, data->packet.bytes, 4 * count);
    } while (count == WORDS);
    return result;
}

static XUD_Result_t receive_input(data_t *data, chanend_t c, unsigned tensor) {
    XUD_Result_t result;
    if (order(c, RECEIVE_INPUT, tensor)) {
        halt(data);
        return XUD_RES_OKAY;
    }
    unsigned wanted = chan_in_word(c), room = (wanted + 3) / 4 * 4, size = 0;
    do {
        memset(data->packet.bytes, 0, PACKET);
        result = get_packet(data);
        if (result != XUD_RES_OKAY) break;
        size += data->length;
        if (size <= room && data->length) send_piece(c, data->packet.words, (data->length + 3) / 4);
    } while (data->length == PACKET && size <= room);
    send_piece(c, NULL, 0);
    int is_whole = result == XUD_RES_OKAY && wanted <= size && size <= room;
    chan_out_word(c, is_whole ? WHOLE : DROPPED);
    if ((chan_in_word(c) || !is_whole) && result == XUD_RES_OKAY) halt(data);
    return result;
}

static XUD_Result_t serve(data_t *data, const chanend_t *models, unsigned count) {
    XUD_Result_t result = get_packet(data);
    if (result != XUD_RES_OKAY || data->length == 0) return result;
    if (data->length != COMMAND_BYTES) {
        printf("a command has %d bytes, not %u\n", COMMAND_BYTES, data->length);
        return result;
    }
    unsigned command = data->packet.bytes[0], number = data->packet.bytes[1], tensor = data->packet.bytes[2];
    if (number >= count) {
        printf("there is no model %u: model 0 it is\n", number);
        number = 0;
    }
    switch (command) {
    case INVOKE: return invoke(data, models[number]);
    case SEND_OUTPUT: return send_output(data, models[number], tensor);
    case RECEIVE_INPUT: return receive_input(data, models[number], tensor);
    case RESET:
        if (order(models[number], RESET, 0)) halt(data);
        return result;
    case EXIT:
        for (unsigned i = 0; i < count; i++) order(models[i], RESET, 0);
        return result;
    default: printf("there is no command %u\n", command); return result;
    }
}

void endpoint_1(chanend_t c_out, chanend_t c_in, const chanend_t *models, unsigned count) {
    data_t data = {.out = XUD_InitEp(c_out), .in = XUD_InitEp(c_in)};
    for (;;) {
        if (serve(&data, models, count) == XUD_RES_RST) XUD_ResetEndpoint(data.out, &data.in);
    }
}

static void give_output(chanend_t c, chanend_t engine, unsigned tensor, uint32_t *words) {
    size_t bytes = 0;
    unsigned status = aisrv_local_get_output_tensor(engine, tensor, words, ROOM, &bytes);
    chan_out_word(c, status);
    if (status) return;
    memset((uint8_t *)words + bytes, 0, (4 - bytes % 4) % 4);
    size_t left = (bytes + 3) / 4;
    for (; left >= WORDS; left -= WORDS, words += WORDS) send_piece(c, words, WORDS);
    send_piece(c, words, left);
}

static void take_input(chanend_t c, chanend_t engine, unsigned tensor, uint32_t *words) {
    uint32_t bytes = 0;
    unsigned status = aisrv_local_get_input_tensor_length(engine, tensor, &bytes), count = 0, more;
    if (bytes > ROOM) status = 1;
    chan_out_word(c, status);
    if (status) return;
    chan_out_word(c, bytes);
    while ((more = receive_piece(c, words + count))) count += more;
    chan_out_word(c, chan_in_word(c) == WHOLE ? aisrv_local_set_input_tensor(engine, tensor, words, bytes) : 0);
}

void model(chanend_t c, chanend_t engine) {
    uint32_t *words = malloc(ROOM);
    for (;;) {
        unsigned command = chan_in_word(c), tensor = chan_in_word(c);
        switch (command) {
        case INVOKE: chan_out_word(c, aisrv_local_start_inference(engine)); break;
        case SEND_OUTPUT: give_output(c, engine, tensor, words); break;
        case RECEIVE_INPUT: take_input(c, engine, tensor, words); break;
        case RESET: chan_out_word(c, aisrv_local_set(engine, RESET_VARIABLES, 0, NULL, 0)); break;
        }
    }
}

void usb_core(chanend_t *c_out, chanend_t *c_in) {
    XUD_EpType types[] = {XUD_EPTYPE_CTL | XUD_STATUS_ENABLE, XUD_EPTYPE_BUL | XUD_STATUS_ENABLE};
    XUD_Main(c_out, ENDPOINTS, c_in, ENDPOINTS, 0, types, types, XUD_SPEED_HS, XUD_PWR_BUS);
}

void usb_device(chanend_t first, chanend_t second, chanend_t third) {
    const chanend_t engines[MOST] = {first, second, third};
    chanend_t models[MOST], servers[MOST], out[ENDPOINTS], c_out[ENDPOINTS], in[ENDPOINTS], c_in[ENDPOINTS];
    for (int i = 0; i < ENDPOINTS; i++) {
        channel_t c = chan_alloc(), d = chan_alloc();
        out[i] = c.end_a, c_out[i] = c.end_b;
        in[i] = d.end_a, c_in[i] = d.end_b;
    }
    for (int i = 0; i < MODELS; i++) {
        channel_t c = chan_alloc();
        models[i] = c.end_a, servers[i] = c.end_b;
    }
#define DEVICE PJOB(endpoint_0, (out[0], in[0])), PJOB(usb_core, (c_out, c_in)), PJOB(endpoint_1, (out[1], in[1], models, MODELS))
#define SERVER(number) PJOB(model, (servers[number], engines[number]))
#if MODELS == 1
    PAR_JOBS(DEVICE, SERVER(0));
#elif MODELS == 2
    PAR_JOBS(DEVICE, SERVER(0), SERVER(1));
#else
    PAR_JOBS(DEVICE, SERVER(0), SERVER(1), SERVER(2));
#endif
}
