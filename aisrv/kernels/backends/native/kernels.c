/* The int8 kernels of the backend `native`, for x86-64 with AVX-512 VNNI or with AVX2.

   Bit for bit what TensorFlow Lite Micro computes: sums of products in int32, rescaled with two roundings. Python
   prepares everything (packed weights, tables of offsets, constants of the rescaling) and proves that no number here
   leaves its range, but for recurrent layers, where words wrap; a run is a list of steps. Nothing here allocates,
   fails or keeps state, but for the threads of a team. Source: "Speed of the INT8 kernels".

   Words used here and in kernels.h:
     block      16 output channels, the lanes of a register of 512 bits
     tile       the sums of some pixels and blocks that are computed at once, in registers
     segment    bytes of one window that follow each other in memory
     chunk      pixels whose inputs stay in a core's first cache while all their channels are computed
     rescaling  five words for each lane of a block: start of the sum, multiplier, shifts left and right, half */

#include "kernels.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
/* clang heeds GCC's pragma too late: arrays of sums have to become registers after it. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
/* Keeps a value in its register: compilers like to copy sums to the stack, each time round a loop, and to compute
   constants anew; and clang puts several instructions for one where it knows how lanes are moved. */
#define KEEP(value) __asm__("" : "+v"(value))

enum { LANES = 16, RESCALING = 5 * LANES, MOST_PIXELS = 12, MOST_BLOCKS = 8 };
enum { AHEAD = 256 }; /* bytes: weights that are used once or twice are fetched in the order of memory */

/* The piece of a step that is to be computed. Pieces are independent of each other. */
struct share {
    int64_t piece;
    int64_t pieces;
};

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t first_of(const struct share *share, int64_t count) { return count * share->piece / share->pieces; }
INLINE int64_t end_of(const struct share *share, int64_t count) {
    return count * (share->piece + 1) / share->pieces;
}

/* Steps that every processor computes alike. */

static void run_copy(const void *arguments, const struct share *share) {
    const struct copy *step = arguments;
    if (share->piece == 0) memcpy(step->output, step->input, step->count);
}

static void run_padding(const void *arguments, const struct share *share) {
    const struct padding *step = arguments;
    const int64_t rows = step->batches * step->out_height, right = step->out_width - step->left - step->width;
    for (int64_t i = first_of(share, rows); i < end_of(share, rows); i++) {
        int8_t *output = step->output + i * step->out_width;
        const int64_t row = i % step->out_height - step->top;
        if (row < 0 || row >= step->height) {
            memset(output, (int)step->fill, step->out_width);
            continue;
        }
        memset(output, (int)step->fill, step->left);
        memcpy(output + step->left, step->input + (i / step->out_height * step->height + row) * step->width, step->width);
        memset(output + step->left + step->width, (int)step->fill, right);
    }
}

static void run_pairs(const void *arguments, const struct share *share) {
    const struct pairs *step = arguments;
    const uint8_t *first = step->first, *second = step->second;
    const int64_t begin = first_of(share, step->count), end = end_of(share, step->count);
    if (step->first_count == step->second_count) {
        for (int64_t i = begin; i < end; i++) step->output[i] = step->table[first[i] << 8 | second[i]];
        return;
    }
    int64_t a = begin % step->first_count, b = begin % step->second_count;
    for (int64_t i = begin; i < end; i++) {
        step->output[i] = step->table[first[a] << 8 | second[b]];
        if (++a == step->first_count) a = 0;
        if (++b == step->second_count) b = 0;
    }
}

