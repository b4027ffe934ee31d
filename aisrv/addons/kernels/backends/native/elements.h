/* Depthwise convolutions, ADD and pools over the lanes of a target: included once for each, after its lanes. */

INLINE void NAME(depthwise_pixels)(const struct depthwise *step, int64_t block, int64_t first_pixel, const int pixels,
                                   const int plain, const int extreme) {
    enum { WORDS = LANES / NAME(REGISTERS) };
    const int32_t *rescaling = step->rescaling + block * RESCALING;
    const int8_t *weights = (const int8_t *)step->weights + block * step->tap_groups * NAME(TAP_BYTES);
    const NAME(tap) *windows[NAME(DEPTHWISE_PIXELS)];
    NAME(words) sums[NAME(DEPTHWISE_PIXELS)][NAME(REGISTERS)];
    UNROLL for (int p = 0; p < pixels; p++) {
        windows[p] = (const NAME(tap) *)step->input + step->pixels[first_pixel + p] + block * LANES;
        NAME(begin)(sums[p], rescaling);
    }
    for (int64_t group = 0; group < step->tap_groups; group++)
        UNROLL for (int p = 0; p < pixels; p++)
            NAME(multiply)(sums[p], windows[p], step->taps + NAME(TAPS) * group, weights + NAME(TAP_BYTES) * group,
                           extreme);
    UNROLL for (int p = 0; p < pixels; p++) NAME(end)(sums[p], rescaling);
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++) {
        const struct NAME(lanes) lanes = NAME(load_lanes)(rescaling + r * WORDS);
        UNROLL for (int p = 0; p < pixels; p++)
            sums[p][r] = plain ? NAME(rescale_plain)(sums[p][r], &lanes) : NAME(rescale)(sums[p][r], &lanes);
    }
    /* Stores may change what `step` points to, as compilers see it. */
    const int64_t channels = step->channels, low = step->low, high = step->high;
    NAME(activation) *output = (NAME(activation) *)step->output + first_pixel * channels + block * LANES;
    UNROLL for (int p = 0; p < pixels; p++, output += channels)
        NAME(put)(output, NAME(narrow)(sums[p]), low, high, channels - block * LANES);
}

INLINE void NAME(depthwise_blocks)(const struct depthwise *step, const struct share *share, const int plain,
                                   const int extreme) {
    const int64_t blocks = (step->channels + LANES - 1) / LANES;
    const int64_t begin = first_of(share, step->pixel_count), end = end_of(share, step->pixel_count);
    for (int64_t block = 0; block < blocks; block++) {
        int64_t pixel = begin;
        for (; pixel + NAME(DEPTHWISE_PIXELS) <= end; pixel += NAME(DEPTHWISE_PIXELS))
            NAME(depthwise_pixels)(step, block, pixel, NAME(DEPTHWISE_PIXELS), plain, extreme);
        for (; pixel < end; pixel++) NAME(depthwise_pixels)(step, block, pixel, 1, plain, extreme);
    }
}

static void NAME(run_depthwise)(const void *arguments, const struct share *share) {
    const struct depthwise *step = arguments;
    if (NAME(ADDS_BYTES) && step->extreme)
        NAME(depthwise_blocks)(step, share, 0, 1);
    else if (step->plain)
        NAME(depthwise_blocks)(step, share, 1, 0);
    else
        NAME(depthwise_blocks)(step, share, 0, 0);
}

#ifdef LANES_OF_INT16
/* Both inputs on a common scale, 15 bits wider; words have room for that. */
static void NAME(run_addition)(const void *arguments, const struct share *share) {
    const struct int16_pairs *step = arguments;
    const struct NAME(lanes) first = NAME(load_lanes)(step->rescaling);
    const struct NAME(lanes) second = NAME(load_lanes)(step->rescaling + RESCALING);
    const struct NAME(lanes) total = NAME(load_lanes)(step->rescaling + 2 * RESCALING);
    const int64_t end = end_of(share, step->count);
    for (int64_t i = first_of(share, step->count); i < end; i += LANES) {
        NAME(words) a[NAME(REGISTERS)], b[NAME(REGISTERS)];
        NAME(widen)(a, NAME(some)(step->first + i, end - i));
        NAME(widen)(b, NAME(some)(step->second + i, end - i));
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
            a[r] = NAME(rescale)(NAME(add)(NAME(rescale)(a[r], &first), NAME(rescale)(b[r], &second)), &total);
        NAME(put)(step->output + i, NAME(narrow)(a), step->low, step->high, end - i);
    }
}
#else
static void NAME(run_addition)(const void *arguments, const struct share *share) {
    const struct addition *step = arguments;
    const int64_t end = end_of(share, step->count);
    for (int64_t i = first_of(share, step->count); i < end; i += LANES) {
        NAME(words) a[NAME(REGISTERS)], b[NAME(REGISTERS)];
        NAME(widen)(a, NAME(some)(step->first + i, end - i));
        NAME(widen)(b, NAME(some)(step->second + i, end - i));
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++) a[r] = NAME(line)(a[r], b[r], step);
        NAME(put)(step->output + i, NAME(narrow)(a), step->low, step->high, end - i);
    }
}
#endif

INLINE void NAME(run_pool)(const struct pool *step, const struct share *share, const int is_mean) {
    const int64_t channels = step->channels, rows = step->batches * step->out_height;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int64_t top = row % step->out_height * step->stride_h - step->top;
        const int64_t y0 = larger(top, 0), y1 = smaller(top + step->filter_h, step->height);
        const NAME(activation) *image = (const NAME(activation) *)step->input + row / step->out_height * step->height * step->width * channels;
        for (int64_t column = 0; column < step->out_width; column++) {
            const int64_t left = column * step->stride_w - step->left;
            const int64_t x0 = larger(left, 0), x1 = smaller(left + step->filter_w, step->width);
            const int32_t taps = (int32_t)((y1 - y0) * (x1 - x0));
            NAME(activation) *output = (NAME(activation) *)step->output + (row * step->out_width + column) * channels;
            for (int64_t channel = 0; channel < channels; channel += LANES) {
                const int64_t count = channels - channel;
                NAME(narrowed) most = NAME(least)();
                NAME(words) sums[NAME(REGISTERS)], words[NAME(REGISTERS)];
                UNROLL for (int r = 0; r < NAME(REGISTERS); r++) sums[r] = NAME(zero)();
                for (int64_t y = y0; y < y1; y++)
                    for (int64_t x = x0; x < x1; x++) {
                        const NAME(narrowed) values =
                            NAME(some)(image + (y * step->width + x) * channels + channel, count);
                        if (is_mean) {
                            NAME(widen)(words, values);
                            UNROLL for (int r = 0; r < NAME(REGISTERS); r++) sums[r] = NAME(add)(sums[r], words[r]);
                        } else {
                            most = NAME(larger)(most, values);
                        }
                    }
                if (is_mean) {
                    UNROLL for (int r = 0; r < NAME(REGISTERS); r++) sums[r] = NAME(mean)(sums[r], taps);
                    most = NAME(narrow)(sums);
                }
                NAME(put)(output + channel, most, step->low, step->high, count);
            }
        }
    }
}

static void NAME(run_average_pool)(const void *arguments, const struct share *share) {
    NAME(run_pool)(arguments, share, 1);
}
static void NAME(run_max_pool)(const void *arguments, const struct share *share) {
    NAME(run_pool)(arguments, share, 0);
}
