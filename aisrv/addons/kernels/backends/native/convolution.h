/* Convolutions over the lanes of a target: included once for each, after its lanes. PIXELS is the largest tile of one
   block, WIDE_PIXELS that of four. EXTREME is 1 where some layers have tiles of their own: those of int8 with weights of
   -128, those of int16 with sums of 64 bits. */

#if FINISHES_IN_TILE
/* Rescale the sums of a tile where they are, in registers, by pixel and block. */
INLINE void NAME(finish_sums)(const struct convolution *step, NAME(words) *sums, int64_t first_block,
                              int64_t first_pixel, const int pixels, const int blocks, const int plain) {
    enum { WORDS = LANES / NAME(REGISTERS) };
    const int64_t channels = step->channels, low = step->low, high = step->high;
    UNROLL for (int b = 0; b < blocks; b++) {
        const int64_t channel = (first_block + b) * LANES, count = channels - channel;
        NAME(activation) *output = (NAME(activation) *)step->output + first_pixel * channels + channel;
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++) {
            const struct NAME(lanes) lanes = NAME(load_lanes)(step->rescaling + (first_block + b) * RESCALING + r * WORDS);
            UNROLL for (int i = b * NAME(REGISTERS) + r; i < pixels * blocks * NAME(REGISTERS);
                        i += blocks * NAME(REGISTERS))
                sums[i] = plain ? NAME(rescale_plain)(sums[i], &lanes) : NAME(rescale)(sums[i], &lanes);
        }
        UNROLL for (int p = 0; p < pixels; p++, output += channels) {
            const NAME(narrowed) narrowed = NAME(narrow)(sums + (p * blocks + b) * NAME(REGISTERS));
            NAME(put)(output, narrowed, low, high, count);
        }
    }
}
#else
INLINE void NAME(finish_sums)(const struct convolution *step, const NAME(words) *sums, int64_t first_block,
                              int64_t first_pixel, int64_t pixels, int64_t blocks, const int plain) {
    enum { WORDS = LANES / NAME(REGISTERS) };
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t channel = (first_block + b) * LANES;
        NAME(activation) *output = (NAME(activation) *)step->output + first_pixel * step->channels + channel;
        struct NAME(lanes) lanes[NAME(REGISTERS)];
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
            lanes[r] = NAME(load_lanes)(step->rescaling + (first_block + b) * RESCALING + r * WORDS);
        for (int64_t p = 0; p < pixels; p++) {
            NAME(words) y[NAME(REGISTERS)];
            UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
                y[r] = plain ? NAME(rescale_plain)(sums[(p * blocks + b) * NAME(REGISTERS) + r], &lanes[r])
                             : NAME(rescale)(sums[(p * blocks + b) * NAME(REGISTERS) + r], &lanes[r]);
            NAME(put)(output + p * step->channels, NAME(narrow)(y), step->low, step->high, step->channels - channel);
        }
    }
}

/* Rescale the sums of a tile, by pixel and block. A function of its own: where it is part of the loop before it,
   compilers run out of registers there. */
static __attribute__((noinline)) void NAME(finish)(const struct convolution *step, const NAME(words) *sums,
                                                   int64_t first_block, int64_t first_pixel, int64_t pixels,
                                                   int64_t blocks) {
    if (step->plain)
        NAME(finish_sums)(step, sums, first_block, first_pixel, pixels, blocks, 1);
    else
        NAME(finish_sums)(step, sums, first_block, first_pixel, pixels, blocks, 0);
}
#endif

/* Sums of the products of some segments of the windows, at least one; returns the weights of the next.
   `sums`: of its exact size, pixels times registers. A larger array stays in memory with clang. */
