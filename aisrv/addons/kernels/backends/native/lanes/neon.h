/* Lanes of NEON, for int8 and for int16: 16 channels are four registers of four words.

   With dot products, a value is 16 bytes of a window, and each instruction takes four of them. Without, two products of
   bytes are added in 16 bits, which holds unless both are -128 times -128: a layer that has such a weight is `extreme`.
   Values of int16 are eight at once, of which each instruction takes one. What processors with and without dot products
   compute alike is there once (LANES_OF_DOT is not defined). */

typedef int32x4_t NAME(words);
#ifndef LANES_OF_INT16
typedef int8x16_t NAME(weight);
typedef int8_t NAME(element);
INLINE int8x16_t NAME(weigh)(const int8_t *weights) { return vld1q_s8(weights); }
#endif

struct NAME(lanes) {
    int32x4_t multiplier, left, right, half, rounded;
};

INLINE int32x4_t NAME(load)(const int32_t *words) { return vld1q_s32(words); }
INLINE int NAME(sign)(void) { return 0; }

#ifdef LANES_OF_INT16
typedef int16x8_t NAME(weight);
typedef int16x8_t NAME(value);
typedef int16_t NAME(element);
enum { NAME(REGISTERS) = 4, NAME(PARTS) = 4 };
/* Weights of four channels, and of the same four for the next value. */
INLINE int16x8_t NAME(weigh)(const int8_t *weights) { return vld1q_s16((const int16_t *)weights); }
INLINE int16x8_t NAME(give)(const void *input, int sign) {
    (void)sign;
    return vld1q_s16(input);
}
#define DOT(part)                                                                              \
    vmlal_high_laneq_s16(vmlal_laneq_s16(sum, vget_low_s16(weight), value, 2 * (part)), weight, \
                         value, 2 * (part) + 1)
INLINE int32x4_t NAME(dot)(int32x4_t sum, int16x8_t value, int16x8_t weight, const int part, const int extreme) {
    (void)extreme;
    return part == 0 ? DOT(0) : part == 1 ? DOT(1) : part == 2 ? DOT(2) : DOT(3);
}
#undef DOT
#elif defined(LANES_OF_DOT)
typedef int8x16_t NAME(value);
enum { NAME(REGISTERS) = 4, NAME(PARTS) = 4 };
INLINE int8x16_t NAME(give)(const void *input, int sign) {
    (void)sign;
    return vld1q_s8(input);
}
INLINE int32x4_t NAME(dot)(int32x4_t sum, int8x16_t value, int8x16_t weight, const int part, const int extreme) {
    (void)extreme;
    return part == 0   ? vdotq_laneq_s32(sum, weight, value, 0)
           : part == 1 ? vdotq_laneq_s32(sum, weight, value, 1)
           : part == 2 ? vdotq_laneq_s32(sum, weight, value, 2)
                       : vdotq_laneq_s32(sum, weight, value, 3);
}
#else
typedef struct {
    int8x16_t first, second;
} NAME(value);
enum { NAME(REGISTERS) = 4, NAME(PARTS) = 1 };
INLINE NAME(value) NAME(give)(const void *input, int sign) {
    (void)sign;
    uint32_t four;
    memcpy(&four, input, 4);
    const int16x4_t pairs = vcreate_s16(four);
    const NAME(value) value = {vreinterpretq_s8_s16(vdupq_lane_s16(pairs, 0)),
                               vreinterpretq_s8_s16(vdupq_lane_s16(pairs, 1))};
    return value;
}
/* Weights of four channels: a pair of each, then the other pair of each. */
INLINE int32x4_t NAME(dot)(int32x4_t sum, NAME(value) value, int8x16_t weight, const int part, const int extreme) {
    (void)part;
    const int16x8_t products = vmull_s8(vget_low_s8(weight), vget_low_s8(value.first));
    if (!extreme) return vpadalq_s16(sum, vmlal_high_s8(products, weight, value.second));
    return vpadalq_s16(vpadalq_s16(sum, products), vmull_high_s8(weight, value.second));
}
#endif

INLINE struct NAME(lanes) NAME(load_lanes)(const int32_t *rescaling) {
    struct NAME(lanes) lanes;
    lanes.multiplier = vld1q_s32(rescaling + LANES);
    lanes.left = vsubq_s32(vld1q_s32(rescaling + 2 * LANES), vdupq_n_s32(1)); /* the product doubles, too */
    lanes.right = vnegq_s32(vld1q_s32(rescaling + 3 * LANES));
    lanes.half = vld1q_s32(rescaling + 4 * LANES);
    lanes.rounded = vshrq_n_s32(lanes.right, 31);
    return lanes;
}

/* The same where all channels have a shift to the right, and so none to the left. */
INLINE int32x4_t NAME(rescale_plain)(int32x4_t sum, const struct NAME(lanes) *lanes) {
    const int32x4_t y = vqrdmulhq_s32(sum, lanes->multiplier);
    return vshlq_s32(vaddq_s32(vsraq_n_s32(y, y, 31), lanes->half), lanes->right);
}

