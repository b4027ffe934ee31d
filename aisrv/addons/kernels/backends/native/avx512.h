/* Kernels of processors with AVX-512 VNNI: products of four bytes at once, in registers of a whole block. */

struct lanes512 {
    __m512i multiplier, odd_multiplier, left, right, half;
    __mmask16 rounded; /* lanes that are shifted to the right */
};

INLINE struct lanes512 load_lanes512(const int32_t *rescaling) {
    struct lanes512 lanes;
    lanes.multiplier = _mm512_loadu_si512(rescaling + LANES);
    lanes.odd_multiplier = _mm512_srli_epi64(lanes.multiplier, 32);
    lanes.left = _mm512_loadu_si512(rescaling + 2 * LANES);
    lanes.right = _mm512_loadu_si512(rescaling + 3 * LANES);
    lanes.half = _mm512_loadu_si512(rescaling + 4 * LANES);
    lanes.rounded = _mm512_test_epi32_mask(lanes.right, lanes.right);
    return lanes;
}

/* The upper words of products, in their order. */
INLINE __m512i upper_words512(__m512i even, __m512i odd) {
    __mmask16 which = 0x5555;
    __asm__("" : "+Yk"(which));
    return _mm512_castps_si512(_mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd), which, _mm512_castsi512_ps(even)));
}

/* R(S(sum * 2**l, m), r) + zero point, as words. */
INLINE __m512i rescale512(__m512i sum, const struct lanes512 *lanes) {
    const __m512i one = _mm512_set1_epi64((int64_t)1 << 31);
    const __m512i a = _mm512_sllv_epi32(sum, lanes->left);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(a, lanes->multiplier), one);
    const __m512i odd =
        _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(a, 32), lanes->odd_multiplier), one);
    __m512i y = upper_words512(even, odd);
    y = _mm512_mask_add_epi32(y, lanes->rounded, y, _mm512_srai_epi32(y, 31));
    return _mm512_srav_epi32(_mm512_add_epi32(y, lanes->half), lanes->right);
}

/* The same for a plain rescaling. There the product is negative where the sum is, or 0, where one less is shifted out,
   and all constants are one. */
struct plain512 {
    __m512i multiplier, odd_multiplier, even_constant, odd_constant, right;
};

INLINE struct plain512 load_plain512(const int32_t *rescaling) {
    const __m512i one = _mm512_set1_epi64((int64_t)1 << 31), half = _mm512_loadu_si512(rescaling + 4 * LANES);
    struct plain512 lanes;
    lanes.multiplier = _mm512_loadu_si512(rescaling + LANES);
    lanes.odd_multiplier = _mm512_srli_epi64(lanes.multiplier, 32);
    lanes.even_constant = _mm512_or_si512(_mm512_slli_epi64(half, 32), one);
    lanes.odd_constant = _mm512_mask_mov_epi32(one, 0xAAAA, half);
    lanes.right = _mm512_loadu_si512(rescaling + 3 * LANES);
    return lanes;
}

INLINE __m512i rescale_plain512(__m512i sum, const struct plain512 *lanes) {
    const __m512i a = _mm512_add_epi32(sum, sum);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(a, lanes->multiplier), lanes->even_constant);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(a, 32), lanes->odd_multiplier),
                                         lanes->odd_constant);
    const __m512i y = upper_words512(even, odd);
    return _mm512_srav_epi32(_mm512_add_epi32(y, _mm512_srai_epi32(sum, 31)), lanes->right);
}

/* Four registers of 16 words as 64 bytes, in order. */
INLINE __m512i pack512(__m512i a, __m512i b, __m512i c, __m512i d, __m512i low, __m512i high) {
    const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    return _mm512_permutexvar_epi32(words, _mm512_min_epi8(_mm512_max_epi8(bytes, low), high));
}

INLINE __m128i to_bytes512(__m512i words, __m128i low, __m128i high) {
    return _mm_min_epi8(_mm_max_epi8(_mm512_cvtsepi32_epi8(words), low), high);
}

