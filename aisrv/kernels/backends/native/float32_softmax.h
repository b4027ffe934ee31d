/* What is the same of float32 for all processors: SOFTMAX, copies, and bounds from their bits. */

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

/* The exponential function of a float that is at most 0, in double precision: 2**(n / 32) from a table, times a
   polynomial of what is left. It rounds to glibc's and newlib's expf. Source of the method and of its coefficients:
   `math/expf.c` and `math/exp2f_data.c` of Arm's Optimized Routines. */
INLINE float exponential(float x, const double *powers) {
    const double per_step = 0x1.71547652b82fep+0 * 32, whole = 0x1.8p+52;
    const double third = 0x1.c6af84b912394p-5 / 32 / 32 / 32, second = 0x1.ebfce50fac4f3p-3 / 32 / 32;
    const double first = 0x1.62e42ff0c52d6p-1 / 32;
    if (!(x > -104.0f)) return x < 0 ? 0.0f : x; /* below what a float holds, or no number */
    double steps = per_step * x;
    APART(steps);
    const double shifted = steps + whole;
    const double rest = steps - (shifted - whole);
    const int64_t n = (int64_t)(shifted - whole);
    double a = third * rest, b = first * rest, square = rest * rest;
    APART(a);
    APART(b);
    APART(square);
    const double upper = a + second;
    double product = upper * square;
    APART(product);
    const uint64_t exponent = (uint64_t)(1023 + (n >> 5)) << 52;
    double scale;
    memcpy(&scale, &exponent, sizeof scale);
    return (float)((product + (b + 1)) * (powers[n & 31] * scale));
}

static void run_float32_softmax(const void *arguments, const struct share *share) {
    const struct float32_softmax *step = arguments;
    for (int64_t row = first_of(share, step->rows); row < end_of(share, step->rows); row++) {
        const float *input = step->input + row * step->classes;
        float *output = step->output + row * step->classes, most = -FLT_MAX, sum = 0;
        for (int64_t i = 0; i < step->classes; i++) most = most < input[i] ? input[i] : most;
        for (int64_t i = 0; i < step->classes; i++) {
            output[i] = exponential((input[i] - most) * step->beta, step->powers);
            sum += output[i];
        }
        for (int64_t i = 0; i < step->classes; i++) output[i] /= sum;
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