static void run_softmax(const void *arguments, const struct share *share) {
    const struct softmax *step = arguments;
    const int64_t half = 1 << 30;
    for (int64_t row = first_of(share, step->rows); row < end_of(share, step->rows); row++) {
        const int8_t *input = step->input + row * step->classes;
        int8_t *output = step->output + row * step->classes;
        int32_t largest = -128;
        for (int64_t i = 0; i < step->classes; i++) largest = input[i] > largest ? input[i] : largest;
        uint32_t total = 0; /* a word, which wraps */
        for (int64_t i = 0; i < step->classes; i++) total += (uint32_t)step->rounded[largest - input[i]];
        const int zeros = total ? __builtin_clz(total) : 32;
        /* 1 / (1 + a) by three steps of Newton's, in fixed point. */
        const int64_t middle = (((int64_t)total << zeros) - ((int64_t)1 << 31) + ((int64_t)1 << 31)) >> 1;
        int64_t x = 1515870810 + ((middle * -1010580540 + half) >> 31);
        for (int i = 0; i < 3; i++) x += ((x * ((1 << 29) - ((middle * x + half) >> 31)) + half) >> 31) * 4;
        const int64_t factor = smaller(x * 2, INT32_MAX);
        const int shift = 35 - zeros;
        for (int64_t i = 0; i < step->classes; i++) {
            const int64_t product = (step->exponentials[largest - input[i]] * factor + half) >> 31;
            const int64_t result = (product + ((int64_t)1 << (shift - 1))) >> shift;
            output[i] = (int8_t)(smaller(result, 255) - 128);
        }
    }
}

#if defined(__x86_64__)

#include <immintrin.h>

typedef void (*tile_function)(const struct convolution *, const int8_t *, int64_t, int64_t);

/* All tiles of a convolution: chunks of pixels, in each all groups of blocks. A last tile that would go over the end
   moves back and computes some pixels twice. */
INLINE void run_tiles(const struct convolution *step, const struct share *share,
                      const tile_function tiles[][MOST_PIXELS]) {
    const int64_t chunks = (step->pixel_count + step->chunk - 1) / step->chunk, items = chunks * step->group_count;
    for (int64_t item = first_of(share, items); item < end_of(share, items); item++) {
        const int64_t *group = step->groups + 4 * (item % step->group_count);
        const int64_t begin = item / step->group_count * step->chunk;
        const int64_t end = smaller(begin + step->chunk, step->pixel_count), pixels = group[0];
        const int8_t *weights = (const int8_t *)step->weights + group[3];
        const tile_function tile = tiles[group[1] - 1][pixels - 1];
        for (int64_t pixel = begin; pixel < end; pixel += pixels)
            tile(step, weights, group[2], larger(0, smaller(pixel, end - pixels)));
    }
}

/* Processors with AVX-512 VNNI: products of four bytes at once. */

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")
#endif

static void copy_bytes(const void *arguments, const struct share *share) {
    const struct picture *picture = arguments; /* the first field of what needs one */
    const int64_t rows = picture->batches * picture->height, width = picture->width, repeats = picture->repeats;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int8_t *source = picture->source + row * width;
        int8_t *copy = (int8_t *)picture->copy + row / picture->height * picture->plane +
                       row % picture->height * picture->line;
        if (repeats == 1)
            memcpy(copy, source, width);
        else
            for (int64_t i = 0; i < width; i++) memset(copy + i * repeats, source[i], repeats);
    }
}

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
        int8_t *output = step->output + first_pixel * step->channels + channel;
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
    int8_t *output = step->output + first_pixel * channels + channel;
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
    int8_t *output = step->output + first_pixel * step->channels + block * LANES;
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
        const int8_t *image = step->input + row / step->out_height * step->height * step->width * channels;
        for (int64_t column = 0; column < step->out_width; column++) {
            const int64_t left = column * step->stride_w - step->left;
            const int64_t x0 = larger(left, 0), x1 = smaller(left + step->filter_w, step->width);
            const int32_t taps = (int32_t)((y1 - y0) * (x1 - x0));
            int8_t *output = step->output + (row * step->out_width + column) * channels;
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

#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

/* Processors with AVX2: products of pairs of int16, so that inputs are widened as they are copied. */

static void copy_words(const void *arguments, const struct share *share) {
    const struct picture *picture = arguments;
    const int64_t rows = picture->batches * picture->height, width = picture->width, repeats = picture->repeats;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int8_t *source = picture->source + row * width;
        int16_t *copy = (int16_t *)picture->copy + row / picture->height * picture->plane +
                        row % picture->height * picture->line;
        int64_t i = 0;
        if (repeats == 1)
            for (; i + LANES <= width; i += LANES)
                _mm256_storeu_si256((__m256i *)(copy + i),
                                    _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(source + i))));
        for (; i < width; i++)
            for (int64_t j = 0; j < repeats; j++) copy[i * repeats + j] = source[i];
    }
}