INLINE void store512(int8_t *output, __m128i bytes, int64_t lanes) {
    if (lanes >= LANES)
        _mm_storeu_si128((__m128i *)output, bytes);
    else
        _mm_mask_storeu_epi8(output, (__mmask16)((1 << lanes) - 1), bytes);
}

/* Rescale the sums of a tile, by pixel and block. A function of its own: where it is part of the loop before it,
   compilers run out of registers there. */
static __attribute__((noinline)) void finish_tile512(const struct convolution *step, const __m512i *sums,
                                                     int64_t first_block, int64_t first_pixel, int64_t pixels,
                                                     int64_t blocks) {
    const __m128i low = _mm_set1_epi8((int8_t)step->low), high = _mm_set1_epi8((int8_t)step->high);
    for (int64_t b = 0; b < blocks; b++) {
        const struct lanes512 lanes = load_lanes512(step->rescaling + (first_block + b) * RESCALING);
        const int64_t channel = (first_block + b) * LANES;
        int8_t *output = (int8_t *)step->output + first_pixel * step->channels + channel;
        for (int64_t p = 0; p < pixels; p++)
            store512(output + p * step->channels,
                     to_bytes512(rescale512(sums[p * blocks + b], &lanes), low, high), step->channels - channel);
    }
}

/* The same for a plain rescaling and so many blocks: 64 outputs at a time. */
INLINE void finish_plain512(const struct convolution *step, const __m512i *sums, int64_t first_block,
                            int64_t first_pixel, int64_t pixels, int64_t from_pixel, const int blocks) {
    const __m512i low = _mm512_set1_epi8((int8_t)step->low), high = _mm512_set1_epi8((int8_t)step->high);
    const int64_t channels = step->channels, channel = first_block * LANES;
    const int at_once = blocks == 1 ? 4 : blocks == 2 ? 2 : 1;
    const int whole = channels - channel >= blocks * LANES;
    const uint64_t mask = whole ? ~(uint64_t)0 : ((uint64_t)1 << (channels - channel)) - 1;
    int8_t *output = (int8_t *)step->output + first_pixel * channels + channel;
    struct plain512 lanes[4];
    UNROLL for (int b = 0; b < blocks; b++) lanes[b] = load_plain512(step->rescaling + (first_block + b) * RESCALING);
    for (int64_t p = 0; p < pixels; p += at_once) {
        __m512i y[4];
        /* Behind the last pixel the last one again. */
        UNROLL for (int i = 0; i < 4; i++) {
            const int64_t pixel = smaller(p + i / blocks, pixels - 1);
            y[i] = i < at_once * blocks ? rescale_plain512(sums[pixel * from_pixel + i % blocks], &lanes[i % blocks])
                                        : y[0];
        }
        const __m512i bytes = pack512(y[0], y[1], y[2], y[3], low, high);
        if (blocks >= 3) {
            if (!whole)
                _mm512_mask_storeu_epi8(output, mask, bytes);
            else if (blocks == 4)
                _mm512_storeu_si512(output, bytes);
            else
                _mm512_mask_storeu_epi32(output, 0x0FFF, bytes);
            output += channels;
        } else if (blocks == 2) {
            UNROLL for (int i = 0; i < 2; i++) {
                if (p + i >= pixels) break;
                const __m256i some = i ? _mm512_extracti64x4_epi64(bytes, 1) : _mm512_castsi512_si256(bytes);
                if (whole)
                    _mm256_storeu_si256((__m256i *)output, some);
                else
                    _mm256_mask_storeu_epi8(output, (__mmask32)mask, some);
                output += channels;
            }
        } else {
            const __m128i some[4] = {_mm512_castsi512_si128(bytes), _mm512_extracti32x4_epi32(bytes, 1),
                                     _mm512_extracti32x4_epi32(bytes, 2), _mm512_extracti32x4_epi32(bytes, 3)};
            UNROLL for (int i = 0; i < 4; i++) {
                if (p + i >= pixels) break;
                if (whole)
                    _mm_storeu_si128((__m128i *)output, some[i]);
                else
                    _mm_mask_storeu_epi8(output, (__mmask16)mask, some[i]);
                output += channels;
            }
        }
    }
}

