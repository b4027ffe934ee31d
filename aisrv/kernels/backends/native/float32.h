/* Depthwise convolutions, pools, ADD, MUL and SOFTMAX of float32 over the lanes of a target: included once for each, after its
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

INLINE void NAME(run_pool)(const struct pool *step, const struct share *share, const int is_mean) {
    const int64_t channels = step->channels, rows = step->batches * step->out_height;
    const float lowest = -FLT_MAX;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int64_t top = row % step->out_height * step->stride_h - step->top;
        const int64_t y0 = larger(top, 0), y1 = smaller(top + step->filter_h, step->height);
        const float *image = (const float *)step->input + row / step->out_height * step->height * step->width * channels;
        for (int64_t column = 0; column < step->out_width; column++) {
            const int64_t left = column * step->stride_w - step->left;
            const int64_t x0 = larger(left, 0), x1 = smaller(left + step->filter_w, step->width);
            const float taps = (float)((y1 - y0) * (x1 - x0));
            float *output = (float *)step->output + (row * step->out_width + column) * channels;
            for (int64_t channel = 0; channel < channels; channel += LANES) {
                const int64_t count = channels - channel;
                NAME(narrowed) results;
                UNROLL for (int r = 0; r < NAME(REGISTERS); r++) results.val[r] = NAME(repeat)(is_mean ? 0 : lowest);
                for (int64_t y = y0; y < y1; y++)
                    for (int64_t x = x0; x < x1; x++) {
                        const NAME(narrowed) values = NAME(some)(image + (y * step->width + x) * channels + channel, count);
                        UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
                            results.val[r] = is_mean ? results.val[r] + values.val[r]
                                                     : NAME(greater)(values.val[r], results.val[r]);
                    }
                if (is_mean)
                    UNROLL for (int r = 0; r < NAME(REGISTERS); r++) results.val[r] /= NAME(repeat)(taps);
                NAME(put)(output + channel, results, step->low, step->high, count);
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

/* A shorter input repeats: stretches in which neither begins anew. */
INLINE void NAME(run_pairs)(const struct float32_pairs *step, const struct share *share, const int is_sum) {
    const int64_t end = end_of(share, step->count);
    for (int64_t i = first_of(share, step->count); i < end;) {
        const int64_t a = i % step->first_count, b = i % step->second_count;
        const int64_t stop = smaller(end, i + smaller(step->first_count - a, step->second_count - b));
        const float *first = step->first + a - i, *second = step->second + b - i;
        for (; i < stop; i += LANES) {
            NAME(narrowed) one = NAME(some)(first + i, stop - i), two = NAME(some)(second + i, stop - i);
            UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
                one.val[r] = is_sum ? one.val[r] + two.val[r] : one.val[r] * two.val[r];
            NAME(put)(step->output + i, one, step->low, step->high, stop - i);
        }
        i = stop;
    }
}

static void NAME(run_addition)(const void *arguments, const struct share *share) {
    NAME(run_pairs)(arguments, share, 1);
}
static void NAME(run_multiplication)(const void *arguments, const struct share *share) {
    NAME(run_pairs)(arguments, share, 0);
}

typedef float NAME(half) __attribute__((vector_size(2 * WIDTH)));
typedef double NAME(doubles) __attribute__((vector_size(4 * WIDTH)));
typedef uint64_t NAME(longs) __attribute__((vector_size(4 * WIDTH)));

/* The exponential function of floats from -104 to 0, in double precision: 2**(n / 32) from a table, times a polynomial
   of what is left. It rounds to glibc's and newlib's expf. Source of the method and of its coefficients: `math/expf.c`
   and `math/exp2f_data.c` of Arm's Optimized Routines. */
INLINE NAME(half) NAME(exponentials)(NAME(half) x, const double *powers) {
    const double per_step = 0x1.71547652b82fep+0 * 32, whole = 0x1.8p+52;
    const double third = 0x1.c6af84b912394p-5 / 32 / 32 / 32, second = 0x1.ebfce50fac4f3p-3 / 32 / 32;
    const double first = 0x1.62e42ff0c52d6p-1 / 32;
    const uint64_t bits_of_whole = 0x4338000000000000;
    NAME(doubles) steps = __builtin_convertvector(x, NAME(doubles)) * per_step;
    APART(steps);
    const NAME(doubles) shifted = steps + whole, rest = steps - (shifted - whole);
    const NAME(longs) n = (NAME(longs))shifted - bits_of_whole;
    NAME(doubles) a = rest * third, b = rest * first, square = rest * rest, power;
    APART(a);
    APART(b);
    APART(square);
    NAME(doubles) product = (a + second) * square;
    APART(product);
    UNROLL for (int i = 0; i < WIDTH / 2; i++) power[i] = powers[n[i] & 31];
    const NAME(longs) exponent = (n + 1023 * 32) >> 5 << 52;
    return __builtin_convertvector((product + (b + 1)) * (power * (NAME(doubles))exponent), NAME(half));
}

/* Below -104 a float holds nothing of it; what is no number stays. */
INLINE NAME(words) NAME(exponential)(NAME(words) x, const double *powers) {
    NAME(half) halves[2];
    memcpy(halves, &x, sizeof x);
    UNROLL for (int i = 0; i < 2; i++) halves[i] = NAME(exponentials)(halves[i], powers);
    NAME(mask) found;
    memcpy(&found, halves, sizeof found);
    const NAME(mask) is_number = x == x;
    return (NAME(words))((found & (x > -104.0f)) | ((NAME(mask))x & ~is_number));
}

INLINE float NAME(largest)(const float *input, int64_t count) {
    float lanes[LANES], most = -FLT_MAX;
    NAME(narrowed) all;
    int64_t i = 0;
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++) all.val[r] = NAME(repeat)(most);
    for (; i + LANES <= count; i += LANES) {
        const NAME(narrowed) values = NAME(some)(input + i, LANES);
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++) all.val[r] = NAME(greater)(values.val[r], all.val[r]);
    }
    memcpy(lanes, &all, sizeof all);
    for (int lane = 0; lane < LANES; lane++) most = lanes[lane] > most ? lanes[lane] : most;
    for (; i < count; i++) most = input[i] > most ? input[i] : most;
    return most;
}

static void NAME(run_softmax)(const void *arguments, const struct share *share) {
    const struct float32_softmax *step = arguments;
    const int64_t classes = step->classes;
    for (int64_t row = first_of(share, step->rows); row < end_of(share, step->rows); row++) {
        const float *input = step->input + row * classes;
        float *output = step->output + row * classes, sum = 0;
        const NAME(words) most = NAME(repeat)(NAME(largest)(input, classes)), beta = NAME(repeat)(step->beta);
        for (int64_t i = 0; i < classes; i += LANES) {
            NAME(narrowed) all = NAME(some)(input + i, classes - i);
            UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
                all.val[r] = NAME(exponential)((all.val[r] - most) * beta, step->powers);
            NAME(write)(output + i, &all, classes - i);
        }
        for (int64_t i = 0; i < classes; i++) sum += output[i];
        for (int64_t i = 0; i < classes; i += LANES) {
            NAME(narrowed) all = NAME(some)(output + i, classes - i);
            UNROLL for (int r = 0; r < NAME(REGISTERS); r++) all.val[r] /= NAME(repeat)(sum);
            NAME(write)(output + i, &all, classes - i);
        }
    }
}
