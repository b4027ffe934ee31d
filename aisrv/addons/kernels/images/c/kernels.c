/* Int8 kernels in plain C: the arithmetic of aisrv/addons/kernels/arithmetic.py, in 32 and 64-bit integers.
 *
 * They read parameters that the packager has checked and bounded: windows lie in their buffers, sums and shifted
 * sums fit into 32 bits.
 */
#include "network.h"

/* S(a, b): the upper half of 2ab, ties up. */
static inline int32_t high_multiply(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/* R(y, r): half away from zero. */
static inline int32_t rounding_shift(int32_t value, int32_t bits)
{
    if (bits == 0)
        return value;
    return (int32_t)(((int64_t)value + ((int64_t)1 << (bits - 1)) - (value < 0)) >> bits);
}

/* M(x, m, s) */
static inline int32_t multiply(int32_t value, int32_t mantissa, int32_t shift)
{
    int32_t left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
    return rounding_shift(high_multiply((int32_t)((uint32_t)value << left), mantissa), right);
}

static inline int8_t clamp(int32_t value, int32_t low, int32_t high)
{
    return (int8_t)(value < low ? low : value > high ? high : value);
}

static inline int32_t dot(const int8_t *x, const int8_t *w, int32_t count, int32_t zero, int32_t sum)
{
    const int8_t *end = x + (count & ~3);
    while (x != end) {
        sum += (x[0] - zero) * w[0];
        sum += (x[1] - zero) * w[1];
        sum += (x[2] - zero) * w[2];
        sum += (x[3] - zero) * w[3];
        x += 4;
        w += 4;
    }
    for (count &= 3; count; count--)
        sum += (*x++ - zero) * *w++;
    return sum;
}

/* The taps of a window that lie inside of the input: first to last - 1, where it begins at `start`. */
static inline int32_t first_tap(int32_t start, int32_t dilation)
{
    return start < 0 ? (-start + dilation - 1) / dilation : 0;
}

static inline int32_t last_tap(int32_t start, int32_t dilation, int32_t extent, int32_t taps)
{
    int32_t inside = (extent - start + dilation - 1) / dilation;
    return inside < taps ? inside : taps;
}

void conv_2d(const void *parameters, const struct memory *memory)
{
    const struct convolution *p = parameters;
    const int8_t *input = at(memory, p->input), *weights = at(memory, p->weights);
    const int32_t *bias = (const int32_t *)at(memory, p->bias);
    int8_t *output = at(memory, p->output);
    int32_t pixel = p->in_c * p->groups, row = p->in_w * pixel, window_row = p->taps_w * p->in_c;
    int32_t of_group = p->out_c / p->groups, is_run = p->dilation_w == 1 && p->groups == 1;

    for (int32_t batch = 0; batch < p->batches; batch++, input += p->in_h * row) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            int32_t y = out_y * p->stride_h - p->before_h;
            int32_t top = first_tap(y, p->dilation_h), bottom = last_tap(y, p->dilation_h, p->in_h, p->taps_h);
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                int32_t x = out_x * p->stride_w - p->before_w;
                int32_t left = first_tap(x, p->dilation_w);
                int32_t right = last_tap(x, p->dilation_w, p->in_w, p->taps_w);
                const int32_t *multiplier = (const int32_t *)at(memory, p->multipliers);
                const int8_t *filter = weights, *group = input;
                for (int32_t channel = 0, left_over = of_group; channel < p->out_c; channel++, multiplier += 2) {
                    int32_t sum = bias[channel];
                    for (int32_t tap = top; tap < bottom; tap++) {
                        const int8_t *from = group + (y + tap * p->dilation_h) * row;
                        const int8_t *by = filter + tap * window_row;
                        if (is_run) {
                            if (right > left)
                                sum = dot(from + (x + left) * pixel, by + left * pixel, (right - left) * pixel,
                                          p->in_zero, sum);
                        } else {
                            for (int32_t at_x = left; at_x < right; at_x++)
                                sum = dot(from + (x + at_x * p->dilation_w) * pixel, by + at_x * p->in_c,
                                          p->in_c, p->in_zero, sum);
                        }
                    }
                    filter += p->taps_h * window_row;
                    if (--left_over == 0) {
                        left_over = of_group;
                        group += p->in_c;
                    }
                    *output++ = clamp(multiply(sum, multiplier[0], multiplier[1]) + p->out_zero, p->low, p->high);
                }
            }
        }
    }
}