#define FINISH512(B)                                                                                           \
    static __attribute__((noinline)) void finish512_##B(const struct convolution *step, const __m512i *sums,   \
                                                        int64_t first_block, int64_t first_pixel, int64_t pixels, \
                                                        int64_t from_pixel) {                                  \
        finish_plain512(step, sums, first_block, first_pixel, pixels, from_pixel, B);                          \
    }
FINISH512(1) FINISH512(2) FINISH512(3) FINISH512(4)

/* `sums`: of its exact size, pixels times blocks. A larger array stays in memory with clang. */
INLINE void tile512(const struct convolution *step, const int8_t *weights, int64_t first_block, int64_t first_pixel,
                    __m512i *sums, const int pixels, const int blocks) {
    const int8_t *windows[MOST_PIXELS];
    __m512i sign = _mm512_set1_epi32((int32_t)0x80808080);
    KEEP(sign);
    const int32_t *rescaling = step->rescaling + first_block * RESCALING;
    UNROLL for (int p = 0; p < pixels; p++)
        windows[p] = (const int8_t *)step->input + step->pixels[first_pixel + p];
    UNROLL for (int i = 0; i < pixels * blocks; i++) {
        sums[i] = _mm512_loadu_si512(rescaling + i % blocks * RESCALING);
        KEEP(sums[i]);
    }
    const int32_t *segment = step->segments, *const last = segment + 2 * step->segment_count;
    do {
        int64_t at = segment[0];
        const int64_t end = segment[1];
        do {
            __m512i weight[MOST_BLOCKS];
            UNROLL for (int b = 0; b < blocks; b++) {
                weight[b] = _mm512_loadu_si512(weights + 64 * b);
                if (pixels <= 2) _mm_prefetch((const char *)weights + 64 * b + AHEAD, _MM_HINT_T0);
            }
            UNROLL for (int p = 0; p < pixels; p++) {
                int32_t four;
                memcpy(&four, windows[p] + at, 4);
                const __m512i values = _mm512_xor_si512(_mm512_set1_epi32(four), sign);
                UNROLL for (int b = 0; b < blocks; b++) {
                    sums[p * blocks + b] = _mm512_dpbusd_epi32(sums[p * blocks + b], values, weight[b]);
                    KEEP(sums[p * blocks + b]);
                    /* clang copies weights of many pixels to the stack. */
                    if (pixels > 8) KEEP(weight[b]);
                }
            }
            weights += 64 * blocks;
            at += 4;
        } while (at < end);
        segment += 2;
    } while (segment < last);
    /* A copy, so that the sums themselves have no address; a plain one is memcpy to clang, and they have. */
    __m512i results[MOST_PIXELS * MOST_BLOCKS];
    UNROLL for (int i = 0; i < pixels * blocks; i++) {
        results[i] = sums[i];
        KEEP(results[i]);
    }
    if (!step->plain)
        finish_tile512(step, results, first_block, first_pixel, pixels, blocks);
    else if (blocks == 1)
        finish512_1(step, results, first_block, first_pixel, pixels, blocks);
    else if (blocks == 2)
        finish512_2(step, results, first_block, first_pixel, pixels, blocks);
    else if (blocks == 3)
        finish512_3(step, results, first_block, first_pixel, pixels, blocks);
    else
        for (int b = 0; b < blocks; b += 4)
            finish512_4(step, results + b, first_block + b, first_pixel, pixels, blocks);
}

#define TILE512(P, B)                                                                                         \
    static void tile512_##P##x##B(const struct convolution *step, const int8_t *weights, int64_t first_block, \
                                  int64_t first_pixel) {                                                      \
        __m512i sums[P * B];                                                                                  \
        tile512(step, weights, first_block, first_pixel, sums, P, B);                                         \
    }
