/* The kernels of the backend `native`, for every processor: plain C, and sets of kernels for some instructions.

   Bit for bit what TensorFlow Lite Micro computes: sums of products in int32, rescaled with two roundings. Python
   prepares everything (packed weights, tables of offsets, constants of the rescaling) and proves that no number here
   leaves its range, but for recurrent layers, where words wrap; a run is a list of steps. Nothing here allocates,
   fails or keeps state, but for the team of threads (team.h). Source: "Speed of the INT8 kernels".

   Words used here and in kernels.h:
     block      16 output channels, the lanes of a register of 512 bits
     tile       the sums of some pixels and blocks that are computed at once, in registers
     segment    bytes of one window that follow each other in memory
     chunk      pixels whose inputs stay in a core's first cache while all their channels are computed
     lanes      what a target has of its own: loads, products, rescalings of some words at once (lanes/)
     rescaling  five words for each lane of a block: start of the sum, multiplier, shifts left and right, half */

#include "kernels.h"
#include "processor.h"

#include <float.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
#if defined(__x86_64__)
#define KEEP(value) __asm__("" : "+v"(value))
#else
#define KEEP(value) __asm__("" : "+w"(value))
#endif
/* Keeps a product apart from the sum that it is added to: rounded, as TFLM's is. */
#if defined(__x86_64__) || defined(__aarch64__)
#define APART(value) KEEP(value)
#else
#define APART(value) (void)(value)
#endif
/* The name of a function or type of the target that is being included. */
#define JOINED(name, target) name##_##target
#define NAME_OF(name, target) JOINED(name, target)
#define NAME(name) NAME_OF(name, TARGET)

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

static void copy_bytes(const void *arguments, const struct share *share) {
    const struct picture *picture = arguments; /* the first field of what needs one */
    const int64_t rows = picture->batches * picture->height, width = picture->width, repeats = picture->repeats;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int8_t *source = (const int8_t *)picture->source + row * width;
        int8_t *copy = (int8_t *)picture->copy + row / picture->height * picture->plane +
                       row % picture->height * picture->line;
        if (repeats == 1)
            memcpy(copy, source, width);
        else
            for (int64_t i = 0; i < width; i++) memset(copy + i * repeats, source[i], repeats);
    }
}

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
INLINE void widen_row(int16_t *row, const int8_t *source, int64_t count, int64_t zero) {
    for (int64_t i = 0; i < count; i++) row[i] = (int16_t)(source[i] - zero);
}

/* Every processor. */

#include "int16.h"
#include "float32_copies.h"

#define TARGET plain
#include "lanes/plain.h"
#include "recurrent.h"
#undef TARGET

#define LANES_OF_INT16
#define TARGET plain_int16
#include "lanes/plain.h"
#undef TARGET
#undef LANES_OF_INT16

/* Of float32, for every processor: with registers of four floats, as SSE and NEON have them. */
#define WIDE_PIXELS 1
#define PIXELS 6
#define EXTREME 0
#define WIDTH 4
#define TARGET plain_float32
#include "lanes/float32.h"
#include "convolution.h"
#include "float32.h"
#include "float32_functions.h"
#undef TARGET
#undef WIDTH
#undef EXTREME
#undef PIXELS
#undef WIDE_PIXELS

#if defined(__x86_64__)

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")
#endif

#include "avx512.h"

#define WIDE_PIXELS 6
#define PIXELS 6
#define EXTREME 1
#define LANES_OF_INT16
#define TARGET avx512_int16
#include "lanes/avx512_int16.h"
#include "convolution.h"
#undef TARGET
#undef LANES_OF_INT16
#undef EXTREME
#undef PIXELS
#undef WIDE_PIXELS

#define WIDE_PIXELS 6
#define PIXELS 6
#define EXTREME 0
#define WIDTH 16
#define TARGET avx512_float32
#include "lanes/float32.h"
#include "convolution.h"
#include "float32.h"
#include "float32_functions.h"
#undef TARGET
#undef WIDTH
#undef EXTREME
#undef PIXELS
#undef WIDE_PIXELS

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