/* Half a block: eight lanes. */
INLINE __m256i rescale256(__m256i sum, const int32_t *rescaling) {
    const __m256i one = _mm256_set1_epi64x((int64_t)1 << 31);
    const __m256i multiplier = _mm256_loadu_si256((const __m256i *)(rescaling + LANES));
    const __m256i left = _mm256_loadu_si256((const __m256i *)(rescaling + 2 * LANES));
    const __m256i right = _mm256_loadu_si256((const __m256i *)(rescaling + 3 * LANES));
    const __m256i half = _mm256_loadu_si256((const __m256i *)(rescaling + 4 * LANES));
    const __m256i a = _mm256_sllv_epi32(sum, left);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(a, multiplier), one);
    const __m256i odd = _mm256_add_epi64(
        _mm256_mul_epi32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(multiplier, 32)), one);
    __m256i y = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    const __m256i rounded = _mm256_cmpgt_epi32(right, _mm256_setzero_si256());
    y = _mm256_add_epi32(y, _mm256_and_si256(_mm256_srai_epi32(y, 31), rounded));
    return _mm256_srav_epi32(_mm256_add_epi32(y, half), right);
}

INLINE __m128i to_bytes256(__m256i first, __m256i second, __m128i low, __m128i high) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xD8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return _mm_min_epi8(_mm_max_epi8(bytes, low), high);
}

INLINE void store256(int8_t *output, __m128i bytes, int64_t lanes) {
    if (lanes >= LANES) {
        _mm_storeu_si128((__m128i *)output, bytes);
    } else {
        int8_t some[LANES];
        _mm_storeu_si128((__m128i *)some, bytes);
        memcpy(output, some, lanes);
    }
}

/* Of 16 bytes, those that exist; the others are 0. */
INLINE __m128i load256(const int8_t *input, int64_t lanes) {
    if (lanes >= LANES) return _mm_loadu_si128((const __m128i *)input);
    int8_t some[LANES] = {0};
    memcpy(some, input, lanes);
    return _mm_loadu_si128((const __m128i *)some);
}

static __attribute__((noinline)) void finish_tile256(const struct convolution *step, const __m256i *sums,
                                                     int64_t first_block, int64_t first_pixel, int64_t pixels,
                                                     int64_t blocks) {
    const __m128i low = _mm_set1_epi8((int8_t)step->low), high = _mm_set1_epi8((int8_t)step->high);
    for (int64_t b = 0; b < blocks; b++) {
        const int32_t *rescaling = step->rescaling + (first_block + b) * RESCALING;
        const int64_t channel = (first_block + b) * LANES;
        int8_t *output = step->output + first_pixel * step->channels + channel;
        for (int64_t p = 0; p < pixels; p++) {
            const __m256i *both = sums + 2 * (p * blocks + b);
            store256(output + p * step->channels,
                     to_bytes256(rescale256(both[0], rescaling), rescale256(both[1], rescaling + 8), low, high),
                     step->channels - channel);
        }
    }
}

INLINE void tile256(const struct convolution *step, const int8_t *weights, int64_t first_block, int64_t first_pixel,
                    __m256i *sums, const int pixels, const int blocks) {
    const int16_t *windows[6];
    const int32_t *rescaling = step->rescaling + first_block * RESCALING;
    UNROLL for (int p = 0; p < pixels; p++)
        windows[p] = (const int16_t *)step->input + step->pixels[first_pixel + p];
    UNROLL for (int i = 0; i < 2 * pixels * blocks; i++) {
        const int b = i % (2 * blocks);
        sums[i] = _mm256_loadu_si256((const __m256i *)(rescaling + b / 2 * RESCALING + b % 2 * 8));
        KEEP(sums[i]);
    }
    const int32_t *segment = step->segments, *const last = segment + 2 * step->segment_count;
    do {
        int64_t at = segment[0];
        const int64_t end = segment[1];
        do {
            __m256i weight[8];
            UNROLL for (int b = 0; b < 2 * blocks; b++)
                weight[b] = _mm256_loadu_si256((const __m256i *)(weights + 32 * b));
            UNROLL for (int p = 0; p < pixels; p++) {
                int32_t two;
                memcpy(&two, windows[p] + at, 4);
                const __m256i values = _mm256_set1_epi32(two);
                UNROLL for (int b = 0; b < 2 * blocks; b++) {
                    sums[2 * p * blocks + b] = _mm256_add_epi32(sums[2 * p * blocks + b], _mm256_madd_epi16(values, weight[b]));
                    KEEP(sums[2 * p * blocks + b]);
                }
            }
            weights += 64 * blocks;
            at += 2;
        } while (at < end);
        segment += 2;
    } while (segment < last);
    __m256i results[6 * 2];
    UNROLL for (int i = 0; i < 2 * pixels * blocks; i++) {
        results[i] = sums[i];
        KEEP(results[i]);
    }
    finish_tile256(step, results, first_block, first_pixel, pixels, blocks);
}

