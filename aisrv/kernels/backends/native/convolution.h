/* Convolutions over the lanes of a target: included once for each, after its lanes. PIXELS is the largest tile of one
   block; EXTREME is 1 where layers with weights of -128 have tiles of their own. */

/* Rescale the sums of a tile, by pixel and block. A function of its own: where it is part of the loop before it,
   compilers run out of registers there. */
static __attribute__((noinline)) void NAME(finish)(const struct convolution *step, const NAME(words) *sums,
                                                   int64_t first_block, int64_t first_pixel, int64_t pixels,
                                                   int64_t blocks) {
    enum { WORDS = LANES / NAME(REGISTERS) };
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t channel = (first_block + b) * LANES;
        int8_t *output = step->output + first_pixel * step->channels + channel;
        struct NAME(lanes) lanes[NAME(REGISTERS)];
        UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
            lanes[r] = NAME(load_lanes)(step->rescaling + (first_block + b) * RESCALING + r * WORDS);
        for (int64_t p = 0; p < pixels; p++) {
            NAME(words) y[NAME(REGISTERS)];
            UNROLL for (int r = 0; r < NAME(REGISTERS); r++)
                y[r] = NAME(rescale)(sums[(p * blocks + b) * NAME(REGISTERS) + r], &lanes[r]);
            NAME(put)(output + p * step->channels, NAME(narrow)(y), step->low, step->high, step->channels - channel);
        }
    }
}

/* `sums`: of its exact size, pixels times registers. A larger array stays in memory with clang. */
INLINE void NAME(tile)(const struct convolution *step, const int8_t *weights, int64_t first_block, int64_t first_pixel,
                       NAME(words) *sums, const int pixels, const int blocks, const int extreme) {
    enum { WORDS = LANES / NAME(REGISTERS), BYTES = 64 / NAME(REGISTERS), VALUE = 4 * NAME(PARTS) };
    const int registers = blocks * NAME(REGISTERS);
    const NAME(element) *windows[PIXELS];
    const int32_t *rescaling = step->rescaling + first_block * RESCALING;
    UNROLL for (int p = 0; p < pixels; p++)
        windows[p] = (const NAME(element) *)step->input + step->pixels[first_pixel + p];
    UNROLL for (int i = 0; i < pixels * registers; i++) {
        const int r = i % registers;
        sums[i] = NAME(load)(rescaling + r / NAME(REGISTERS) * RESCALING + r % NAME(REGISTERS) * WORDS);
        KEEP(sums[i]);
    }
    __auto_type sign = NAME(sign)();
    const int32_t *segment = step->segments, *const last = segment + 2 * step->segment_count;
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
    /* A copy, so that the sums themselves have no address; a plain one is memcpy to clang, and they have. */
    NAME(words) results[PIXELS * NAME(REGISTERS)];
    UNROLL for (int i = 0; i < pixels * registers; i++) {
        results[i] = sums[i];
        KEEP(results[i]);
    }
    NAME(finish)(step, results, first_block, first_pixel, pixels, blocks);
}

#define TILE(P, B, E)                                                                                           \
    static void NAME(tile_##P##x##B##_##E)(const struct convolution *step, const int8_t *weights,               \
                                           int64_t first_block, int64_t first_pixel) {                          \
        NAME(words) sums[P * B * NAME(REGISTERS)];                                                              \
        NAME(tile)(step, weights, first_block, first_pixel, sums, P, B, E);                                     \
    }
#if PIXELS == 6
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
