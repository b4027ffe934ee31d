/* SOFTMAX, LOGISTIC and TANH of float32 over the lanes of a target, and their exponential functions: included once for each,
   after its lanes. */

typedef float NAME(half) __attribute__((vector_size(2 * WIDTH)));
typedef double NAME(doubles) __attribute__((vector_size(4 * WIDTH)));
typedef uint64_t NAME(longs) __attribute__((vector_size(4 * WIDTH)));

/* Half a register in double precision, two halves as one, and 2**(n / 32) by the lower five bits of n. */
#if WIDTH == 16
INLINE NAME(doubles) NAME(widen)(NAME(half) x) { return (NAME(doubles))_mm512_cvtps_pd((__m256)x); }
INLINE NAME(words) NAME(join)(NAME(half) lower, NAME(half) upper) {
    return (NAME(words))_mm512_insertf32x8(_mm512_castps256_ps512((__m256)lower), (__m256)upper, 1);
}
INLINE NAME(doubles) NAME(look_up)(const double *powers, NAME(longs) n) {
    const __m512i which = (__m512i)n;
    const __m512d lower = _mm512_permutex2var_pd(_mm512_loadu_pd(powers), which, _mm512_loadu_pd(powers + 8));
    const __m512d upper = _mm512_permutex2var_pd(_mm512_loadu_pd(powers + 16), which, _mm512_loadu_pd(powers + 24));
    return (NAME(doubles))_mm512_mask_blend_pd(_mm512_test_epi64_mask(which, _mm512_set1_epi64(16)), lower, upper);
}
#else
#if WIDTH == 8
INLINE NAME(doubles) NAME(widen)(NAME(half) x) { return (NAME(doubles))_mm256_cvtps_pd((__m128)x); }
INLINE NAME(words) NAME(join)(NAME(half) lower, NAME(half) upper) {
    return (NAME(words))_mm256_insertf128_ps(_mm256_castps128_ps256((__m128)lower), (__m128)upper, 1);
}
#else
INLINE NAME(doubles) NAME(widen)(NAME(half) x) { return __builtin_convertvector(x, NAME(doubles)); }
INLINE NAME(words) NAME(join)(NAME(half) lower, NAME(half) upper) {
    const NAME(half) halves[2] = {lower, upper};
    return NAME(load)(halves);
}
#endif
INLINE NAME(doubles) NAME(look_up)(const double *powers, NAME(longs) n) {
    NAME(doubles) found;
    UNROLL for (int i = 0; i < WIDTH / 2; i++) found[i] = powers[n[i] & 31];
    return found;
}
#endif

/* The exponential function of floats from -104 to 9, in double precision: 2**(n / 32) from a table, times a polynomial
   of what is left. It rounds to glibc's and newlib's expf. Source of the method and of its coefficients: `math/expf.c`
   and `math/exp2f_data.c` of Arm's Optimized Routines. */
INLINE NAME(half) NAME(exponentials)(NAME(half) x, const double *powers) {
    const double per_step = 0x1.71547652b82fep+0 * 32, whole = 0x1.8p+52;
    const double third = 0x1.c6af84b912394p-5 / 32 / 32 / 32, second = 0x1.ebfce50fac4f3p-3 / 32 / 32;
    const double first = 0x1.62e42ff0c52d6p-1 / 32;
    const uint64_t bits_of_whole = 0x4338000000000000;
    NAME(doubles) steps = NAME(widen)(x) * per_step;
    APART(steps);
    const NAME(doubles) shifted = steps + whole, rest = steps - (shifted - whole);
    const NAME(longs) n = (NAME(longs))shifted - bits_of_whole;
    const NAME(doubles) power = NAME(look_up)(powers, n);
    NAME(doubles) a = rest * third, b = rest * first, square = rest * rest;
    APART(a);
    APART(b);
    APART(square);
    NAME(doubles) product = (a + second) * square;
    APART(product);
    const NAME(longs) exponent = (n + 1023 * 32) >> 5 << 52;
    return __builtin_convertvector((product + (b + 1)) * (power * (NAME(doubles))exponent), NAME(half));
}