#define TILE256(P, B)                                                                                         \
    static void tile256_##P##x##B(const struct convolution *step, const int8_t *weights, int64_t first_block, \
                                  int64_t first_pixel) {                                                      \
        __m256i sums[2 * P * B];                                                                              \
        tile256(step, weights, first_block, first_pixel, sums, P, B);                                         \
    }
TILE256(1, 1) TILE256(2, 1) TILE256(3, 1) TILE256(4, 1) TILE256(5, 1) TILE256(6, 1)
TILE256(1, 4)

static const tile_function TILES256_BY_SIZE[MOST_BLOCKS][MOST_PIXELS] = {
    [0] = {tile256_1x1, tile256_2x1, tile256_3x1, tile256_4x1, tile256_5x1, tile256_6x1},
    [3] = {tile256_1x4},
};

static void run_convolution256(const void *arguments, const struct share *share) {
    const struct convolution *step = arguments;
    run_tiles(step, share, TILES256_BY_SIZE);
}

INLINE void depthwise_pixels256(const struct depthwise *step, int64_t block, int64_t first_pixel, const int pixels) {
    const int32_t *rescaling = step->rescaling + block * RESCALING;
    const int8_t *weights = (const int8_t *)step->weights + block * step->tap_groups * 64;
    const int16_t *windows[2];
    __m256i lower[2], upper[2];
    UNROLL for (int p = 0; p < pixels; p++) {
        windows[p] = (const int16_t *)step->input + step->pixels[first_pixel + p] + block * LANES;
        lower[p] = upper[p] = _mm256_setzero_si256();
    }
    for (int64_t group = 0; group < step->tap_groups; group++) {
        const int32_t *taps = step->taps + 2 * group;
        const __m256i first = _mm256_loadu_si256((const __m256i *)(weights + 64 * group));
        const __m256i second = _mm256_loadu_si256((const __m256i *)(weights + 64 * group + 32));
        UNROLL for (int p = 0; p < pixels; p++) {
            const __m256i a = _mm256_loadu_si256((const __m256i *)(windows[p] + taps[0]));
            const __m256i b = _mm256_loadu_si256((const __m256i *)(windows[p] + taps[1]));
            lower[p] = _mm256_add_epi32(lower[p], _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), first));
            upper[p] = _mm256_add_epi32(upper[p], _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), second));
        }
    }
    const __m256i start1 = _mm256_loadu_si256((const __m256i *)rescaling);
    const __m256i start2 = _mm256_loadu_si256((const __m256i *)(rescaling + 8));
    const __m128i low = _mm_set1_epi8((int8_t)step->low), high = _mm_set1_epi8((int8_t)step->high);
    int8_t *output = step->output + first_pixel * step->channels + block * LANES;
    UNROLL for (int p = 0; p < pixels; p++) {
        const __m256i sum1 = _mm256_add_epi32(_mm256_permute2x128_si256(lower[p], upper[p], 0x20), start1);
        const __m256i sum2 = _mm256_add_epi32(_mm256_permute2x128_si256(lower[p], upper[p], 0x31), start2);
        store256(output + p * step->channels,
                 to_bytes256(rescale256(sum1, rescaling), rescale256(sum2, rescaling + 8), low, high),
                 step->channels - block * LANES);
    }
}

static void run_depthwise256(const void *arguments, const struct share *share) {
    const struct depthwise *step = arguments;
    const int64_t blocks = (step->channels + LANES - 1) / LANES;
    const int64_t begin = first_of(share, step->pixel_count), end = end_of(share, step->pixel_count);
    for (int64_t block = 0; block < blocks; block++) {
        int64_t pixel = begin;
        for (; pixel + 2 <= end; pixel += 2) depthwise_pixels256(step, block, pixel, 2);
        for (; pixel < end; pixel++) depthwise_pixels256(step, block, pixel, 1);
    }
}

