/* Lanes of AVX2 and of AVX-VNNI, for int8 and for int16: 16 channels are two registers of eight words.

   AVX2 multiplies pairs of int16, so that bytes are widened as they are copied; AVX-VNNI fours of bytes, of which one
   has no sign, or pairs of int16. What both compute alike is there once, for AVX2 (LANES_OF_VNNI is not defined). */

typedef __m256i NAME(words);
typedef __m256i NAME(weight);
typedef __m256i NAME(value);

struct NAME(lanes) {
    __m256i multiplier, odd_multiplier, left, right, half, rounded;
};

enum { NAME(REGISTERS) = 2, NAME(PARTS) = 1 };

INLINE __m256i NAME(load)(const int32_t *words) { return _mm256_loadu_si256((const __m256i *)words); }
INLINE __m256i NAME(weigh)(const int8_t *weights) { return _mm256_loadu_si256((const __m256i *)weights); }

#if defined(LANES_OF_VNNI) && !defined(LANES_OF_INT16)
typedef int8_t NAME(element);
INLINE __m256i NAME(sign)(void) {
    __m256i sign = _mm256_set1_epi32((int32_t)0x80808080);
    KEEP(sign);
    return sign;
}
INLINE __m256i NAME(give)(const void *input, __m256i sign) {
    int32_t four;
    memcpy(&four, input, 4);
    return _mm256_xor_si256(_mm256_set1_epi32(four), sign);
}
INLINE __m256i NAME(dot)(__m256i sum, __m256i value, __m256i weight, const int part, const int extreme) {
    (void)part, (void)extreme;
    return _mm256_dpbusd_avx_epi32(sum, value, weight);
}
#else
typedef int16_t NAME(element);
INLINE __m256i NAME(sign)(void) { return _mm256_setzero_si256(); }
INLINE __m256i NAME(give)(const void *input, __m256i sign) {
    (void)sign;
    int32_t two;
    memcpy(&two, input, 4);
    return _mm256_set1_epi32(two);
}
INLINE __m256i NAME(dot)(__m256i sum, __m256i value, __m256i weight, const int part, const int extreme) {
    (void)part, (void)extreme;
#ifdef LANES_OF_VNNI
    return _mm256_dpwssd_avx_epi32(sum, value, weight);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(value, weight));
#endif
}
#endif

INLINE struct NAME(lanes) NAME(load_lanes)(const int32_t *rescaling) {
    struct NAME(lanes) lanes;
    lanes.multiplier = NAME(load)(rescaling + LANES);
    lanes.odd_multiplier = _mm256_srli_epi64(lanes.multiplier, 32);
    lanes.left = NAME(load)(rescaling + 2 * LANES);
    lanes.right = NAME(load)(rescaling + 3 * LANES);
    lanes.half = NAME(load)(rescaling + 4 * LANES);
    lanes.rounded = _mm256_cmpgt_epi32(lanes.right, _mm256_setzero_si256());
    return lanes;
}

/* The same where all channels have a shift to the right, and so none to the left. */
INLINE __m256i NAME(rescale_plain)(__m256i sum, const struct NAME(lanes) *lanes) {
    const __m256i one = _mm256_set1_epi64x((int64_t)1 << 31), a = _mm256_add_epi32(sum, sum);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(a, lanes->multiplier), one);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(a, 32), lanes->odd_multiplier), one);
    const __m256i y = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    const __m256i half = _mm256_add_epi32(_mm256_srai_epi32(y, 31), lanes->half);
    return _mm256_srav_epi32(_mm256_add_epi32(y, half), lanes->right);
}

INLINE __m256i NAME(rescale)(__m256i sum, const struct NAME(lanes) *lanes) {
    const __m256i one = _mm256_set1_epi64x((int64_t)1 << 31);
    const __m256i a = _mm256_sllv_epi32(sum, lanes->left);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(a, lanes->multiplier), one);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(a, 32), lanes->odd_multiplier), one);
    __m256i y = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    y = _mm256_add_epi32(y, _mm256_and_si256(_mm256_srai_epi32(y, 31), lanes->rounded));
    return _mm256_srav_epi32(_mm256_add_epi32(y, lanes->half), lanes->right);
}

#ifdef LANES_OF_INT16

typedef int16_t NAME(activation);
typedef __m256i NAME(narrowed);

INLINE __m256i NAME(narrow)(const __m256i words[2]) {
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(words[0], words[1]), 0xD8);
}

INLINE void NAME(put)(int16_t *output, __m256i halves, int64_t low, int64_t high, int64_t count) {
    halves = _mm256_min_epi16(_mm256_max_epi16(halves, _mm256_set1_epi16((int16_t)low)), _mm256_set1_epi16((int16_t)high));
    if (count >= LANES) {
        _mm256_storeu_si256((__m256i *)output, halves);
    } else {
        int16_t some[LANES];
        _mm256_storeu_si256((__m256i *)some, halves);
        memcpy(output, some, (size_t)count * sizeof *output);
    }
}

#else

typedef int8_t NAME(activation);
typedef __m128i NAME(narrowed);

INLINE __m128i NAME(narrow)(const __m256i words[2]) {
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(words[0], words[1]), 0xD8);
    return _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