#define TILES512(B) TILE512(1, B) TILE512(2, B) TILE512(3, B) TILE512(4, B) TILE512(5, B) TILE512(6, B)
#define MORE_TILES512(B) TILE512(7, B) TILE512(8, B)
#define MOST_TILES512(B) TILE512(9, B) TILE512(10, B) TILE512(11, B) TILE512(12, B)
TILES512(1) MORE_TILES512(1) MOST_TILES512(1)
TILES512(2) MORE_TILES512(2) MOST_TILES512(2)
TILES512(3) MORE_TILES512(3)
TILES512(4)
TILE512(1, 8)
TILE512(2, 8)

#define ROW512(B) tile512_1x##B, tile512_2x##B, tile512_3x##B, tile512_4x##B, tile512_5x##B, tile512_6x##B
#define MORE_ROW512(B) tile512_7x##B, tile512_8x##B
#define MOST_ROW512(B) tile512_9x##B, tile512_10x##B, tile512_11x##B, tile512_12x##B
static const tile_function TILES512_BY_SIZE[MOST_BLOCKS][MOST_PIXELS] = {
    [0] = {ROW512(1), MORE_ROW512(1), MOST_ROW512(1)},
    [1] = {ROW512(2), MORE_ROW512(2), MOST_ROW512(2)},
    [2] = {ROW512(3), MORE_ROW512(3)},
    [3] = {ROW512(4)},
    [7] = {tile512_1x8, tile512_2x8},
};

static void run_convolution512(const void *arguments, const struct share *share) {
    const struct convolution *step = arguments;
    run_tiles(step, share, TILES512_BY_SIZE);
}

/* Four rows of 16 bytes become 16 words of four bytes, less their sign. */
INLINE __m512i turn512(__m128i a, __m128i b, __m128i c, __m128i d) {
    __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    KEEP(words);
    KEEP(bytes);
    __m512i rows = _mm512_castsi128_si512(a);
    rows = _mm512_inserti32x4(rows, b, 1);
    rows = _mm512_inserti32x4(rows, c, 2);
    rows = _mm512_inserti32x4(rows, d, 3);
    rows = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(words, rows), bytes);
    return _mm512_xor_si512(rows, _mm512_set1_epi32((int32_t)0x80808080));
}

INLINE void depthwise_pixels512(const struct depthwise *step, int64_t block, int64_t first_pixel, const int pixels) {
    const int32_t *rescaling = step->rescaling + block * RESCALING;
    const int8_t *weights = (const int8_t *)step->weights + block * step->tap_groups * 64;
    const int8_t *windows[4];
    __m512i sums[4];
    UNROLL for (int p = 0; p < pixels; p++) {
        windows[p] = (const int8_t *)step->input + step->pixels[first_pixel + p] + block * LANES;
        sums[p] = _mm512_loadu_si512(rescaling);
    }
    for (int64_t group = 0; group < step->tap_groups; group++) {
        const int32_t *taps = step->taps + 4 * group;
        const __m512i weight = _mm512_loadu_si512(weights + 64 * group);
        UNROLL for (int p = 0; p < pixels; p++) {
            const int8_t *window = windows[p];
            const __m512i values = turn512(_mm_loadu_si128((const __m128i *)(window + taps[0])),
                                           _mm_loadu_si128((const __m128i *)(window + taps[1])),
                                           _mm_loadu_si128((const __m128i *)(window + taps[2])),
                                           _mm_loadu_si128((const __m128i *)(window + taps[3])));
            sums[p] = _mm512_dpbusd_epi32(sums[p], values, weight);
        }
    }
    const struct lanes512 lanes = load_lanes512(rescaling);
    const __m128i low = _mm_set1_epi8((int8_t)step->low), high = _mm_set1_epi8((int8_t)step->high);
    int8_t *output = (int8_t *)step->output + first_pixel * step->channels + block * LANES;
    UNROLL for (int p = 0; p < pixels; p++)
        store512(output + p * step->channels, to_bytes512(rescale512(sums[p], &lanes), low, high),
                 step->channels - block * LANES);
}