void depthwise_conv_2d(const void *parameters, const struct memory *memory)
{
    const struct convolution *p = parameters;
    const int8_t *input = at(memory, p->input), *weights = at(memory, p->weights);
    const int32_t *bias = (const int32_t *)at(memory, p->bias);
    int8_t *output = at(memory, p->output);
    int32_t row = p->in_w * p->in_c, step = p->dilation_w * p->in_c;

    for (int32_t batch = 0; batch < p->batches; batch++, input += p->in_h * row) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            int32_t y = out_y * p->stride_h - p->before_h;
            int32_t top = first_tap(y, p->dilation_h), bottom = last_tap(y, p->dilation_h, p->in_h, p->taps_h);
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                int32_t x = out_x * p->stride_w - p->before_w;
                int32_t left = first_tap(x, p->dilation_w);
                int32_t right = last_tap(x, p->dilation_w, p->in_w, p->taps_w);
                const int32_t *multiplier = (const int32_t *)at(memory, p->multipliers);
                int32_t out = 0;
                for (int32_t channel = 0; channel < p->in_c; channel++) {
                    for (int32_t copy = 0; copy < p->depth_multiplier; copy++, out++, multiplier += 2) {
                        int32_t sum = bias[out];
                        for (int32_t tap = top; tap < bottom; tap++) {
                            const int8_t *from = input + (y + tap * p->dilation_h) * row +
                                                 (x + left * p->dilation_w) * p->in_c + channel;
                            const int8_t *by = weights + (tap * p->taps_w + left) * p->out_c + out;
                            for (int32_t count = right - left; count > 0; count--) {
                                sum += (*from - p->in_zero) * *by;
                                from += step;
                                by += p->out_c;
                            }
                        }
                        *output++ =
                            clamp(multiply(sum, multiplier[0], multiplier[1]) + p->out_zero, p->low, p->high);
                    }
                }
            }
        }
    }
}

void fully_connected(const void *parameters, const struct memory *memory)
{
    const struct fully_connected *p = parameters;
    const int8_t *input = at(memory, p->input);
    const int32_t *bias = (const int32_t *)at(memory, p->bias);
    int8_t *output = at(memory, p->output);

    for (int32_t batch = 0; batch < p->batches; batch++, input += p->inputs) {
        const int32_t *multiplier = (const int32_t *)at(memory, p->multipliers);
        const int8_t *by = at(memory, p->weights);
        for (int32_t out = 0; out < p->outputs; out++, multiplier += 2, by += p->inputs) {
            int32_t sum = bias[out];
            if (p->weights_zero == 0)
                sum = dot(input, by, p->inputs, p->in_zero, sum);
            else
                for (int32_t i = 0; i < p->inputs; i++)
                    sum += (input[i] - p->in_zero) * (by[i] - p->weights_zero);
            *output++ = clamp(multiply(sum, multiplier[0], multiplier[1]) + p->out_zero, p->low, p->high);
        }
    }
}

typedef int32_t pooling(const int8_t *first, int32_t rows, int32_t columns, int32_t row, int32_t channels);

static inline int32_t rounded_mean(const int8_t *first, int32_t rows, int32_t columns, int32_t row, int32_t channels)
{
    int32_t sum = 0, count = rows * columns;
    for (int32_t y = 0; y < rows; y++, first += row)
        for (int32_t x = 0; x < columns; x++)
            sum += first[x * channels];
    return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

static inline int32_t largest(const int8_t *first, int32_t rows, int32_t columns, int32_t row, int32_t channels)
{
    int32_t most = INT8_MIN;
    for (int32_t y = 0; y < rows; y++, first += row)
        for (int32_t x = 0; x < columns; x++)
            if (first[x * channels] > most)
                most = first[x * channels];
    return most;
}

static inline void pool(const struct pool *p, const struct memory *memory, pooling *of)
{
    const int8_t *input = at(memory, p->input);
    int8_t *output = at(memory, p->output);
    int32_t row = p->in_w * p->channels;

    for (int32_t batch = 0; batch < p->batches; batch++, input += p->in_h * row) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            int32_t y = out_y * p->stride_h - p->before_h;
            int32_t top = first_tap(y, 1), bottom = last_tap(y, 1, p->in_h, p->taps_h);
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                int32_t x = out_x * p->stride_w - p->before_w;
                int32_t left = first_tap(x, 1), right = last_tap(x, 1, p->in_w, p->taps_w);
                const int8_t *first = input + (y + top) * row + (x + left) * p->channels;
                for (int32_t channel = 0; channel < p->channels; channel++)
                    *output++ = clamp(of(first + channel, bottom - top, right - left, row, p->channels), p->low,
                                      p->high);
            }
        }
    }
}

void average_pool(const void *parameters, const struct memory *memory)
{
    pool(parameters, memory, rounded_mean);
}

void max_pool(const void *parameters, const struct memory *memory)
{
    pool(parameters, memory, largest);
}