INLINE int32x4_t NAME(rescale)(int32x4_t sum, const struct NAME(lanes) *lanes) {
    int32x4_t y = vqrdmulhq_s32(vshlq_s32(sum, lanes->left), lanes->multiplier);
    y = vaddq_s32(y, vandq_s32(vshrq_n_s32(y, 31), lanes->rounded));
    return vshlq_s32(vaddq_s32(y, lanes->half), lanes->right);
}

/* Less than 16 bytes. */
INLINE void NAME(put_some)(void *output, int8x16_t bytes, int64_t count) {
    int8_t *place = output;
    if (count & 8) {
        vst1_s8(place, vget_low_s8(bytes));
        place += 8, bytes = vextq_s8(bytes, bytes, 8);
    }
    if (count & 4) {
        const int32_t four = vgetq_lane_s32(vreinterpretq_s32_s8(bytes), 0);
        memcpy(place, &four, 4);
        place += 4, bytes = vextq_s8(bytes, bytes, 4);
    }
    if (count & 2) {
        const int16_t two = vgetq_lane_s16(vreinterpretq_s16_s8(bytes), 0);
        memcpy(place, &two, 2);
        place += 2, bytes = vextq_s8(bytes, bytes, 2);
    }
    if (count & 1) *place = vgetq_lane_s8(bytes, 0);
}

#ifdef LANES_OF_INT16

typedef int16_t NAME(activation);
typedef int16x8x2_t NAME(narrowed);

INLINE int16x8x2_t NAME(narrow)(const int32x4_t words[4]) {
    const int16x8x2_t halves = {{vqmovn_high_s32(vqmovn_s32(words[0]), words[1]),
                                 vqmovn_high_s32(vqmovn_s32(words[2]), words[3])}};
    return halves;
}

INLINE void NAME(put)(int16_t *output, int16x8x2_t halves, int64_t low, int64_t high, int64_t count) {
    UNROLL for (int i = 0; i < 2; i++)
        halves.val[i] = vminq_s16(vmaxq_s16(halves.val[i], vdupq_n_s16((int16_t)low)), vdupq_n_s16((int16_t)high));
    if (count >= 8) {
        vst1q_s16(output, halves.val[0]);
        output += 8, count -= 8, halves.val[0] = halves.val[1];
    }
    if (count >= 8)
        vst1q_s16(output, halves.val[0]);
    else
        NAME(put_some)(output, vreinterpretq_s8_s16(halves.val[0]), count * (int64_t)sizeof *output);
}

#else

typedef int8_t NAME(activation);
typedef int8x16_t NAME(narrowed);

INLINE int8x16_t NAME(narrow)(const int32x4_t words[4]) {
    const int16x8_t lower = vqmovn_high_s32(vqmovn_s32(words[0]), words[1]);
    const int16x8_t upper = vqmovn_high_s32(vqmovn_s32(words[2]), words[3]);
    return vqmovn_high_s16(vqmovn_s16(lower), upper);
}

INLINE void NAME(put)(int8_t *output, int8x16_t bytes, int64_t low, int64_t high, int64_t count) {
    bytes = vminq_s8(vmaxq_s8(bytes, vdupq_n_s8((int8_t)low)), vdupq_n_s8((int8_t)high));
    if (count >= LANES)
        vst1q_s8(output, bytes);
    else
        NAME(put_some)(output, bytes, count);
}

#endif

#ifndef LANES_OF_DOT

#ifdef LANES_OF_INT16

typedef int16_t NAME(tap);
enum { NAME(TAPS) = 1, NAME(TAP_BYTES) = 2 * LANES, NAME(DEPTHWISE_PIXELS) = 4, NAME(ADDS_BYTES) = 0 };

INLINE int16x8x2_t NAME(some)(const int16_t *input, int64_t count) {
    int16_t some[LANES] = {0};
    if (count < LANES) input = memcpy(some, input, (size_t)count * sizeof *input);
    const int16x8x2_t halves = {{vld1q_s16(input), vld1q_s16(input + 8)}};
    return halves;
}

INLINE void NAME(widen)(int32x4_t words[4], int16x8x2_t halves) {
    UNROLL for (int i = 0; i < 2; i++) {
        words[2 * i] = vmovl_s16(vget_low_s16(halves.val[i]));
        words[2 * i + 1] = vmovl_high_s16(halves.val[i]);
    }
}

INLINE int16x8x2_t NAME(least)(void) {
    const int16x8x2_t least = {{vdupq_n_s16(INT16_MIN), vdupq_n_s16(INT16_MIN)}};
    return least;
}
INLINE int16x8x2_t NAME(larger)(int16x8x2_t a, int16x8x2_t b) {
    const int16x8x2_t larger = {{vmaxq_s16(a.val[0], b.val[0]), vmaxq_s16(a.val[1], b.val[1])}};
    return larger;
}

