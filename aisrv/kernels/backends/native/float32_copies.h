/* What is the same of float32 for all processors: bounds from their bits, and copies. */

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