static inline int32_t saturate(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* V(a), of half of a + 2**31. */
static int32_t reciprocal(int32_t half)
{
    int32_t x = 1515870810 + high_multiply(half, -1010580540);
    for (int32_t i = 0; i < 3; i++)
        x += saturate((int64_t)high_multiply(x, (1 << 29) - high_multiply(half, x)) * 4);
    return saturate((int64_t)x * 2);
}

void softmax(const void *parameters, const struct memory *memory)
{
    const struct softmax *p = parameters;
    const int8_t *input = at(memory, p->input);
    const int32_t *exponentials = (const int32_t *)at(memory, p->exponentials);
    int8_t *output = at(memory, p->output);

    for (int32_t row = 0; row < p->rows; row++, input += p->classes, output += p->classes) {
        int32_t most = INT8_MIN;
        for (int32_t i = 0; i < p->classes; i++)
            if (input[i] > most)
                most = input[i];
        uint32_t total = 0;
        for (int32_t i = 0; i < p->classes; i++)
            total += (uint32_t)rounding_shift(exponentials[most - input[i]], 12);
        int32_t zeros = __builtin_clz(total);
        int32_t factor = reciprocal((int32_t)(total << zeros >> 1));
        for (int32_t i = 0; i < p->classes; i++) {
            int32_t share = high_multiply(exponentials[most - input[i]], factor);
            output[i] = clamp(rounding_shift(share, 35 - zeros) - 128, INT8_MIN, INT8_MAX);
        }
    }
}

/* The places of a number of elements, counted row by row, in two tensors. */
static inline void walk(const struct dimension *dimensions, int32_t rank, int32_t number, int32_t *one, int32_t *two)
{
    *one = *two = 0;
    for (int32_t i = rank - 1; i >= 0; i--) {
        int32_t index = number % dimensions[i].extent;
        number /= dimensions[i].extent;
        *one += index * dimensions[i].step1;
        *two += index * dimensions[i].step2;
    }
}

typedef int32_t operation(const struct elementwise *p, int32_t one, int32_t two);

static inline int32_t scaled_sum(const struct elementwise *p, int32_t one, int32_t two)
{
    return multiply(one * (1 << 20), p->mantissa1, p->shift1) + multiply(two * (1 << 20), p->mantissa2, p->shift2);
}

static inline int32_t product(const struct elementwise *p, int32_t one, int32_t two)
{
    (void)p;
    return one * two;
}

static inline void elementwise(const struct elementwise *p, const struct memory *memory, operation *of)
{
    const struct dimension *dimensions = (const struct dimension *)at(memory, p->dimensions);
    struct dimension row = dimensions[p->rank - 1];
    const int8_t *input1 = at(memory, p->input1), *input2 = at(memory, p->input2);
    int8_t *output = at(memory, p->output);

    for (int32_t number = 0; number < p->length / row.extent; number++) {
        int32_t one, two;
        walk(dimensions, p->rank - 1, number, &one, &two);
        for (int32_t i = 0; i < row.extent; i++, one += row.step1, two += row.step2) {
            int32_t result = of(p, input1[one] - p->zero1, input2[two] - p->zero2);
            *output++ = clamp(multiply(result, p->out_mantissa, p->out_shift) + p->out_zero, p->low, p->high);
        }
    }
}

void add(const void *parameters, const struct memory *memory)
{
    elementwise(parameters, memory, scaled_sum);
}

void mul(const void *parameters, const struct memory *memory)
{
    elementwise(parameters, memory, product);
}

void copy(const void *parameters, const struct memory *memory)
{
    const struct copy *p = parameters;
    const int8_t *input = at(memory, p->input);
    int8_t *output = at(memory, p->output);
    if (input < output)
        for (int32_t i = p->length; i > 0; i--)
            output[i - 1] = input[i - 1];
    else
        for (int32_t i = 0; i < p->length; i++)
            output[i] = input[i];
}

void pad(const void *parameters, const struct memory *memory)
{
    const struct pad *p = parameters;
    const struct dimension *dimensions = (const struct dimension *)at(memory, p->dimensions);
    const int8_t *input = at(memory, p->input);
    int8_t *output = at(memory, p->output);

    for (int32_t i = 0; i < p->length; i++)
        output[i] = (int8_t)p->fill;
    for (int32_t number = 0; number < p->copies; number++) {
        int32_t from, to;
        walk(dimensions, p->rank, number, &from, &to);
        for (int32_t i = 0; i < p->run; i++)
            output[p->first + to + i] = input[from + i];
    }
}

void mean(const void *parameters, const struct memory *memory)
{
    const struct mean *p = parameters;
    const struct dimension *kept = (const struct dimension *)at(memory, p->kept);
    const struct dimension *reduced = (const struct dimension *)at(memory, p->reduced);
    const int8_t *input = at(memory, p->input);
    int8_t *output = at(memory, p->output);
    int32_t start, other, at_i;

    for (int32_t number = 0; number < p->length; number++) {
        int32_t sum = 0;
        walk(kept, p->kept_rank, number, &start, &other);
        for (int32_t i = 0; i < p->count; i++) {
            walk(reduced, p->reduced_rank, i, &at_i, &other);
            sum += input[start + at_i] - p->in_zero;
        }
        output[number] = clamp(multiply(sum, p->mantissa, p->shift) + p->out_zero, INT8_MIN, INT8_MAX);
    }
}