INLINE void NAME(multiply)(int32x4_t sums[4], const int16_t *window, const int32_t *taps, const int8_t *weights,
                           const int extreme) {
    (void)extreme;
    UNROLL for (int i = 0; i < 2; i++) {
        const int16x8_t values = vld1q_s16(window + taps[0] + 8 * i), weight = vld1q_s16((const int16_t *)weights + 8 * i);
        sums[2 * i] = vmlal_s16(sums[2 * i], vget_low_s16(values), vget_low_s16(weight));
        sums[2 * i + 1] = vmlal_high_s16(sums[2 * i + 1], values, weight);
    }
}

#else

typedef int8_t NAME(tap);
enum { NAME(TAPS) = 2, NAME(TAP_BYTES) = 2 * LANES, NAME(DEPTHWISE_PIXELS) = 4, NAME(ADDS_BYTES) = 1 };

INLINE int8x16_t NAME(some)(const int8_t *input, int64_t count) {
    if (count >= LANES) return vld1q_s8(input);
    int8_t some[LANES] = {0};
    memcpy(some, input, count);
    return vld1q_s8(some);
}

INLINE void NAME(widen)(int32x4_t words[4], int8x16_t bytes) {
    const int16x8_t lower = vmovl_s8(vget_low_s8(bytes)), upper = vmovl_high_s8(bytes);
    words[0] = vmovl_s16(vget_low_s16(lower));
    words[1] = vmovl_high_s16(lower);
    words[2] = vmovl_s16(vget_low_s16(upper));
    words[3] = vmovl_high_s16(upper);
}

INLINE int8x16_t NAME(least)(void) { return vdupq_n_s8(-128); }
INLINE int8x16_t NAME(larger)(int8x16_t a, int8x16_t b) { return vmaxq_s8(a, b); }

INLINE void NAME(add_products)(int32x4_t sums[4], int16x8_t lower, int16x8_t upper) {
    sums[0] = vaddw_s16(sums[0], vget_low_s16(lower));
    sums[1] = vaddw_high_s16(sums[1], lower);
    sums[2] = vaddw_s16(sums[2], vget_low_s16(upper));
    sums[3] = vaddw_high_s16(sums[3], upper);
}

INLINE void NAME(multiply)(int32x4_t sums[4], const int8_t *window, const int32_t *taps, const int8_t *weights,
                           const int extreme) {
    const int8x16_t first = vld1q_s8(window + taps[0]), second = vld1q_s8(window + taps[1]);
    const int8x16_t weight = vld1q_s8(weights), other = vld1q_s8(weights + LANES);
    const int16x8_t lower = vmull_s8(vget_low_s8(first), vget_low_s8(weight)), upper = vmull_high_s8(first, weight);
    if (extreme) {
        NAME(add_products)(sums, lower, upper);
        NAME(add_products)(sums, vmull_s8(vget_low_s8(second), vget_low_s8(other)), vmull_high_s8(second, other));
    } else {
        NAME(add_products)(sums, vmlal_s8(lower, vget_low_s8(second), vget_low_s8(other)),
                           vmlal_high_s8(upper, second, other));
    }
}

INLINE int32x4_t NAME(line)(int32x4_t a, int32x4_t b, const struct addition *step) {
    const float32x4_t first = vcvtq_f32_s32(a), second = vcvtq_f32_s32(b);
    const float32x4_t offset = vfmaq_f32(vdupq_n_f32(step->offset), second, vdupq_n_f32(step->factor2));
    return vcvtnq_s32_f32(vfmaq_f32(offset, first, vdupq_n_f32(step->factor1)));
}

INLINE int64_t NAME(row)(const int16_t *a, const int16_t *b, int64_t width) {
    int32x4_t first = vdupq_n_s32(0), second = first;
    for (int64_t i = 0; i < width; i += 8) {
        const int16x8_t x = vld1q_s16(a + i), y = vld1q_s16(b + i);
        first = vmlal_s16(first, vget_low_s16(x), vget_low_s16(y));
        second = vmlal_high_s16(second, x, y);
    }
    return vaddvq_s32(vaddq_s32(first, second));
}

#endif

INLINE int32x4_t NAME(zero)(void) { return vdupq_n_s32(0); }
INLINE int32x4_t NAME(add)(int32x4_t a, int32x4_t b) { return vaddq_s32(a, b); }

INLINE void NAME(begin)(int32x4_t sums[4], const int32_t *start) {
    UNROLL for (int i = 0; i < 4; i++) sums[i] = vld1q_s32(start + 4 * i);
}
INLINE void NAME(end)(int32x4_t sums[4], const int32_t *start) { (void)sums, (void)start; }

/* Half of the count away from zero, then truncated: exact in float32 up to 2**16 taps of int8, 2**8 of int16. */
INLINE int32x4_t NAME(mean)(int32x4_t sum, int32_t taps) {
    const int32x4_t half = vdupq_n_s32(taps / 2), below = vshrq_n_s32(sum, 31);
    sum = vaddq_s32(sum, vsubq_s32(veorq_s32(half, below), below));
    return vcvtq_s32_f32(vdivq_f32(vcvtq_f32_s32(sum), vdupq_n_f32((float)taps)));
}

#endif