static void run_depthwise512(const void *arguments, const struct share *share) {
    const struct depthwise *step = arguments;
    const int64_t blocks = (step->channels + LANES - 1) / LANES;
    const int64_t begin = first_of(share, step->pixel_count), end = end_of(share, step->pixel_count);
    for (int64_t block = 0; block < blocks; block++) {
        int64_t pixel = begin;
        for (; pixel + 4 <= end; pixel += 4) depthwise_pixels512(step, block, pixel, 4);
        for (; pixel < end; pixel++) depthwise_pixels512(step, block, pixel, 1);
    }
}

/* One column of four rows, 16 channels each; columns beyond the edge are border. */
INLINE __m512i column512(const int8_t *const rows[4], int64_t column, int64_t width, int64_t channels, __mmask16 mask,
                         __m512i border, const int whole) {
    if (__builtin_expect((uint64_t)column >= (uint64_t)width, 0)) return border;
    const int64_t at = column * channels;
    if (whole)
        return turn512(_mm_loadu_si128((const __m128i *)(rows[0] + at)), _mm_loadu_si128((const __m128i *)(rows[1] + at)),
                       _mm_loadu_si128((const __m128i *)(rows[2] + at)), _mm_loadu_si128((const __m128i *)(rows[3] + at)));
    return turn512(_mm_maskz_loadu_epi8(mask, rows[0] + at), _mm_maskz_loadu_epi8(mask, rows[1] + at),
                   _mm_maskz_loadu_epi8(mask, rows[2] + at), _mm_maskz_loadu_epi8(mask, rows[3] + at));
}

/* The rescaled words of four outputs, as bytes. */
struct finish512 {
    struct lanes512 lanes;
    struct plain512 plain;
    __m512i low, high;
};

INLINE __m512i finish_four512(const __m512i sums[4], const struct finish512 *finish, const int plain) {
    __m512i y[4];
    UNROLL for (int i = 0; i < 4; i++)
        y[i] = plain ? rescale_plain512(sums[i], &finish->plain) : rescale512(sums[i], &finish->lanes);
    return pack512(y[0], y[1], y[2], y[3], finish->low, finish->high);
}

INLINE __m128i quarter512(__m512i bytes, const int number) {
    return number == 0   ? _mm512_castsi512_si128(bytes)
           : number == 1 ? _mm512_extracti32x4_epi32(bytes, 1)
           : number == 2 ? _mm512_extracti32x4_epi32(bytes, 2)
                         : _mm512_extracti32x4_epi32(bytes, 3);
}

/* A row of outputs, or two where the stride is 1, of one block. */
INLINE void depthwise_row512(const struct depthwise_3x3 *step, const int8_t *const lines[4], int8_t *output,
                             int8_t *second, int64_t channel, const int stride, const int whole, const int plain) {
    const int64_t channels = step->channels, width = step->width, count = channels - channel;
    const int64_t out_width = step->out_width;
    const __mmask16 mask = whole ? 0xFFFF : (__mmask16)((1 << count) - 1);
    const int32_t *rescaling = step->rescaling + channel / LANES * RESCALING;
    const int8_t *weights = step->weights + channel / LANES * 6 * 64;
    const __m512i border = _mm512_set1_epi8((int8_t)(step->zero ^ 0x80)), start = _mm512_loadu_si512(rescaling);
    struct finish512 finish;
    finish.low = _mm512_set1_epi8((int8_t)step->low), finish.high = _mm512_set1_epi8((int8_t)step->high);
    if (plain)
        finish.plain = load_plain512(rescaling);
    else
        finish.lanes = load_lanes512(rescaling);
    const int8_t *rows[4] = {lines[0] + channel, lines[1] + channel, lines[2] + channel, lines[3] + channel};
    const __m512i w0 = _mm512_loadu_si512(weights), w1 = _mm512_loadu_si512(weights + 64),
                  w2 = _mm512_loadu_si512(weights + 128);
    const __m512i v0 = _mm512_loadu_si512(weights + 192), v1 = _mm512_loadu_si512(weights + 256),
                  v2 = _mm512_loadu_si512(weights + 320);
    int64_t column = -step->left;
    __m512i a = column512(rows, column, width, channels, mask, border, whole), b = a, sums[4];
    if (stride == 1) b = column512(rows, column + 1, width, channels, mask, border, whole);
    output += channel;
    second += channel;
    if (stride == 1) {
        for (int64_t i = 0; i < out_width; i += 2, column += 2) {
            const __m512i c = column512(rows, column + 2, width, channels, mask, border, whole);
            const __m512i d = column512(rows, column + 3, width, channels, mask, border, whole);
            sums[0] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, a, w0), b, w1), c, w2);
            sums[1] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, a, v0), b, v1), c, v2);
            sums[2] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, b, w0), c, w1), d, w2);
            sums[3] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, b, v0), c, v1), d, v2);
            const __m512i bytes = finish_four512(sums, &finish, plain);
            /* The lower row first: where it is missing, both are one, and the upper overwrites it. */
            store512(second, quarter512(bytes, 1), whole ? LANES : count);
            store512(output, quarter512(bytes, 0), whole ? LANES : count);
            if (i + 1 < out_width) {
                store512(second + channels, quarter512(bytes, 3), whole ? LANES : count);
                store512(output + channels, quarter512(bytes, 2), whole ? LANES : count);
            }
            output += 2 * channels;
            second += 2 * channels;
            a = c;
            b = d;
        }
        return;
    }
    for (int64_t i = 0; i < out_width; i += 4) {
        UNROLL for (int j = 0; j < 4; j++, column += 2) {
            const __m512i middle = column512(rows, column + 1, width, channels, mask, border, whole);
            const __m512i last = column512(rows, column + 2, width, channels, mask, border, whole);
            sums[j] =
                _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, a, w0), middle, w1), last, w2);
            a = last;
        }
        const __m512i bytes = finish_four512(sums, &finish, plain);
        UNROLL for (int j = 0; j < 4; j++) {
            if (i + j >= out_width) break;
            store512(output, quarter512(bytes, j), whole ? LANES : count);
            output += channels;
        }
    }
}