INLINE __m256i add_lanes256(__m128i a, __m128i b, const struct addition *step) {
    const __m256 first = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(a));
    const __m256 second = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b));
    const __m256 offset = _mm256_fmadd_ps(second, _mm256_set1_ps(step->factor2), _mm256_set1_ps(step->offset));
    return _mm256_cvtps_epi32(_mm256_fmadd_ps(first, _mm256_set1_ps(step->factor1), offset));
}

static void run_addition256(const void *arguments, const struct share *share) {
    const struct addition *step = arguments;
    const __m128i low = _mm_set1_epi8((int8_t)step->low), high = _mm_set1_epi8((int8_t)step->high);
    const int64_t end = end_of(share, step->count);
    for (int64_t i = first_of(share, step->count); i < end; i += LANES) {
        const __m128i a = load256(step->first + i, end - i), b = load256(step->second + i, end - i);
        const __m256i sum1 = add_lanes256(a, b, step);
        const __m256i sum2 = add_lanes256(_mm_srli_si128(a, 8), _mm_srli_si128(b, 8), step);
        store256(step->output + i, to_bytes256(sum1, sum2, low, high), end - i);
    }
}

INLINE __m256i mean256(__m256i sum, int32_t taps) {
    const __m256i half = _mm256_set1_epi32(taps / 2), below = _mm256_srai_epi32(sum, 31);
    sum = _mm256_add_epi32(sum, _mm256_sub_epi32(_mm256_xor_si256(half, below), below));
    return _mm256_cvttps_epi32(_mm256_div_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps((float)taps)));
}

static void run_pool256(const struct pool *step, const struct share *share, const int is_mean) {
    const int64_t channels = step->channels, rows = step->batches * step->out_height;
    const __m128i low = _mm_set1_epi8((int8_t)step->low), high = _mm_set1_epi8((int8_t)step->high);
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int64_t top = row % step->out_height * step->stride_h - step->top;
        const int64_t y0 = larger(top, 0), y1 = smaller(top + step->filter_h, step->height);
        const int8_t *image = step->input + row / step->out_height * step->height * step->width * channels;
        for (int64_t column = 0; column < step->out_width; column++) {
            const int64_t left = column * step->stride_w - step->left;
            const int64_t x0 = larger(left, 0), x1 = smaller(left + step->filter_w, step->width);
            const int32_t taps = (int32_t)((y1 - y0) * (x1 - x0));
            int8_t *output = step->output + (row * step->out_width + column) * channels;
            for (int64_t channel = 0; channel < channels; channel += LANES) {
                const int64_t count = channels - channel;
                __m128i bytes = _mm_set1_epi8(-128);
                __m256i sum1 = _mm256_setzero_si256(), sum2 = sum1;
                for (int64_t y = y0; y < y1; y++)
                    for (int64_t x = x0; x < x1; x++) {
                        const __m128i values = load256(image + (y * step->width + x) * channels + channel, count);
                        if (is_mean) {
                            sum1 = _mm256_add_epi32(sum1, _mm256_cvtepi8_epi32(values));
                            sum2 = _mm256_add_epi32(sum2, _mm256_cvtepi8_epi32(_mm_srli_si128(values, 8)));
                        } else {
                            bytes = _mm_max_epi8(bytes, values);
                        }
                    }
                if (is_mean)
                    bytes = to_bytes256(mean256(sum1, taps), mean256(sum2, taps), low, high);
                store256(output + channel, _mm_min_epi8(_mm_max_epi8(bytes, low), high), count);
            }
        }
    }
}

static void run_average_pool256(const void *arguments, const struct share *share) { run_pool256(arguments, share, 1); }
static void run_max_pool256(const void *arguments, const struct share *share) { run_pool256(arguments, share, 0); }

/* Recurrent layers. */

