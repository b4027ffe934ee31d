/* Depthwise convolutions, pools, ADD, SUB and MUL of float32 over the lanes of a target: included once for each, after its
   lanes. */

/* Enough sums at once that none waits for the one before it. */
#define DEPTHWISE_PIXELS (8 / NAME(REGISTERS))

INLINE void NAME(depthwise_pixels)(const struct float32_depthwise *step, int64_t block, int64_t first_pixel,
                                   const int pixels) {
    const float *weights = step->weights + block * step->tap_count * LANES, *windows[DEPTHWISE_PIXELS];
    NAME(words) sums[DEPTHWISE_PIXELS * NAME(REGISTERS)];
    UNROLL for (int p = 0; p < pixels; p++) {
        windows[p] = (const float *)step->input + step->pixels[first_pixel + p] + block * LANES;
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
            sums[p * NAME(REGISTERS) + r] = NAME(repeat)(0);
    }
    for (int64_t tap = 0; tap < step->tap_count; tap++, weights += LANES) {
        const int64_t at = step->taps[tap];
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++) {
            const NAME(words) weight = NAME(load)(weights + r * WIDTH);
            UNROLL for (int p = 0; p < pixels; p++) {
                NAME(words) *sum = sums + p * NAME(REGISTERS) + r;
                *sum = NAME(dot)(*sum, NAME(load)(windows[p] + at + r * WIDTH), weight, 0, 0);
            }
        }
    }
    float *output = step->output + first_pixel * step->channels + block * LANES;
    UNROLL for (int p = 0; p < pixels; p++) {
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
            sums[p * NAME(REGISTERS) + r] += NAME(load)(step->bias + block * LANES + r * WIDTH);
        NAME(put)(output + p * step->channels, NAME(narrow)(sums + p * NAME(REGISTERS)), step->low, step->high,
                  step->channels - block * LANES);
    }
}

static void NAME(run_depthwise)(const void *arguments, const struct share *share) {
    const struct float32_depthwise *step = arguments;
    const int64_t begin = first_of(share, step->pixel_count), end = end_of(share, step->pixel_count);
    for (int64_t block = 0; block * LANES < step->channels; block++) {
        int64_t pixel = begin;
        for (; pixel + DEPTHWISE_PIXELS <= end; pixel += DEPTHWISE_PIXELS)
            NAME(depthwise_pixels)(step, block, pixel, DEPTHWISE_PIXELS);
        for (; pixel < end; pixel++) NAME(depthwise_pixels)(step, block, pixel, 1);
    }
}

#undef DEPTHWISE_PIXELS

/* Some blocks of one output, each at most of `count` channels: window by window, row by row. */
INLINE void NAME(pool_blocks)(const struct pool *step, const float *row, int64_t rows, int64_t columns, float *output,
                              int64_t count, const int blocks, const int is_mean) {
    const float lowest = -FLT_MAX, taps = (float)(rows * columns);
    NAME(narrowed) results[2];
    UNROLL for (int b = 0; b < blocks; b++)
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++) results[b].val[r] = NAME(repeat)(is_mean ? 0 : lowest);
    for (int64_t y = 0; y < rows; y++, row += step->width * step->channels) {
        const float *pixel = row;
        for (int64_t x = 0; x < columns; x++, pixel += step->channels)
            UNROLL for (int b = 0; b < blocks; b++) {
                const NAME(narrowed) values = NAME(some)(pixel + b * LANES, count);
                UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
                    results[b].val[r] = is_mean ? results[b].val[r] + values.val[r]
                                                : NAME(greater)(values.val[r], results[b].val[r]);
            }
    }
    UNROLL for (int b = 0; b < blocks; b++) {
        if (is_mean)
            UNROLL for (int r = 0; r < NAME(REGISTERS); r++) results[b].val[r] /= NAME(repeat)(taps);
        NAME(put)(output + b * LANES, results[b], step->low, step->high, count);
    }
}

INLINE void NAME(run_pool)(const struct pool *step, const struct share *share, const int is_mean) {
    const int64_t channels = step->channels, rows = step->batches * step->out_height;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int64_t top = row % step->out_height * step->stride_h - step->top;
        const int64_t y0 = larger(top, 0), y1 = smaller(top + step->filter_h, step->height);
        const float *line = (const float *)step->input + (row / step->out_height * step->height + y0) * step->width * channels;
        float *output = (float *)step->output + row * step->out_width * channels;
        for (int64_t column = 0; column < step->out_width; column++, output += channels) {
            const int64_t left = column * step->stride_w - step->left;
            const int64_t x0 = larger(left, 0), x1 = smaller(left + step->filter_w, step->width);
            const float *first = line + x0 * channels;
            int64_t channel = 0;
            for (; channel + 2 * LANES <= channels; channel += 2 * LANES)
                NAME(pool_blocks)(step, first + channel, y1 - y0, x1 - x0, output + channel, LANES, 2, is_mean);
            for (; channel + LANES <= channels; channel += LANES)
                NAME(pool_blocks)(step, first + channel, y1 - y0, x1 - x0, output + channel, LANES, 1, is_mean);
            if (channel < channels)
                NAME(pool_blocks)(step, first + channel, y1 - y0, x1 - x0, output + channel, channels - channel, 1, is_mean);
        }
    }
}

static void NAME(run_average_pool)(const void *arguments, const struct share *share) {
    NAME(run_pool)(arguments, share, 1);
}
static void NAME(run_max_pool)(const void *arguments, const struct share *share) {
    NAME(run_pool)(arguments, share, 0);
}

INLINE NAME(words) NAME(pair)(NAME(words) one, NAME(words) two, const enum pair_result result) {
    return result == ADDED ? one + two : result == SUBTRACTED ? one - two : one * two;
}

INLINE void NAME(pair_block)(const struct float32_pairs *step, const float *first, const float *second, float *output,
                             int64_t count, const enum pair_result result) {
    NAME(narrowed) one = NAME(some)(first, count), two = NAME(some)(second, count);
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++) one.val[r] = NAME(pair)(one.val[r], two.val[r], result);
    NAME(put)(output, one, step->low, step->high, count);
}

/* A shorter input repeats: stretches in which neither begins anew. */
INLINE void NAME(run_pairs)(const struct float32_pairs *step, const struct share *share, const enum pair_result result) {
    const int64_t end = end_of(share, step->count);
    for (int64_t i = first_of(share, step->count); i < end;) {
        const int64_t a = i % step->first_count, b = i % step->second_count;
        const int64_t stop = smaller(end, i + smaller(step->first_count - a, step->second_count - b));
        const float *first = step->first + a - i, *second = step->second + b - i;
        for (; i + LANES <= stop; i += LANES)
            NAME(pair_block)(step, first + i, second + i, step->output + i, LANES, result);
        if (i < stop) NAME(pair_block)(step, first + i, second + i, step->output + i, stop - i, result);
        i = stop;
    }
}

static void NAME(run_addition)(const void *arguments, const struct share *share) {
    NAME(run_pairs)(arguments, share, ADDED);
}
static void NAME(run_subtraction)(const void *arguments, const struct share *share) {
    NAME(run_pairs)(arguments, share, SUBTRACTED);
}
static void NAME(run_multiplication)(const void *arguments, const struct share *share) {
    NAME(run_pairs)(arguments, share, MULTIPLIED);
}