INLINE const int8_t *NAME(multiply_segments)(NAME(words) *sums, const NAME(element) *const *windows,
                                             const int8_t *weights, const int32_t *rescaling, const int32_t *segment,
                                             const int32_t *const last, const int pixels, const int blocks,
                                             const int extreme) {
    enum { WORDS = LANES / NAME(REGISTERS), BYTES = 64 / NAME(REGISTERS), VALUE = 4 * NAME(PARTS) };
    const int registers = blocks * NAME(REGISTERS);
    UNROLL for (int i = 0; i < pixels * registers; i++) {
        const int r = i % registers;
        sums[i] = NAME(load)(rescaling + r / NAME(REGISTERS) * RESCALING + r % NAME(REGISTERS) * WORDS);
        KEEP(sums[i]);
    }
    __auto_type sign = NAME(sign)();
    do {
        int64_t at = segment[0];
        const int64_t end = segment[1];
        do {
            if (NAME(PARTS) == 1) {
                NAME(weight) weight[4 * NAME(REGISTERS)];
                UNROLL for (int r = 0; r < registers; r++) weight[r] = NAME(weigh)(weights + r * BYTES);
                UNROLL for (int p = 0; p < pixels; p++) {
                    const NAME(value) value = NAME(give)(windows[p] + at, sign);
                    UNROLL for (int r = 0; r < registers; r++) {
                        sums[p * registers + r] = NAME(dot)(sums[p * registers + r], value, weight[r], 0, extreme);
                        KEEP(sums[p * registers + r]);
                    }
                }
            } else {
                NAME(value) values[PIXELS];
                UNROLL for (int p = 0; p < pixels; p++) values[p] = NAME(give)(windows[p] + at, sign);
                UNROLL for (int part = 0; part < NAME(PARTS); part++)
                    UNROLL for (int r = 0; r < registers; r++) {
                        const NAME(weight) weight = NAME(weigh)(weights + part * 64 * blocks + r * BYTES);
                        UNROLL for (int p = 0; p < pixels; p++) {
                            sums[p * registers + r] =
                                NAME(dot)(sums[p * registers + r], values[p], weight, part, extreme);
                            KEEP(sums[p * registers + r]);
                        }
                    }
            }
            weights += 64 * blocks * NAME(PARTS);
            at += VALUE / (int)sizeof(NAME(element));
        } while (at < end);
        segment += 2;
    } while (segment < last);
    return weights;
}

/* A copy of sums, so that they themselves have no address; a plain one is memcpy to clang, and they have. */
#define COPY_OF_SUMS(results)                                            \
    NAME(words) results[MOST_SUMS];                                      \
    UNROLL for (int i = 0; i < pixels * blocks * NAME(REGISTERS); i++) { \
        results[i] = sums[i];                                            \
        KEEP(results[i]);                                                \
    }
#define MOST_SUMS ((WIDE_PIXELS * 4 > PIXELS ? WIDE_PIXELS * 4 : PIXELS) * NAME(REGISTERS))

INLINE void NAME(tile)(const struct convolution *step, const int8_t *weights, int64_t first_block, int64_t first_pixel,
                       NAME(words) *sums, const int pixels, const int blocks, const int extreme) {
    const NAME(element) *windows[PIXELS];
    UNROLL for (int p = 0; p < pixels; p++)
        windows[p] = (const NAME(element) *)step->input + step->pixels[first_pixel + p];
    NAME(multiply_segments)(sums, windows, weights, step->rescaling + first_block * RESCALING, step->segments,
                            step->segments + 2 * step->segment_count, pixels, blocks, extreme);
#if FINISHES_IN_TILE
    if (step->plain)
        NAME(finish_sums)(step, sums, first_block, first_pixel, pixels, blocks, 1);
    else
        NAME(finish_sums)(step, sums, first_block, first_pixel, pixels, blocks, 0);
#else
    COPY_OF_SUMS(results)
    NAME(finish)(step, results, first_block, first_pixel, pixels, blocks);
#endif
}

#ifdef LANES_OF_INT16
/* The same where a sum may need 64 bits: pieces of the windows, each of which has sums of 32. */
INLINE void NAME(wide_tile)(const struct convolution *step, const int8_t *weights, int64_t first_block,
                            int64_t first_pixel, NAME(words) *sums, const int pixels, const int blocks) {
    const NAME(element) *windows[PIXELS];
    int64_t totals[MOST_SUMS / NAME(REGISTERS) * LANES];
    UNROLL for (int p = 0; p < pixels; p++)
        windows[p] = (const NAME(element) *)step->input + step->pixels[first_pixel + p];
    memset(totals, 0, (size_t)(pixels * blocks * LANES) * sizeof *totals);
    const int32_t *segment = step->segments, *const last = segment + 2 * step->segment_count;
    for (const int32_t *piece = step->wide.pieces; segment < last; segment += 2 * *piece++) {
        weights = NAME(multiply_segments)(sums, windows, weights, step->rescaling + first_block * RESCALING, segment,
                                          segment + 2 * *piece, pixels, blocks, 0);
        COPY_OF_SUMS(results)
        int32_t words[MOST_SUMS / NAME(REGISTERS) * LANES];
        memcpy(words, results, (size_t)(pixels * blocks * LANES) * sizeof *words);
        for (int i = 0; i < pixels * blocks * LANES; i++) totals[i] += words[i];
    }
    finish_wide(step, totals, first_block, first_pixel, pixels, blocks);
}
#endif