INLINE int64_t within(int64_t value, int64_t low, int64_t high) { return smaller(larger(value, low), high); }
/* The lower 32 bits, as a word with a sign: a device's sums wrap. */
INLINE int64_t word(uint64_t value) { return (int32_t)(uint32_t)value; }
INLINE int64_t rescaled(int64_t value, const struct factor *factor) {
    value = word((uint64_t)value << factor->left);
    value = (value * factor->mantissa + (1 << 30)) >> 31;
    if (factor->right) value = (value + (((int64_t)1 << factor->right) >> 1) - (value < 0)) >> factor->right;
    return value;
}

/* Widen a row of `count` elements; those up to the next multiple of 16 stay zeros. */
INLINE void widen(int16_t *row, const int8_t *source, int64_t count, int64_t zero) {
    for (int64_t i = 0; i < count; i++) row[i] = (int16_t)(source[i] - zero);
}

INLINE int64_t dot(const int16_t *a, const int16_t *b, int64_t width) {
    __m256i sum = _mm256_setzero_si256();
    for (int64_t i = 0; i < width; i += LANES) {
        const __m256i first = _mm256_loadu_si256((const __m256i *)(a + i));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(first, _mm256_loadu_si256((const __m256i *)(b + i))));
    }
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const __m128i two = _mm_add_epi32(four, _mm_srli_si128(four, 8));
    return (int32_t)_mm_cvtsi128_si32(_mm_add_epi32(two, _mm_srli_si128(two, 4)));
}

static void step_lstm(const struct lstm *step, const int8_t *input, int8_t *state, int16_t *cells) {
    const int64_t units = step->units, rows = 4 * units;
    memset(step->row, 0, larger(step->input_width, step->state_width) * sizeof(int16_t));
    widen(step->row, input, step->inputs, step->input_zero);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t sum = dot(step->row, step->weights + i * step->input_width, step->input_width) + step->bias[i];
        step->gates[i] = within(rescaled(sum, step->input_factors + i), INT16_MIN, INT16_MAX);
    }
    memset(step->row, 0, larger(step->input_width, step->state_width) * sizeof(int16_t));
    widen(step->row, state, units, step->state_zero);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t sum = dot(step->row, step->recurrent + i * step->state_width, step->state_width);
        const int64_t past = within(rescaled(sum, step->state_factors + i), INT16_MIN, INT16_MAX);
        step->gates[i] = within(step->gates[i] + past, INT16_MIN, INT16_MAX);
    }
    for (int64_t i = 0; i < units; i++) {
        const int64_t given = step->sigmoid[(uint16_t)step->gates[i]];
        const int64_t kept = step->sigmoid[(uint16_t)step->gates[units + i]];
        const int64_t shown = step->sigmoid[(uint16_t)step->gates[2 * units + i]];
        const int64_t candidate = step->tanh[(uint16_t)step->gates[3 * units + i]];
        const int64_t old = within(rescaled(kept * cells[i], step->factors), INT16_MIN, INT16_MAX);
        const int64_t new = within(rescaled(given * candidate, step->factors + 1), INT16_MIN, INT16_MAX);
        const int64_t cell = within(old + new, step->low, step->high);
        cells[i] = (int16_t)cell;
        const int64_t value = rescaled(shown * step->cell_tanh[(uint16_t)cell], step->factors + 2);
        state[i] = (int8_t)within(value + step->state_zero, INT8_MIN, INT8_MAX);
    }
}

static void run_lstm(const void *arguments, const struct share *share) {
    const struct lstm *step = arguments;
    if (share->piece) return;
    for (int64_t time = 0; time < step->steps; time++)
        for (int64_t i = 0; i < step->batch; i++) {
            int8_t *state = step->state + i * step->units;
            step_lstm(step, step->input + time * step->input_step + i * step->input_batch, state,
                      step->cells + i * step->units);
            memcpy(step->output + time * step->output_step + i * step->output_batch, state, step->units);
        }
}