INLINE void NAME(put)(int8_t *output, __m128i bytes, int64_t low, int64_t high, int64_t count) {
    bytes = _mm_min_epi8(_mm_max_epi8(bytes, _mm_set1_epi8((int8_t)low)), _mm_set1_epi8((int8_t)high));
    if (count >= LANES) {
        _mm_storeu_si128((__m128i *)output, bytes);
    } else {
        int8_t some[LANES];
        _mm_storeu_si128((__m128i *)some, bytes);
        memcpy(output, some, count);
    }
}

#endif

#ifndef LANES_OF_VNNI

typedef int16_t NAME(tap);
enum { NAME(TAPS) = 2, NAME(TAP_BYTES) = 64, NAME(DEPTHWISE_PIXELS) = 2, NAME(ADDS_BYTES) = 0 };

#ifdef LANES_OF_INT16

/* Of 16 elements, those that exist; the others are 0. */
INLINE __m256i NAME(some)(const int16_t *input, int64_t count) {
    if (count >= LANES) return _mm256_loadu_si256((const __m256i *)input);
    int16_t some[LANES] = {0};
    memcpy(some, input, (size_t)count * sizeof *input);
    return _mm256_loadu_si256((const __m256i *)some);
}

INLINE void NAME(widen)(__m256i words[2], __m256i halves) {
    words[0] = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(halves));
    words[1] = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(halves, 1));
}

INLINE __m256i NAME(least)(void) { return _mm256_set1_epi16(INT16_MIN); }
INLINE __m256i NAME(larger)(__m256i a, __m256i b) { return _mm256_max_epi16(a, b); }

#else

INLINE __m128i NAME(some)(const int8_t *input, int64_t count) {
    if (count >= LANES) return _mm_loadu_si128((const __m128i *)input);
    int8_t some[LANES] = {0};
    memcpy(some, input, count);
    return _mm_loadu_si128((const __m128i *)some);
}

INLINE void NAME(widen)(__m256i words[2], __m128i bytes) {
    words[0] = _mm256_cvtepi8_epi32(bytes);
    words[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8));
}

INLINE __m128i NAME(least)(void) { return _mm_set1_epi8(-128); }
INLINE __m128i NAME(larger)(__m128i a, __m128i b) { return _mm_max_epi8(a, b); }

INLINE __m256i NAME(line)(__m256i a, __m256i b, const struct addition *step) {
    const __m256 first = _mm256_cvtepi32_ps(a), second = _mm256_cvtepi32_ps(b);
    const __m256 offset = _mm256_fmadd_ps(second, _mm256_set1_ps(step->factor2), _mm256_set1_ps(step->offset));
    return _mm256_cvtps_epi32(_mm256_fmadd_ps(first, _mm256_set1_ps(step->factor1), offset));
}

INLINE int64_t NAME(row)(const int16_t *a, const int16_t *b, int64_t width) {
    __m256i sum = _mm256_setzero_si256();
    for (int64_t i = 0; i < width; i += LANES) {
        const __m256i first = _mm256_loadu_si256((const __m256i *)(a + i));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(first, _mm256_loadu_si256((const __m256i *)(b + i))));
    }
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const __m128i two = _mm_add_epi32(four, _mm_srli_si128(four, 8));
    return (int32_t)_mm_cvtsi128_si32(_mm_add_epi32(two, _mm_srli_si128(two, 4)));
}

#endif

INLINE __m256i NAME(zero)(void) { return _mm256_setzero_si256(); }
INLINE __m256i NAME(add)(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }

/* Two rows of 16 words, interleaved: words 0 to 3 and 8 to 11 come first. */
INLINE void NAME(multiply)(__m256i sums[2], const int16_t *window, const int32_t *taps, const int8_t *weights,
                           const int extreme) {
    (void)extreme;
    const __m256i a = _mm256_loadu_si256((const __m256i *)(window + taps[0]));
    const __m256i b = _mm256_loadu_si256((const __m256i *)(window + taps[1]));
    const __m256i first = NAME(weigh)(weights), second = NAME(weigh)(weights + 32);
    sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), first));
    sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), second));
}

INLINE void NAME(begin)(__m256i sums[2], const int32_t *start) {
    (void)start;
    sums[0] = sums[1] = _mm256_setzero_si256();
}

INLINE void NAME(end)(__m256i sums[2], const int32_t *start) {
    const __m256i lower = sums[0], upper = sums[1];
    sums[0] = _mm256_add_epi32(_mm256_permute2x128_si256(lower, upper, 0x20), NAME(load)(start));
    sums[1] = _mm256_add_epi32(_mm256_permute2x128_si256(lower, upper, 0x31), NAME(load)(start + 8));
}

/* Half of the count away from zero, then truncated: exact in float32 up to 2**16 taps of int8, 2**8 of int16. */
INLINE __m256i NAME(mean)(__m256i sum, int32_t taps) {
    const __m256i half = _mm256_set1_epi32(taps / 2), below = _mm256_srai_epi32(sum, 31);
    sum = _mm256_add_epi32(sum, _mm256_sub_epi32(_mm256_xor_si256(half, below), below));
    return _mm256_cvttps_epi32(_mm256_div_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps((float)taps)));
}

#endif