#define TILE(P, B, E)                                                                                           \
    static void NAME(tile_##P##x##B##_##E)(const struct convolution *step, const int8_t *weights,               \
                                           int64_t first_block, int64_t first_pixel) {                          \
        NAME(words) sums[P * B * NAME(REGISTERS)];                                                              \
        TILE_##E(step, weights, first_block, first_pixel, sums, P, B);                                          \
    }
#ifdef LANES_OF_INT16
#define TILE_1 NAME(wide_tile)
#else
#define TILE_1(...) NAME(tile)(__VA_ARGS__, 1)
#endif
#define TILE_0(...) NAME(tile)(__VA_ARGS__, 0)
#if WIDE_PIXELS == 6
#define TILES(E)                                                                                                      \
    TILE(1, 1, E) TILE(2, 1, E) TILE(3, 1, E) TILE(4, 1, E) TILE(5, 1, E) TILE(6, 1, E) TILE(1, 4, E) TILE(2, 4, E)   \
    TILE(3, 4, E) TILE(4, 4, E) TILE(5, 4, E) TILE(6, 4, E)
#define TILES_BY_SIZE(E)                                                                                        \
    {[0] = {NAME(tile_1x1_##E), NAME(tile_2x1_##E), NAME(tile_3x1_##E), NAME(tile_4x1_##E), NAME(tile_5x1_##E), \
            NAME(tile_6x1_##E)},                                                                                \
     [3] = {NAME(tile_1x4_##E), NAME(tile_2x4_##E), NAME(tile_3x4_##E), NAME(tile_4x4_##E), NAME(tile_5x4_##E), \
            NAME(tile_6x4_##E)}}
#elif PIXELS == 6
#define TILES(E) \
    TILE(1, 1, E) TILE(2, 1, E) TILE(3, 1, E) TILE(4, 1, E) TILE(5, 1, E) TILE(6, 1, E) TILE(1, 4, E)
#define TILES_BY_SIZE(E)                                                                                        \
    {[0] = {NAME(tile_1x1_##E), NAME(tile_2x1_##E), NAME(tile_3x1_##E), NAME(tile_4x1_##E), NAME(tile_5x1_##E), \
            NAME(tile_6x1_##E)},                                                                                \
     [3] = {NAME(tile_1x4_##E)}}
#else
#define TILES(E) TILE(1, 1, E) TILE(2, 1, E) TILE(3, 1, E) TILE(4, 1, E) TILE(1, 4, E)
#define TILES_BY_SIZE(E)                                                                    \
    {[0] = {NAME(tile_1x1_##E), NAME(tile_2x1_##E), NAME(tile_3x1_##E), NAME(tile_4x1_##E)}, \
     [3] = {NAME(tile_1x4_##E)}}
#endif

TILES(0)
#if EXTREME
TILES(1)
static const tile_function NAME(TILES_OF)[2][MOST_BLOCKS][MOST_PIXELS] = {TILES_BY_SIZE(0), TILES_BY_SIZE(1)};
#else
static const tile_function NAME(TILES_OF)[2][MOST_BLOCKS][MOST_PIXELS] = {TILES_BY_SIZE(0), TILES_BY_SIZE(0)};
#endif

static void NAME(run_convolution)(const void *arguments, const struct share *share) {
    const struct convolution *step = arguments;
    run_tiles(step, share, NAME(TILES_OF)[step->extreme]);
}

#undef TILE
#undef TILES
#undef TILES_BY_SIZE
#undef TILE_0
#undef TILE_1
#undef COPY_OF_SUMS
#undef MOST_SUMS