static void run_svdf(const void *arguments, const struct share *share) {
    const struct svdf *step = arguments;
    const int64_t memory = step->memory, filters = step->units * step->rank;
    const int64_t low = step->is_wide ? INT16_MIN : INT8_MIN, high = step->is_wide ? INT16_MAX : INT8_MAX;
    const int64_t size = step->is_wide ? sizeof(int16_t) : sizeof(int8_t);
    if (share->piece) return;
    for (int64_t i = 0; i < step->batch; i++) {
        int8_t *state = (int8_t *)step->state + i * filters * memory * size;
        memset(step->row, 0, step->width * sizeof(int16_t));
        widen(step->row, step->input + i * step->inputs, step->inputs, step->input_zero);
        for (int64_t unit = 0; unit < step->units; unit++) {
            int64_t total = step->bias[unit];
            for (int64_t filter = unit * step->rank; filter < (unit + 1) * step->rank; filter++) {
                const int64_t sum = dot(step->row, step->features + filter * step->width, step->width);
                const int64_t newest = within(rescaled(sum, step->factors), low, high) + step->state_zero;
                int8_t *past = state + filter * memory * size;
                memmove(past, past + size, (memory - 1) * size);
                /* As TFLM did until late 2026: a zero point may take a state past its bounds, where it wraps. */
                if (step->is_wide)
                    ((int16_t *)past)[memory - 1] = (int16_t)newest;
                else
                    past[memory - 1] = (int8_t)newest;
                for (int64_t age = 0; age < memory; age++) {
                    const int64_t value = step->is_wide ? ((int16_t *)past)[age] : past[age];
                    total += (value - step->state_zero) * step->times[filter * memory + age];
                }
            }
            const int64_t value = word(rescaled(total, step->factors + 1) + step->output_zero);
            step->output[i * step->units + unit] = (int8_t)within(value, INT8_MIN, INT8_MAX);
        }
    }
}

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

/* Bit 0: AVX2; bit 1: AVX-512 VNNI. The compiler's check asks the operating system, too. */
EXPORT int32_t aisrv_variants(void) {
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const int vnni = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512vnni");
    return (avx2 ? 1 : 0) | (vnni ? 2 : 0);
}

typedef void (*run_function)(const void *, const struct share *);

/* By kind: what comes before all pieces, such as a copy with borders, and then the step itself. */
static const run_function RUN[][2] = {
    [COPY] = {NULL, run_copy},
    [PAIRS] = {NULL, run_pairs},
    [SOFTMAX] = {NULL, run_softmax},
    [CONVOLUTION_512] = {copy_bytes, run_convolution512},
    [DEPTHWISE_512] = {copy_bytes, run_depthwise512},
    [DEPTHWISE_3X3_512] = {NULL, run_depthwise_3x3_512},
    [ADDITION_512] = {NULL, run_addition512},
    [AVERAGE_POOL_512] = {NULL, run_average_pool512},
    [MAX_POOL_512] = {NULL, run_max_pool512},
    [CONVOLUTION_256] = {copy_words, run_convolution256},
    [DEPTHWISE_256] = {copy_words, run_depthwise256},
    [ADDITION_256] = {NULL, run_addition256},
    [AVERAGE_POOL_256] = {NULL, run_average_pool256},
    [MAX_POOL_256] = {NULL, run_max_pool256},
    [PADDING] = {NULL, run_padding},
    [LSTM] = {NULL, run_lstm},
    [SVDF] = {NULL, run_svdf},
};

#else /* other processors */

EXPORT int32_t aisrv_variants(void) { return 0; }

typedef void (*run_function)(const void *, const struct share *);

static const run_function RUN[][2] = {
    [COPY] = {NULL, run_copy}, [PAIRS] = {NULL, run_pairs}, [SOFTMAX] = {NULL, run_softmax}};

#endif

/* The CRC-32 of kernels.h and this file as they were compiled: setup.py passes it. */
EXPORT uint32_t aisrv_source_crc(void) { return AISRV_SOURCE_CRC; }

/* Run steps in order, on the calling thread. */
EXPORT void aisrv_run(const struct step *steps, int64_t count) {
    const struct share whole = {0, 1};
    for (int64_t i = 0; i < count; i++)
        for (int phase = 0; phase < 2; phase++)
            if (RUN[steps[i].kind][phase]) RUN[steps[i].kind][phase](steps[i].arguments, &whole);
}

/* Teams: the calling thread, and others that help where there are pieces left to take.

   A ticket has the number of a phase, how many pieces it has, and the next to take: 32, 16 and 16 bits. Who raises it
   has taken that piece, and the phase lasts until the piece is done. The caller waits for pieces that were taken, never
   for a thread to come: on a busy machine it computes all of them itself. */