/* Below -104 a float holds nothing of it; what is no number stays. */
INLINE NAME(words) NAME(exponential)(NAME(words) x, const double *powers) {
    NAME(half) halves[2];
    memcpy(halves, &x, sizeof x);
    const NAME(words) joined = NAME(join)(NAME(exponentials)(halves[0], powers), NAME(exponentials)(halves[1], powers));
    const NAME(mask) found = (NAME(mask))joined, is_number = x == x;
    return (NAME(words))((found & (x > -104.0f)) | ((NAME(mask))x & ~is_number));
}

/* TFLM takes 1 / (1 + exp(-x)) between two bounds alone: exp(x) below them, and 1 above. */
INLINE NAME(words) NAME(sigmoid)(NAME(words) x, const double *powers) {
    const NAME(mask) is_low = x < -9.0f, is_high = x > 0x1.09e79ep+4f;
    const NAME(words) one = NAME(repeat)(1), power = NAME(exponential)(NAME(chosen)(is_low, x, -x), powers);
    return NAME(chosen)(is_high, one, NAME(chosen)(is_low, power, one / (one + power)));
}

/* exp(x) - 1 from -2 to 0 and from 2 to 20, each product and sum rounded. With k * ln 2 + y for x, exp(y) - 1 is a rational
   function of y. Source of the method and of its numbers: `s_expm1f.c` of fdlibm, which has another sum for k from 23 on; of
   that a tangent keeps nothing. */
INLINE NAME(words) NAME(power_less_one)(NAME(words) x) {
    const float per_step = 0x1.715476p+0f, step = 0x1.62e3p-1f, rest_of_step = 0x1.2fefa2p-17f;
    const float q1 = -0x1.111112p-5f, q2 = 0x1.a01a02p-10f, q3 = -0x1.4ce19ap-14f, q4 = 0x1.0cfca8p-18f, q5 = -0x1.afdb76p-23f;
    const NAME(mask) exponent_of_one = (NAME(mask))NAME(repeat)(1);
    const NAME(words) one = NAME(repeat)(1);
    NAME(words) steps = x * per_step;
    APART(steps);
    const NAME(mask) k = __builtin_convertvector(steps + NAME(chosen)(x < 0, one * -0.5f, one * 0.5f), NAME(mask));
    const NAME(words) n = __builtin_convertvector(k, NAME(words));
    NAME(words) upper = n * step, lower = n * rest_of_step;
    APART(upper);
    APART(lower);
    upper = x - upper;
    const NAME(words) y = upper - lower, lost = (upper - y) - lower, half = y * 0.5f;
    NAME(words) square = y * half, r = square * q5;
    APART(square);
    APART(r);
    r = (r + q4) * square;
    APART(r);
    r = (r + q3) * square;
    APART(r);
    r = (r + q2) * square;
    APART(r);
    r = (r + q1) * square;
    APART(r);
    r += 1;
    NAME(words) product = r * half;
    APART(product);
    const NAME(words) t = 3 - product;
    product = y * t;
    APART(product);
    NAME(words) e = square * ((r - t) / (6 - product));
    APART(e);
    e = y * (e - lost);
    APART(e);
    e = (e - lost) - square;
    /* Here exp(y) - 1 is y - e; what follows keeps most of its bits when 2**k times it is added to 2**k - 1. */
    const NAME(words) inverse = (NAME(words))(exponent_of_one - (k << 23));
    const NAME(mask) is_small = k < -1;
    NAME(words) z = NAME(chosen)(is_small, one, one - inverse) - (e - y);
    z = (NAME(words))((NAME(mask))z + (k << 23));
    return NAME(chosen)(is_small, z - 1, z);
}

