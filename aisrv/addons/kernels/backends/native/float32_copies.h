/* What is the same of float32 for all processors: bounds from their bits, copies, and means of rows. */

/* By other names than those that windows.h defines. */
enum pair_result { ADDED, SUBTRACTED, MULTIPLIED };
enum function { SIGMOID, TANGENT };

/* A float from its bits, the lower 32. */
INLINE float float_of(int64_t bits) {
    const uint32_t lower = (uint32_t)bits;
    float value;
    memcpy(&value, &lower, sizeof value);
    return value;
}

/* Copy some floats of a block, not all: in pieces whose lengths the compiler knows. */
INLINE void copy_part(float *output, const float *input, int64_t count) {
    UNROLL for (int length = LANES / 2; length > 0; length /= 2)
        if (count & length) {
            memcpy(output, input, (size_t)length * sizeof *output);
            output += length, input += length;
        }
}

static void copy_floats(const void *arguments, const struct share *share) {
    const struct picture *picture = arguments;
    const int64_t rows = picture->batches * picture->height, width = picture->width, repeats = picture->repeats;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const float *source = (const float *)picture->source + row * width;
        float *copy = (float *)picture->copy + row / picture->height * picture->plane +
                      row % picture->height * picture->line;
        if (repeats == 1)
            memcpy(copy, source, (size_t)width * sizeof *copy);
        else
            for (int64_t i = 0; i < width * repeats; i++) copy[i] = source[i / repeats];
    }
}

/* Sums of some rows side by side, so that none waits for the one before it. */
static void run_row_means(const void *arguments, const struct share *share) {
    enum { ROWS = 8 };
    const struct float32_rows *step = arguments;
    const int64_t end = end_of(share, step->rows);
    for (int64_t row = first_of(share, step->rows); row < end; row += ROWS) {
        const float *rows[ROWS];
        float sums[ROWS] = {0};
        UNROLL for (int k = 0; k < ROWS; k++) rows[k] = step->input + smaller(row + k, end - 1) * step->count;
        for (int64_t i = 0; i < step->count; i++)
            UNROLL for (int k = 0; k < ROWS; k++) sums[k] += rows[k][i];
        for (int64_t k = 0; k < smaller(ROWS, end - row); k++) step->output[row + k] = sums[k] / (float)step->count;
    }
}
