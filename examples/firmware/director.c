/* The director of examples/director.py, as a task in C: it finds the places of a strip with ink, and has an engine read
 * the digit in each. The board, director.toml, gives it a camera in Python and two engines whose models are loaded. */
#include <aisrv_local.h>
#include <stdio.h>
#include <xcore/assert.h>
#include <xcore/channel.h>

enum { SIDE = 8, PLACES = 4, WIDTH = PLACES * SIDE, CLASSES = 10 };

/* Mean pixel, of 0 to 16, from which a place is worth reading; int8 tensors hold 15 times a pixel, less 128. */
enum { ENOUGH = 1, PAPER = -128, STEP = 15 };

static void cut_out(const int8_t *strip, int place, int8_t *image) {
    for (int row = 0; row < SIDE; row++) {
        for (int column = 0; column < SIDE; column++) {
            image[row * SIDE + column] = strip[row * WIDTH + place * SIDE + column];
        }
    }
}

static void detect(chanend_t detector, const int8_t *strip, int8_t *ink) {
    xassert(aisrv_local_set_input_tensor(detector, 0, strip, SIDE * WIDTH) == 0);
    xassert(aisrv_local_start_inference(detector) == 0);
    xassert(aisrv_local_get_output_tensor(detector, 0, ink, PLACES, NULL) == 0);
}

static int read_digit(chanend_t reader, const int8_t *image) {
    int8_t scores[CLASSES];
    int best = 0;
    xassert(aisrv_local_set_input_tensor(reader, 0, image, SIDE * SIDE) == 0);
    xassert(aisrv_local_start_inference(reader) == 0);
    xassert(aisrv_local_get_output_tensor(reader, 0, scores, CLASSES, NULL) == 0);
    for (int digit = 1; digit < CLASSES; digit++) {
        if (scores[digit] > scores[best]) best = digit;
    }
    return best;
}

void director(chanend_t strips, chanend_t detector, chanend_t reader) {
    unsigned count = chan_in_word(strips);
    while (count--) {
        int8_t strip[SIDE * WIDTH], image[SIDE * SIDE], ink[PLACES];
        char text[PLACES + 1] = "    ";
        chan_in_buf_byte(strips, (uint8_t *)strip, sizeof strip);
        detect(detector, strip, ink);
        for (int place = 0; place < PLACES; place++) {
            if (ink[place] - PAPER < ENOUGH * STEP) continue;
            cut_out(strip, place, image);
            text[place] = (char)('0' + read_digit(reader, image));
        }
        printf("director: '%s'\n", text);
        fflush(stdout);
    }
}
