/* Pools, and products of rows, in plain C, for processors without kernels of their own. NumPy computes convolutions there. */

#ifdef LANES_OF_INT16
typedef int16_t NAME(activation);
#else
typedef int8_t NAME(activation);

INLINE int64_t NAME(row)(const int16_t *a, const int16_t *b, int64_t width) {
    uint32_t sum = 0; /* a word, which wraps */
    for (int64_t i = 0; i < width; i++) sum += (uint32_t)(a[i] * b[i]);
    return (int32_t)sum;
}
#endif

INLINE void NAME(run_pool)(const struct pool *step, const struct share *share, const int is_mean) {
    const int64_t channels = step->channels, rows = step->batches * step->out_height;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int64_t top = row % step->out_height * step->stride_h - step->top;
        const int64_t y0 = larger(top, 0), y1 = smaller(top + step->filter_h, step->height);
        const NAME(activation) *image = (const NAME(activation) *)step->input + row / step->out_height * step->height * step->width * channels;
        NAME(activation) *output = (NAME(activation) *)step->output + row * step->out_width * channels;
        for (int64_t column = 0; column < step->out_width; column++) {
            const int64_t left = column * step->stride_w - step->left;
            const int64_t x0 = larger(left, 0), x1 = smaller(left + step->filter_w, step->width);
            const int64_t taps = (y1 - y0) * (x1 - x0);
            for (int64_t channel = 0; channel < channels; channel++) {
                int64_t sum = 0, most = INT16_MIN;
                for (int64_t y = y0; y < y1; y++)
                    for (int64_t x = x0; x < x1; x++) {
                        const int64_t value = image[(y * step->width + x) * channels + channel];
                        sum += value;
                        most = larger(most, value);
                    }
                if (is_mean) most = (sum + (sum < 0 ? -(taps / 2) : taps / 2)) / taps;
                *output++ = (NAME(activation))larger(smaller(most, step->high), step->low);
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