enum { SPINS = 2000 };

struct team {
    uint64_t ticket;
    int64_t done; /* pieces of the present phase */
    run_function run;
    const void *arguments;
    int64_t jobs; /* lists of steps that were given out */
    int working;  /* whether one of them is being run */
    int stop;
    pthread_mutex_t lock;
    pthread_cond_t given;
    int64_t threads;
    pthread_t helpers[];
};

static void pause_thread(int64_t spins) {
#if defined(__x86_64__)
    if (spins < SPINS) {
        __builtin_ia32_pause();
        return;
    }
#endif
    if (spins >= SPINS) sched_yield();
}

/* Take a piece and compute it; 0 where there is none left. */
static int help(struct team *team) {
    uint64_t ticket = __atomic_load_n(&team->ticket, __ATOMIC_ACQUIRE);
    const struct share share = {ticket & 0xFFFF, ticket >> 16 & 0xFFFF};
    if (share.piece >= share.pieces) return 0;
    /* Where this succeeds the phase has not changed since, and what it consists of stays until the piece is done. */
    if (__atomic_compare_exchange_n(&team->ticket, &ticket, ticket + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        team->run(team->arguments, &share);
        __atomic_add_fetch(&team->done, 1, __ATOMIC_RELEASE);
    }
    return 1;
}

static void run_phase(struct team *team, run_function run, const void *arguments, int64_t pieces) {
    if (pieces == 1) {
        const struct share whole = {0, 1};
        run(arguments, &whole);
        return;
    }
    team->run = run;
    team->arguments = arguments;
    team->done = 0;
    const uint64_t phase = (team->ticket >> 32) + 1;
    __atomic_store_n(&team->ticket, phase << 32 | (uint64_t)pieces << 16, __ATOMIC_RELEASE);
    while (help(team)) {}
    for (int64_t spins = 0; __atomic_load_n(&team->done, __ATOMIC_ACQUIRE) < pieces; spins++) pause_thread(spins);
}

static void *work(void *argument) {
    struct team *team = argument;
    for (int64_t seen = 0;;) {
        pthread_mutex_lock(&team->lock);
        while (team->jobs == seen && !team->stop) pthread_cond_wait(&team->given, &team->lock);
        seen = team->jobs;
        const int stop = team->stop;
        pthread_mutex_unlock(&team->lock);
        if (stop) return NULL;
        for (int64_t spins = 0; __atomic_load_n(&team->working, __ATOMIC_ACQUIRE);)
            if (help(team))
                spins = 0;
            else
                pause_thread(spins++);
    }
}

static void end_team(struct team *team, int64_t started) {
    pthread_mutex_lock(&team->lock);
    team->stop = 1;
    pthread_cond_broadcast(&team->given);
    pthread_mutex_unlock(&team->lock);
    for (int64_t i = 0; i < started; i++) pthread_join(team->helpers[i], NULL);
    pthread_cond_destroy(&team->given);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

/* Start all threads but the calling one; NULL where the system has not so many. */
EXPORT struct team *aisrv_team_start(int64_t threads) {
    struct team *team = calloc(1, sizeof(struct team) + (size_t)threads * sizeof(pthread_t));
    if (!team) return NULL;
    team->threads = threads;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->given, NULL);
    for (int64_t i = 0; i < threads - 1; i++)
        if (pthread_create(&team->helpers[i], NULL, work, team)) {
            end_team(team, i);
            return NULL;
        }
    return team;
}

/* Run steps in order, each shared by the team; for one caller at a time. */
EXPORT void aisrv_team_run(struct team *team, const struct step *steps, int64_t count) {
    pthread_mutex_lock(&team->lock);
    team->jobs++;
    __atomic_store_n(&team->working, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&team->given);
    pthread_mutex_unlock(&team->lock);
    for (int64_t i = 0; i < count; i++)
        for (int phase = 0; phase < 2; phase++)
            if (RUN[steps[i].kind][phase])
                run_phase(team, RUN[steps[i].kind][phase], steps[i].arguments, steps[i].pieces);
    __atomic_store_n(&team->working, 0, __ATOMIC_RELEASE);
}

/* End the threads of a team that runs nothing. */
EXPORT void aisrv_team_end(struct team *team) { end_team(team, team->threads - 1); }
