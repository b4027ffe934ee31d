/* Lanes of float32 for every target: 16 channels are registers of WIDTH floats, which are the compilers' own vectors.

   Each output has the sum that TFLM has: from 0 on, one product after the other, the bias last. A product is rounded
   before it is added; APART keeps compilers from making one instruction of both, where there is one. */

typedef float NAME(words) __attribute__((vector_size(4 * WIDTH)));
typedef int32_t NAME(mask) __attribute__((vector_size(4 * WIDTH)));
typedef NAME(words) NAME(weight);
typedef NAME(words) NAME(value);
typedef float NAME(element);
typedef float NAME(activation);

enum { NAME(REGISTERS) = LANES / WIDTH, NAME(PARTS) = 1 };

struct NAME(lanes) {
    NAME(words) bias;
};

typedef struct {
    NAME(words) val[LANES / WIDTH];
} NAME(narrowed);

INLINE NAME(words) NAME(load)(const void *words) {
    NAME(words) loaded;
    memcpy(&loaded, words, sizeof loaded);
    return loaded;
}
INLINE NAME(words) NAME(weigh)(const int8_t *weights) { return NAME(load)(weights); }
INLINE int NAME(sign)(void) { return 0; }
/* Nothing but a copy: x - 0 is x. */
INLINE NAME(words) NAME(repeat)(float value) { return value - (NAME(words)){0}; }
INLINE NAME(words) NAME(give)(const void *input, int sign) {
    (void)sign;
    return NAME(repeat)(*(const float *)input);
}

INLINE NAME(words) NAME(dot)(NAME(words) sum, NAME(words) value, NAME(words) weight, const int part, const int extreme) {
    (void)part, (void)extreme;
    NAME(words) product = value * weight;
    APART(product);
    return sum + product;
}

INLINE struct NAME(lanes) NAME(load_lanes)(const int32_t *rescaling) {
    const struct NAME(lanes) lanes = {NAME(load)(rescaling + LANES)};
    return lanes;
}
INLINE NAME(words) NAME(rescale)(NAME(words) sum, const struct NAME(lanes) *lanes) { return sum + lanes->bias; }
INLINE NAME(words) NAME(rescale_plain)(NAME(words) sum, const struct NAME(lanes) *lanes) { return sum + lanes->bias; }

INLINE NAME(narrowed) NAME(narrow)(const NAME(words) words[]) {
    NAME(narrowed) all;
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++) all.val[r] = words[r];
    return all;
}

/* `a` where `which` is true, else `b`. */
INLINE NAME(words) NAME(chosen)(NAME(mask) which, NAME(words) a, NAME(words) b) {
#if WIDTH == 8
    return (NAME(words))_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)which);
#else
    return (NAME(words))((which & (NAME(mask))a) | (~which & (NAME(mask))b));
#endif
}

/* `a` where it is greater than `b`, else `b`: what is no number stays if it is `b`, and goes if it is `a`. That is what
   instructions of x86 compute. */
INLINE NAME(words) NAME(greater)(NAME(words) a, NAME(words) b) {
#if WIDTH == 16
    return (NAME(words))_mm512_max_ps((__m512)a, (__m512)b);
#elif WIDTH == 8
    return (NAME(words))_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (NAME(words))_mm_max_ps((__m128)a, (__m128)b);
#else
    const NAME(mask) which = a > b;
    return NAME(chosen)(which, a, b);
#endif
}
INLINE NAME(words) NAME(less)(NAME(words) a, NAME(words) b) {
#if WIDTH == 16
    return (NAME(words))_mm512_min_ps((__m512)a, (__m512)b);
#elif WIDTH == 8
    return (NAME(words))_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (NAME(words))_mm_min_ps((__m128)a, (__m128)b);
#else
    const NAME(mask) which = a < b;
    return NAME(chosen)(which, a, b);
#endif
}

/* Of 16 elements, those that exist; the others are 0. */
INLINE NAME(narrowed) NAME(some)(const float *input, int64_t count) {
    NAME(narrowed) all;
    float some[LANES] = {0};
    if (count < LANES) {
        copy_part(some, input, count);
        input = some;
    }
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++) all.val[r] = NAME(load)(input + r * WIDTH);
    return all;
}

INLINE void NAME(write)(float *output, const NAME(narrowed) *all, int64_t count) {
    if (count >= LANES)
        memcpy(output, all, sizeof *all);
    else
        copy_part(output, (const float *)all, count);
}

/* Write what exists of 16 elements, from `low` to `high`: the bits of two floats. */
INLINE void NAME(put)(float *output, NAME(narrowed) all, int64_t low, int64_t high, int64_t count) {
    const NAME(words) least = NAME(repeat)(float_of(low)), most = NAME(repeat)(float_of(high));
    UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
        all.val[r] = NAME(less)(most, NAME(greater)(least, all.val[r]));
    NAME(write)(output, &all, count);
}
