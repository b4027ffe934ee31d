// What stands behind XMOS's ioserver.c here: for each model a core that serves it by an engine of the board.
#include <aisrv_local.h>
#include <ioserver.h>
#include <stdlib.h>
#include <string.h>
#include <xcore/parallel.h>
#include <xud_device.h>

enum { ROOM = 1 << 20, RESET_VARIABLES = 0x180, MOST = 3 };

DECLARE_JOB(ioserver, (chanend_t *, unsigned));
DECLARE_JOB(model, (chanend_t, chanend_t));

// A command that fails halts both endpoints, as hosts of this protocol expect.
static unsigned check(unsigned status) {
    if (status) {
        XUD_SetStallByAddr(0x81);
        XUD_SetStallByAddr(0x01);
    }
    return status;
}

static void send_output(chanend_t server, chanend_t engine, unsigned tensor, uint32_t *data) {
    size_t bytes = 0;
    if (check(aisrv_local_get_output_tensor(engine, tensor, data, ROOM, &bytes))) bytes = 0;
    if (bytes % 4) memset((uint8_t *)data + bytes, 0, 4 - bytes % 4);
    ioserver_tensor_send_output(server, data, (bytes + 3) / 4);
}

static void receive_input(chanend_t server, chanend_t engine, unsigned tensor, uint32_t *data) {
    uint32_t bytes = 0, words = 0;
    unsigned status = check(aisrv_local_get_input_tensor_length(engine, tensor, &bytes));
    while (!chanend_test_control_token_next_byte(server)) {
        uint32_t word = chanend_in_word(server);
        if (words < ROOM / 4) data[words] = word;
        words++;
    }
    chanend_check_end_token(server);
    if (status) return;
    if (words != (bytes + 3) / 4) {
        check(1);
    } else {
        check(aisrv_local_set_input_tensor(engine, tensor, data, bytes));
    }
}

void model(chanend_t server, chanend_t engine) {
    uint32_t *data = malloc(ROOM);
    for (;;) {
        unsigned tensor, command = ioserver_command_receive(server, &tensor);
        switch (command) {
        case IOSERVER_TENSOR_SEND_OUTPUT: send_output(server, engine, tensor, data); break;
        case IOSERVER_TENSOR_RECV_INPUT: receive_input(server, engine, tensor, data); break;
        case IOSERVER_INVOKE:
            check(aisrv_local_start_inference(engine));
            ioserver_command_acknowledge(server, IOSERVER_ACK);
            break;
        case IOSERVER_RESET:
            aisrv_local_set(engine, RESET_VARIABLES, 0, NULL, 0);
            ioserver_command_acknowledge(server, IOSERVER_ACK);
            break;
        case IOSERVER_EXIT: aisrv_local_set(engine, RESET_VARIABLES, 0, NULL, 0); break; // nobody reads an answer
        }
    }
}

void usb_device(chanend_t first, chanend_t second, chanend_t third) {
    const chanend_t engines[MOST] = {first, second, third};
    chanend_t ends[MOST], others[MOST];
    for (int i = 0; i < MODELS; i++) {
        channel_t c = chan_alloc();
        ends[i] = c.end_a;
        others[i] = c.end_b;
    }
#if MODELS == 1
    PAR_JOBS(PJOB(ioserver, (ends, 1)), PJOB(model, (others[0], engines[0])));
#elif MODELS == 2
    PAR_JOBS(PJOB(ioserver, (ends, 2)), PJOB(model, (others[0], engines[0])), PJOB(model, (others[1], engines[1])));
#else
    PAR_JOBS(PJOB(ioserver, (ends, 3)), PJOB(model, (others[0], engines[0])), PJOB(model, (others[1], engines[1])),
             PJOB(model, (others[2], engines[2])));
#endif
}
