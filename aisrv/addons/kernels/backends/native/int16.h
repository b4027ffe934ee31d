/* Steps of int16 that every processor computes alike, and what the steps of its targets have in common. */

/* A copy of words of 16 bits. */
static void copy_halves(const void *arguments, const struct share *share) {
    const struct picture *picture = arguments;
    const int64_t rows = picture->batches * picture->height, width = picture->width, repeats = picture->repeats;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int16_t *source = (const int16_t *)picture->source + row * width;
        int16_t *copy = (int16_t *)picture->copy + row / picture->height * picture->plane +
                        row % picture->height * picture->line;
        if (repeats == 1)
            memcpy(copy, source, (size_t)width * sizeof *copy);
        else
            for (int64_t i = 0; i < width * repeats; i++) copy[i] = source[i / repeats];
    }
}

/* Sums of 64 bits have factors of 15, and are rounded once, ties up. */
INLINE int64_t rescaled_once(int64_t value, const struct factor *factor) {
    return word((uint64_t)((value * factor->mantissa + (((int64_t)1 << factor->right) >> 1)) >> factor->right));
}

/* Rescale the totals of some channels, each without its bias. */
INLINE void finish_totals(int16_t *output, const int64_t *totals, const struct wide_sums *wide, int64_t channel,
                          int64_t count, int64_t low, int64_t high) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t sum = totals[i] + wide->bias[channel + i];
        const struct factor *factor = wide->factors + channel + i;
        output[i] = (int16_t)within(wide->rounds_once ? rescaled_once(sum, factor) : rescaled(sum, factor), low, high);
    }
}

/* The same for a tile of a convolution, by pixel and block. */
static void finish_wide(const struct convolution *step, const int64_t *totals, int64_t first_block,
                        int64_t first_pixel, int64_t pixels, int64_t blocks) {
    const int64_t channel = first_block * LANES, count = smaller(step->channels - channel, blocks * LANES);
    int16_t *output = (int16_t *)step->output + first_pixel * step->channels + channel;
    for (int64_t p = 0; p < pixels; p++)
        finish_totals(output + p * step->channels, totals + p * blocks * LANES, &step->wide, channel, count, step->low,
                      step->high);
}

/* Windows of one channel each whose sums may need 64 bits. */
static void run_wide_depthwise(const void *arguments, const struct share *share) {
    const struct depthwise *step = arguments;
    for (int64_t pixel = first_of(share, step->pixel_count); pixel < end_of(share, step->pixel_count); pixel++) {
        const int16_t *weights = step->weights;
        for (int64_t channel = 0; channel < step->channels; channel += LANES) {
            const int16_t *window = (const int16_t *)step->input + step->pixels[pixel] + channel;
            int64_t totals[LANES] = {0};
            for (int64_t tap = 0; tap < step->tap_groups; tap++, weights += LANES)
                for (int lane = 0; lane < LANES; lane++)
                    totals[lane] += (int32_t)window[step->taps[tap] + lane] * weights[lane];
            finish_totals((int16_t *)step->output + pixel * step->channels + channel, totals, &step->wide, channel,
                          smaller(step->channels - channel, LANES), step->low, step->high);
        }
    }
}

/* Both inputs on a common scale, 15 bits wider. */
static void run_wide_addition(const void *arguments, const struct share *share) {
    const struct int16_pairs *step = arguments;
    for (int64_t i = first_of(share, step->count); i < end_of(share, step->count); i++) {
        const int64_t first = rescaled((int64_t)step->first[i] * (1 << 15), step->factors);
        const int64_t second = rescaled((int64_t)step->second[i] * (1 << 15), step->factors + 1);
        step->output[i] = (int16_t)within(rescaled(first + second, step->factors + 2), step->low, step->high);
    }
}

/* A shorter input repeats. */
static void run_multiplication(const void *arguments, const struct share *share) {
    const struct int16_pairs *step = arguments;
    const int64_t begin = first_of(share, step->count), end = end_of(share, step->count);
    int64_t a = begin % step->first_count, b = begin % step->second_count;
    for (int64_t i = begin; i < end; i++) {
        const int64_t product = (int64_t)step->first[a] * step->second[b];
        step->output[i] = (int16_t)within(rescaled(product, step->factors), step->low, step->high);
        if (++a == step->first_count) a = 0;
        if (++b == step->second_count) b = 0;
    }
}

/* The value of a table of 513 for an int16, on the line between two of its entries. */
INLINE int64_t looked_up(int64_t value, const int16_t *table) {
    const int16_t *entry = table + 256 + (value >> 7);
    return entry[0] + (((entry[1] - entry[0]) * (value & 127) + 64) >> 7);
}

/* Outputs hold the exponentials until these are divided by their sum. */
static void run_int16_softmax(const void *arguments, const struct share *share) {
    const struct int16_softmax *step = arguments;
    for (int64_t row = first_of(share, step->rows); row < end_of(share, step->rows); row++) {
        const int16_t *input = step->input + row * step->classes;
        int16_t *output = step->output + row * step->classes;
        int64_t largest = INT16_MIN, total = 0;
        for (int64_t i = 0; i < step->classes; i++) largest = larger(largest, input[i]);
        for (int64_t i = 0; i < step->classes; i++) {
            const int64_t place = rescaled(input[i] - largest, step->factor) + INT16_MAX;
            output[i] = (int16_t)looked_up(within(place, INT16_MIN, INT16_MAX), step->exponentials);
            total += output[i];
        }
        /* From 1 to 2, with 16 bits behind the point; the table has what is above 1, around 0. */
        const int zeros = __builtin_clz((uint32_t)total), right = 31 - zeros;
        const int64_t place = (((total << (zeros - 1)) + (1 << 13)) >> 14) - (3 << 15);
        const int64_t factor = looked_up(within(place, INT16_MIN, INT16_MAX), step->reciprocals);
        for (int64_t i = 0; i < step->classes; i++)
            output[i] = (int16_t)within((output[i] * factor + ((int64_t)1 << (right - 1))) >> right, 0, INT16_MAX);
    }
}
