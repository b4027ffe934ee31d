// Memory of a tile, which another tile reads: what is whole blocks four cores send together, the rest one.
#include <xcore/chanend.h>
#include <xcore/channel.h>
#include <xcore/parallel.h>

enum { READ = 0, QUIT = 4, OKAY = 1, BLOCK_WORDS = 24, MORE_CORES = 3 };

void transmit_tx(chanend_t c, int number, int count, uint32_t *data);
DECLARE_JOB(transmit_tx, (chanend_t, int, int, uint32_t *));

static uint32_t memory[16384];

static void send(chanend_t c, uint32_t *data, unsigned words) {
    chanend_t ends[MORE_CORES];
    int blocks = (int)(words / BLOCK_WORDS);
    for (int i = 0; i < MORE_CORES; i++) {
        ends[i] = chanend_alloc();
        chanend_set_dest(ends[i], chan_in_word(c));
        chan_out_word(c, ends[i]);
    }
    PAR_JOBS(PJOB(transmit_tx, (ends[0], 0, blocks, data)), PJOB(transmit_tx, (ends[1], 1, blocks, data)),
             PJOB(transmit_tx, (ends[2], 2, blocks, data)), PJOB(transmit_tx, (c, 3, blocks, data)));
    for (int i = 0; i < MORE_CORES; i++) {
        chanend_out_end_token(ends[i]);
        chanend_check_end_token(ends[i]);
        chanend_free(ends[i]);
    }
    chan_out_buf_word(c, data + blocks * BLOCK_WORDS, words % BLOCK_WORDS);
}

void serves(chanend_t c, unsigned seed) {
    for (unsigned i = 0; i < 16384; i++) memory[i] = (seed + i) * 2654435761u;
    while (chan_in_word(c) == READ) {
        chan_out_word(c, OKAY);
        unsigned place = chan_in_word(c), bytes = chan_in_word(c);
        send(c, &memory[place / 4], bytes / 4);
    }
}