/* A copy whose elements are widened to words. */
static void copy_words(const void *arguments, const struct share *share) {
    const struct picture *picture = arguments;
    const int64_t rows = picture->batches * picture->height, width = picture->width, repeats = picture->repeats;
    for (int64_t row = first_of(share, rows); row < end_of(share, rows); row++) {
        const int8_t *source = (const int8_t *)picture->source + row * width;
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

#define WIDE_PIXELS 1
#define PIXELS 6
#define EXTREME 0
#define TARGET avx2
#include "lanes/avx2.h"
#include "convolution.h"
#include "elements.h"
#include "recurrent.h"
#undef TARGET
#undef EXTREME

#define EXTREME 1
#define LANES_OF_INT16
#define TARGET avx2_int16
#include "lanes/avx2.h"
#include "convolution.h"
#include "elements.h"
#undef TARGET
#undef LANES_OF_INT16
#undef EXTREME

#define EXTREME 0
#define WIDTH 8
#define TARGET avx2_float32
#include "lanes/float32.h"
#include "convolution.h"
#include "float32.h"
#include "float32_functions.h"
#undef TARGET
#undef WIDTH
#undef EXTREME

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11
#define HAS_AVXVNNI

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avxvnni,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avxvnni,avx2,fma")
#endif

#define EXTREME 0
#define LANES_OF_VNNI
#define TARGET avxvnni
#include "lanes/avx2.h"
#include "convolution.h"
#undef TARGET
#undef EXTREME

#define EXTREME 1
#define LANES_OF_INT16
#define TARGET avxvnni_int16
#include "lanes/avx2.h"
#include "convolution.h"
#undef TARGET
#undef LANES_OF_INT16
#undef EXTREME

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif

#elif defined(__aarch64__)

/* GCC's first scheduler moves products away from their sums, until there are not registers enough. */
#ifndef __clang__
#pragma GCC optimize("no-schedule-insns")
#endif

#include <arm_neon.h>

#define FINISHES_IN_TILE 1
#define WIDE_PIXELS 1
#define EXTREME 1
#define PIXELS 4
#define TARGET neon
#include "lanes/neon.h"
#include "convolution.h"
#include "elements.h"
#include "recurrent.h"
#undef TARGET
#undef PIXELS

#define PIXELS 6
#define LANES_OF_INT16
#define TARGET neon_int16
#include "lanes/neon.h"
#include "convolution.h"
#include "elements.h"
#undef TARGET
#undef LANES_OF_INT16
#undef EXTREME

/* arm_neon.h of clang before 16 has no dot products unless all of the file may use them. */
#if !defined(__clang__) || __clang_major__ >= 16 || defined(__ARM_FEATURE_DOTPROD)
#define HAS_NEONDOT

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

#define EXTREME 0
#define LANES_OF_DOT
#define TARGET neondot
#include "lanes/neon.h"
#include "convolution.h"
#undef TARGET

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif

#endif

typedef void (*run_function)(const void *, const struct share *);

/* What every variant has. */
#define COMMON                                                  \
    [COPY] = {NULL, run_copy},                                  \
    [PAIRS] = {NULL, run_pairs},                                \
    [SOFTMAX] = {NULL, run_softmax},                            \
    [PADDING] = {NULL, run_padding},                            \
    [WIDE_DEPTHWISE_INT16] = {copy_halves, run_wide_depthwise}, \
    [WIDE_ADDITION_INT16] = {NULL, run_wide_addition},          \
    [MULTIPLICATION_INT16] = {NULL, run_multiplication},        \
    [SOFTMAX_INT16] = {NULL, run_int16_softmax},                \
    [ROW_MEAN_FLOAT32] = {NULL, run_row_means}
#define RECURRENT(TARGET) [LSTM] = {NULL, run_lstm_##TARGET}, [SVDF] = {NULL, run_svdf_##TARGET}
#define POOLS(TARGET) [AVERAGE_POOL] = {NULL, run_average_pool_##TARGET}, [MAX_POOL] = {NULL, run_max_pool_##TARGET}
#define INT16_CONVOLUTION(TARGET) [CONVOLUTION_INT16] = {copy_halves, run_convolution_##TARGET}
#define INT16_ELEMENTS(TARGET)                                 \
    [DEPTHWISE_INT16] = {copy_halves, run_depthwise_##TARGET}, \
    [ADDITION_INT16] = {NULL, run_addition_##TARGET}, INT16_POOLS(TARGET)
#define INT16_POOLS(TARGET) \
    [AVERAGE_POOL_INT16] = {NULL, run_average_pool_##TARGET}, [MAX_POOL_INT16] = {NULL, run_max_pool_##TARGET}
#define FLOAT32(TARGET)                                            \
    [CONVOLUTION_FLOAT32] = {copy_floats, run_convolution_##TARGET}, \
    [DEPTHWISE_FLOAT32] = {copy_floats, run_depthwise_##TARGET},     \
    [ADDITION_FLOAT32] = {NULL, run_addition_##TARGET},              \
    [SUBTRACTION_FLOAT32] = {NULL, run_subtraction_##TARGET},        \
    [LOGISTIC_FLOAT32] = {NULL, run_logistic_##TARGET},              \
    [TANH_FLOAT32] = {NULL, run_tanh_##TARGET},                      \
    [MULTIPLICATION_FLOAT32] = {NULL, run_multiplication_##TARGET},  \
    [AVERAGE_POOL_FLOAT32] = {NULL, run_average_pool_##TARGET},      \
    [SOFTMAX_FLOAT32] = {NULL, run_softmax_##TARGET},                \
    [MAX_POOL_FLOAT32] = {NULL, run_max_pool_##TARGET}

enum { VARIANTS = NEONDOT + 1, KINDS = MAX_POOL_FLOAT32 + 1 };

/* By variant and kind: what comes before all pieces, such as a copy with borders, and then the step itself. */
static const run_function RUN[VARIANTS][KINDS][2] = {
    [PLAIN] = {COMMON, RECURRENT(plain), POOLS(plain), INT16_POOLS(plain_int16), FLOAT32(plain_float32)},
#if defined(__x86_64__)
    [AVX2] = {COMMON, RECURRENT(avx2), POOLS(avx2),
              [CONVOLUTION] = {copy_words, run_convolution_avx2},
              [DEPTHWISE] = {copy_words, run_depthwise_avx2},
              [ADDITION] = {NULL, run_addition_avx2},
              INT16_CONVOLUTION(avx2_int16), INT16_ELEMENTS(avx2_int16), FLOAT32(avx2_float32)},
#ifdef HAS_AVXVNNI
    [AVXVNNI] = {COMMON, RECURRENT(avx2), POOLS(avx2),
                 [CONVOLUTION] = {copy_bytes, run_convolution_avxvnni},
                 [DEPTHWISE] = {copy_words, run_depthwise_avx2},
                 [ADDITION] = {NULL, run_addition_avx2},
                 INT16_CONVOLUTION(avxvnni_int16), INT16_ELEMENTS(avx2_int16), FLOAT32(avx2_float32)},
#endif
    [AVX512VNNI] = {COMMON, RECURRENT(avx2),
                    [CONVOLUTION] = {copy_bytes, run_convolution512},
                    [DEPTHWISE] = {copy_bytes, run_depthwise512},
                    [DEPTHWISE_3X3] = {NULL, run_depthwise_3x3_512},
                    [ADDITION] = {NULL, run_addition512},
                    [AVERAGE_POOL] = {NULL, run_average_pool512},
                    [MAX_POOL] = {NULL, run_max_pool512},
                    INT16_CONVOLUTION(avx512_int16), INT16_ELEMENTS(avx2_int16), FLOAT32(avx512_float32)},
#elif defined(__aarch64__)
    [NEON] = {COMMON, RECURRENT(neon), POOLS(neon),
              [CONVOLUTION] = {copy_bytes, run_convolution_neon},
              [DEPTHWISE] = {copy_bytes, run_depthwise_neon},
              [ADDITION] = {NULL, run_addition_neon},
              INT16_CONVOLUTION(neon_int16), INT16_ELEMENTS(neon_int16), FLOAT32(plain_float32)},
#ifdef HAS_NEONDOT
    [NEONDOT] = {COMMON, RECURRENT(neon), POOLS(neon),
                 [CONVOLUTION] = {copy_bytes, run_convolution_neondot},
                 [DEPTHWISE] = {copy_bytes, run_depthwise_neon},
                 [ADDITION] = {NULL, run_addition_neon},
                 INT16_CONVOLUTION(neon_int16), INT16_ELEMENTS(neon_int16), FLOAT32(plain_float32)},
#endif
#endif
};

/* The bits of processor.h whose kernels are compiled. */
EXPORT int32_t aisrv_variants(void) {
    int32_t bits = processor_variants();
#ifndef HAS_AVXVNNI
    bits &= ~4;
#endif
#ifndef HAS_NEONDOT
    bits &= ~16;
#endif
    return bits;
}

/* The CRC-32 of all sources as they were compiled: setup.py passes it. */
EXPORT uint32_t aisrv_source_crc(void) { return AISRV_SOURCE_CRC; }

/* Run steps in order, on the calling thread. */
EXPORT void aisrv_run(const struct step *steps, int64_t count) {
    const struct share whole = {0, 1};
    for (int64_t i = 0; i < count; i++) {
        const run_function *run = RUN[steps[i].variant][steps[i].kind];
        for (int phase = 0; phase < 2; phase++)
            if (run[phase]) run[phase](steps[i].arguments, &whole);
    }
}

#include "team.h"
