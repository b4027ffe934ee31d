/* Lanes of AVX-512 VNNI for int16: 16 channels are one register of 16 words, and each instruction multiplies pairs. */

typedef __m512i NAME(words);
typedef __m512i NAME(weight);
typedef __m512i NAME(value);
typedef __m256i NAME(narrowed);
typedef int16_t NAME(element);
typedef int16_t NAME(activation);

struct NAME(lanes) {
    struct lanes512 words;
};

enum { NAME(REGISTERS) = 1, NAME(PARTS) = 1 };

INLINE __m512i NAME(load)(const int32_t *words) { return _mm512_loadu_si512(words); }
INLINE __m512i NAME(weigh)(const int8_t *weights) { return _mm512_loadu_si512(weights); }
INLINE int NAME(sign)(void) { return 0; }

INLINE __m512i NAME(give)(const void *input, int sign) {
    (void)sign;
    int32_t two;
    memcpy(&two, input, 4);
    return _mm512_set1_epi32(two);
}

INLINE __m512i NAME(dot)(__m512i sum, __m512i value, __m512i weight, const int part, const int extreme) {
    (void)part, (void)extreme;
    return _mm512_dpwssd_epi32(sum, value, weight);
}

INLINE struct NAME(lanes) NAME(load_lanes)(const int32_t *rescaling) {
    const struct NAME(lanes) lanes = {load_lanes512(rescaling)};
    return lanes;
}

INLINE __m512i NAME(rescale)(__m512i sum, const struct NAME(lanes) *lanes) { return rescale512(sum, &lanes->words); }

INLINE __m512i NAME(rescale_plain)(__m512i sum, const struct NAME(lanes) *lanes) {
    return rescale512(sum, &lanes->words);
}

INLINE __m256i NAME(narrow)(const __m512i words[1]) { return _mm512_cvtsepi32_epi16(words[0]); }

INLINE void NAME(put)(int16_t *output, __m256i halves, int64_t low, int64_t high, int64_t count) {
    halves = _mm256_min_epi16(_mm256_max_epi16(halves, _mm256_set1_epi16((int16_t)low)), _mm256_set1_epi16((int16_t)high));
    if (count >= LANES)
        _mm256_storeu_si256((__m256i *)output, halves);
    else
        _mm256_mask_storeu_epi16(output, (__mmask16)((1 << count) - 1), halves);
}