#define DEPTHWISE_ROW512(STRIDE, WHOLE, PLAIN)                                                                   \
    static void depthwise_row512_##STRIDE##_##WHOLE##_##PLAIN(const struct depthwise_3x3 *step,                  \
                                                              const int8_t *const lines[4], int8_t *output,      \
                                                              int8_t *second, int64_t channel) {                 \
        depthwise_row512(step, lines, output, second, channel, STRIDE, WHOLE, PLAIN);                            \
    }
DEPTHWISE_ROW512(1, 0, 0) DEPTHWISE_ROW512(1, 0, 1) DEPTHWISE_ROW512(1, 1, 0) DEPTHWISE_ROW512(1, 1, 1)
DEPTHWISE_ROW512(2, 0, 0) DEPTHWISE_ROW512(2, 0, 1) DEPTHWISE_ROW512(2, 1, 0) DEPTHWISE_ROW512(2, 1, 1)

typedef void (*row_function)(const struct depthwise_3x3 *, const int8_t *const[4], int8_t *, int8_t *, int64_t);

/* By stride less 1, whether the block is whole, whether the rescaling is plain. */
static const row_function ROWS512[2][2][2] = {
    {{depthwise_row512_1_0_0, depthwise_row512_1_0_1}, {depthwise_row512_1_1_0, depthwise_row512_1_1_1}},
    {{depthwise_row512_2_0_0, depthwise_row512_2_0_1}, {depthwise_row512_2_1_0, depthwise_row512_2_1_1}},
};

static void run_depthwise_3x3_512(const void *arguments, const struct share *share) {
    const struct depthwise_3x3 *step = arguments;
    const int64_t channels = step->channels, stride = step->stride, rows_at_once = stride == 1 ? 2 : 1;
    const int64_t bands = (step->out_height + rows_at_once - 1) / rows_at_once, items = step->batches * bands;
    for (int64_t item = first_of(share, items); item < end_of(share, items); item++) {
        const int64_t batch = item / bands, out_row = item % bands * rows_at_once;
        const int8_t *lines[4];
        for (int r = 0; r < 4; r++) {
            const int64_t row = out_row * stride - step->top + r;
            const int inside = row >= 0 && row < step->height && (r < 3 || stride == 1);
            lines[r] = inside ? step->input + (batch * step->height + row) * step->width * channels : step->border;
        }
        int8_t *output = step->output + (batch * step->out_height + out_row) * step->out_width * channels;
        const int both = stride == 1 && out_row + 1 < step->out_height;
        int8_t *second = both ? output + step->out_width * channels : output;
        for (int64_t channel = 0; channel < channels; channel += LANES)
            ROWS512[stride - 1][channels - channel >= LANES][step->plain](step, lines, output, second, channel);
    }
}