/* As fdlibm has it; from 10 on it is 1. What is no number has no `k`, and stays. */
INLINE NAME(words) NAME(hyperbolic_tangent)(NAME(words) x) {
    const NAME(mask) sign = (NAME(mask))NAME(repeat)(-0.0f), is_number = x == x;
    const NAME(words) size = (NAME(words))((NAME(mask))x & ~sign), one = NAME(repeat)(1);
    const NAME(mask) is_large = size >= 1;
    const NAME(words) twice = 2 * NAME(less)(one * 10, size);
    const NAME(words) power = NAME(power_less_one)(NAME(chosen)(is_large, twice, -twice));
    const NAME(words) quotient = NAME(chosen)(is_large, one * 2, -power) / (power + 2);
    const NAME(mask) found = (NAME(mask))NAME(chosen)(is_large, one - quotient, quotient);
    return NAME(chosen)(is_number, (NAME(words))((found & ~sign) | ((NAME(mask))x & sign)), x);
}

INLINE void NAME(function_block)(const struct float32_function *step, int64_t i, int64_t count, const enum function function) {
    NAME(narrowed) all = NAME(some)(step->input + i, count);
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
        all.val[r] = function == SIGMOID ? NAME(sigmoid)(all.val[r], step->powers) : NAME(hyperbolic_tangent)(all.val[r]);
    NAME(write)(step->output + i, &all, count);
}

INLINE void NAME(run_function)(const struct float32_function *step, const struct share *share, const enum function function) {
    const int64_t begin = first_of(share, step->count), end = end_of(share, step->count);
    int64_t i = begin;
    for (; i + LANES <= end; i += LANES) NAME(function_block)(step, i, LANES, function);
    if (i < end) NAME(function_block)(step, i, end - i, function);
}

static void NAME(run_logistic)(const void *arguments, const struct share *share) {
    NAME(run_function)(arguments, share, SIGMOID);
}
static void NAME(run_tanh)(const void *arguments, const struct share *share) {
    NAME(run_function)(arguments, share, TANGENT);
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

INLINE void NAME(powers_block)(const float *input, float *output, NAME(words) most, NAME(words) beta,
                               const double *powers, int64_t count) {
    NAME(narrowed) all = NAME(some)(input, count);
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
        all.val[r] = NAME(exponential)((all.val[r] - most) * beta, powers);
    NAME(write)(output, &all, count);
}

INLINE void NAME(quotients_block)(float *output, NAME(words) sum, int64_t count) {
    NAME(narrowed) all = NAME(some)(output, count);
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++) all.val[r] /= sum;
    NAME(write)(output, &all, count);
}

/* Powers of some rows, their sums side by side, so that none waits for the one before it, and quotients. */
static void NAME(run_softmax)(const void *arguments, const struct share *share) {
    enum { ROWS = 4 };
    const struct float32_softmax *step = arguments;
    const int64_t classes = step->classes, end = end_of(share, step->rows);
    int64_t rows, i;
    for (int64_t row = first_of(share, step->rows); row < end; row += rows) {
        const float *input = step->input + row * classes, *powers[ROWS];
        float *output = step->output + row * classes, sums[ROWS] = {0};
        rows = smaller(ROWS, end - row);
        for (int64_t k = 0; k < rows; k++) {
            const float *from = input + k * classes;
            float *to = output + k * classes;
            const NAME(words) most = NAME(repeat)(NAME(largest)(from, classes)), beta = NAME(repeat)(step->beta);
            for (i = 0; i + LANES <= classes; i += LANES)
                NAME(powers_block)(from + i, to + i, most, beta, step->powers, LANES);
            if (i < classes) NAME(powers_block)(from + i, to + i, most, beta, step->powers, classes - i);
        }
        UNROLL for (int k = 0; k < ROWS; k++) powers[k] = output + smaller(k, rows - 1) * classes;
        for (i = 0; i < classes; i++)
            UNROLL for (int k = 0; k < ROWS; k++) sums[k] += powers[k][i];
        for (int64_t k = 0; k < rows; k++) {
            float *to = output + k * classes;
            const NAME(words) sum = NAME(repeat)(sums[k]);
            for (i = 0; i + LANES <= classes; i += LANES) NAME(quotients_block)(to + i, sum, LANES);
            if (i < classes) NAME(quotients_block)(to + i, sum, classes - i);
        }
    }
}