static void run_addition512(const void *arguments, const struct share *share) {
    const struct addition *step = arguments;
    const __m512 factor1 = _mm512_set1_ps(step->factor1), factor2 = _mm512_set1_ps(step->factor2);
    const __m512 offset = _mm512_set1_ps(step->offset);
    const __m128i low = _mm_set1_epi8((int8_t)step->low), high = _mm_set1_epi8((int8_t)step->high);
    const int64_t end = end_of(share, step->count);
    for (int64_t i = first_of(share, step->count); i < end; i += LANES) {
        const __mmask16 mask = end - i >= LANES ? 0xFFFF : (__mmask16)((1 << (end - i)) - 1);
        const __m512 a = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, step->first + i)));
        const __m512 b = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, step->second + i)));
        const __m512i sum = _mm512_cvtps_epi32(_mm512_fmadd_ps(a, factor1, _mm512_fmadd_ps(b, factor2, offset)));
        store512(step->output + i, to_bytes512(sum, low, high), end - i);
    }
}

static void run_pool512(const struct pool *step, const struct share *share, const int is_mean) {
    const int64_t channels = step->channels, rows = step->batches * step->out_height;
    const __m128i low = _mm_set1_epi8((int8_t)step->low), high = _mm_set1_epi8((int8_t)step->high);
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int64_t top = row % step->out_height * step->stride_h - step->top;
        const int64_t y0 = larger(top, 0), y1 = smaller(top + step->filter_h, step->height);
        const int8_t *image = (const int8_t *)step->input + row / step->out_height * step->height * step->width * channels;
        for (int64_t column = 0; column < step->out_width; column++) {
            const int64_t left = column * step->stride_w - step->left;
            const int64_t x0 = larger(left, 0), x1 = smaller(left + step->filter_w, step->width);
            const int32_t taps = (int32_t)((y1 - y0) * (x1 - x0));
            int8_t *output = (int8_t *)step->output + (row * step->out_width + column) * channels;
            for (int64_t channel = 0; channel < channels; channel += LANES) {
                const int64_t count = channels - channel;
                const __mmask16 mask = count >= LANES ? 0xFFFF : (__mmask16)((1 << count) - 1);
                __m128i bytes = _mm_set1_epi8(-128);
                __m512i sum = _mm512_setzero_si512();
                for (int64_t y = y0; y < y1; y++)
                    for (int64_t x = x0; x < x1; x++) {
                        const __m128i values =
                            _mm_maskz_loadu_epi8(mask, image + (y * step->width + x) * channels + channel);
                        if (is_mean)
                            sum = _mm512_add_epi32(sum, _mm512_cvtepi8_epi32(values));
                        else
                            bytes = _mm_max_epi8(bytes, values);
                    }
                if (is_mean) {
                    /* Half of the count away from zero, then truncated: exact in float32 up to 2**16 taps. */
                    const __m512i half = _mm512_set1_epi32(taps / 2);
                    const __mmask16 below = _mm512_movepi32_mask(sum);
                    sum = _mm512_mask_sub_epi32(_mm512_add_epi32(sum, half), below, sum, half);
                    bytes = _mm512_cvtsepi32_epi8(_mm512_cvttps_epi32(
                        _mm512_div_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps((float)taps))));
                }
                store512(output + channel, _mm_min_epi8(_mm_max_epi8(bytes, low), high), count);
            }
        }
    }
}

static void run_average_pool512(const void *arguments, const struct share *share) { run_pool512(arguments, share, 1); }
static void run_max_pool512(const void *arguments, const struct share *share) { run_pool512(arguments, share, 0); }
