/* What Python gives the library: the kinds of steps, and the structure of each one's arguments.

   `steps.py` reads this file, so a declaration here is a field to a line, without comments between its words.
   Pointers are addresses of memory that Python keeps for as long as the step. */

#include <stdint.h>

/* Sets of kernels, each for the instructions of some processors. */
enum variant {
    PLAIN,
    AVX2,
    AVXVNNI,
    AVX512VNNI,
    NEON,
    NEONDOT,
};

enum step_kind {
    COPY,
    PAIRS,
    SOFTMAX,
    PADDING,
    CONVOLUTION,
    DEPTHWISE,
    DEPTHWISE_3X3,
    ADDITION,
    AVERAGE_POOL,
    MAX_POOL,
    LSTM,
    SVDF,
    CONVOLUTION_INT16,
    DEPTHWISE_INT16,
    WIDE_DEPTHWISE_INT16,
    ADDITION_INT16,
    WIDE_ADDITION_INT16,
    MULTIPLICATION_INT16,
    SOFTMAX_INT16,
    AVERAGE_POOL_INT16,
    MAX_POOL_INT16,
    CONVOLUTION_FLOAT32,
    DEPTHWISE_FLOAT32,
    ADDITION_FLOAT32,
    SUBTRACTION_FLOAT32,
    MULTIPLICATION_FLOAT32,
    SOFTMAX_FLOAT32,
    LOGISTIC_FLOAT32,
    TANH_FLOAT32,
    ROW_MEAN_FLOAT32,
    AVERAGE_POOL_FLOAT32,
    MAX_POOL_FLOAT32,
};

struct step {
    int64_t variant;
    int64_t kind;
    const void *arguments;
    int64_t pieces; /* what is worth to be shared by threads; 1: nothing */
};

/* A padded copy of an input; unused if batches is 0. The border is written once and stays. Sizes count elements. */
struct picture {
    const void *source;
    void *copy;      /* at the first element that is not border */
    int64_t batches;
    int64_t height;
    int64_t width;   /* of a row of the source, channels included */
    int64_t line;    /* from row to row of the copy */
    int64_t plane;   /* from picture to picture of the copy */
    int64_t repeats; /* how often each element comes, one beside the other */
};

/* M(x, m, s): the shift to the left and that to the right of a factor. */
struct factor {
    int64_t mantissa;
    int64_t left;
    int64_t right;
};

/* Sums of int16 that may need 64 bits; pieces of a window have sums of 32. Unused unless is_needed is 1. */
struct wide_sums {
    const int32_t *pieces; /* how many segments each has */
    const int64_t *bias;
    const struct factor *factors;
    int64_t is_needed;
    int64_t rounds_once; /* whether sums are rescaled as those of 64 bits, else as words */
};

struct convolution {
    struct picture picture;
    struct wide_sums wide;
    const void *input;
    void *output;
    const void *weights;
    const int32_t *rescaling; /* by block */
    const int32_t *pixels;    /* offset of each pixel's window in the input */
    const int32_t *segments;  /* pairs: offset in the window, and its end, in elements */
    const int64_t *groups;    /* fours: pixels and blocks of a tile, first block, offset of the weights in bytes */
    int64_t pixel_count;
    int64_t segment_count;
    int64_t group_count;
    int64_t channels;
    int64_t chunk;
    int64_t plain;   /* whether the rescaling is: shifts left of 1, to the right of 1 at least */
    int64_t extreme; /* whether a weight is -128 */
    int64_t low;
    int64_t high;
};

/* Windows of any form, one channel each: `taps` are offsets, `weights` by block and by group of taps. */
struct depthwise {
    struct picture picture;
    struct wide_sums wide;
    const void *input;
    void *output;
    const void *weights;
    const int32_t *rescaling;
    const int32_t *pixels;
    const int32_t *taps;
    int64_t pixel_count;
    int64_t tap_groups;
    int64_t channels;
    int64_t plain;
    int64_t extreme;
    int64_t low;
    int64_t high;
};

/* Windows of 3x3, strides of 1 or 2, at most one row and column of border on each side. */
struct depthwise_3x3 {
    const int8_t *input;
    int8_t *output;
    const int8_t *weights;    /* by block: columns of a window, each as a row of four words of bytes */
    const int32_t *rescaling;
    const int8_t *border;     /* a row of the zero point */
    int64_t batches;
    int64_t height;
    int64_t width;
    int64_t channels;
    int64_t out_height;
    int64_t out_width;
    int64_t stride;
    int64_t top;
    int64_t left;
    int64_t zero;
    int64_t plain;
    int64_t low;
    int64_t high;
};

/* Elements of one length: a line in float32, which was proven for all pairs. */
struct addition {
    const int8_t *first;
    const int8_t *second;
    int8_t *output;
    int64_t count;
    int64_t low;
    int64_t high;
    float factor1;
    float factor2;
    float offset;
};

/* A table of all pairs; a shorter input repeats. */
struct pairs {
    const uint8_t *first;
    const uint8_t *second;
    int8_t *output;
    const int8_t *table;
    int64_t first_count;
    int64_t second_count;
    int64_t count;
};

struct pool {
    const void *input;
    void *output;
    int64_t batches;
    int64_t height;
    int64_t width;
    int64_t channels;
    int64_t out_height;
    int64_t out_width;
    int64_t filter_h;
    int64_t filter_w;
    int64_t stride_h;
    int64_t stride_w;
    int64_t top;
    int64_t left;
    int64_t low;
    int64_t high;
};

struct softmax {
    const int8_t *input;
    int8_t *output;
    const int32_t *exponentials; /* of the differences 0, -1, ... to the largest of a row */
    const int32_t *rounded;      /* the same, as they are summed */
    int64_t rows;
    int64_t classes;
};

/* ADD and MUL of int16; a shorter input of MUL repeats. */
struct int16_pairs {
    const int16_t *first;
    const int16_t *second;
    int16_t *output;
    const int32_t *rescaling;     /* ADD: of the first, of the second, of their sum, a block each */
    const struct factor *factors; /* the same; MUL: of a product */
    int64_t first_count;
    int64_t second_count;
    int64_t count;
    int64_t low;
    int64_t high;
};

/* Tables have 513 entries. */
struct int16_softmax {
    const int16_t *input;
    int16_t *output;
    const struct factor *factor;
    const int16_t *exponentials;
    const int16_t *reciprocals;
    int64_t rows;
    int64_t classes;
};

/* Windows of any form, one channel each. `low` and `high` of float32 are the bits of floats, here as elsewhere. */
struct float32_depthwise {
    struct picture picture;
    const void *input;
    float *output;
    const float *weights; /* by block and tap */
    const float *bias;
    const int32_t *pixels;
    const int32_t *taps;
    int64_t pixel_count;
    int64_t tap_count;
    int64_t channels;
    int64_t low;
    int64_t high;
};

/* ADD, SUB and MUL; a shorter input repeats. */
struct float32_pairs {
    const float *first;
    const float *second;
    float *output;
    int64_t first_count;
    int64_t second_count;
    int64_t count;
    int64_t low;
    int64_t high;
};

struct float32_softmax {
    const float *input;
    float *output;
    const double *powers; /* 2**(n / 32) */
    int64_t rows;
    int64_t classes;
    float beta;
};

/* From value to value. */
struct float32_function {
    const float *input;
    float *output;
    const double *powers;
    int64_t count;
};

/* Rows that become one value each. */
struct float32_rows {
    const float *input;
    float *output;
    int64_t rows;
    int64_t count;
};

struct copy {
    const int8_t *input;
    int8_t *output;
    int64_t count;
};

/* Pictures that get a border of one byte's value; widths count bytes. */
struct padding {
    const int8_t *input;
    int8_t *output;
    int64_t batches;
    int64_t height;
    int64_t width;
    int64_t out_height;
    int64_t out_width;
    int64_t top;
    int64_t left;
    int64_t fill;
};

/* Gates in the order input, forget, output, candidate, a row for each unit. Rows of weights end in zeros. */
struct lstm {
    const int8_t *input;
    int8_t *output;
    int8_t *state;
    int16_t *cells;
    const int16_t *weights;
    const int16_t *recurrent;
    const int64_t *bias;
    const struct factor *input_factors; /* by row */
    const struct factor *state_factors;
    const struct factor *factors; /* forget, remember, show */
    const int16_t *sigmoid;       /* by the 16 bits of an argument */
    const int16_t *tanh;
    const int16_t *cell_tanh;
    int16_t *row;   /* room for an input, or a state, without its zero point */
    int64_t *gates; /* room for the sums of one picture's gates */
    int64_t steps;
    int64_t batch;
    int64_t inputs;
    int64_t units;
    int64_t input_width; /* elements from row to row of the weights, a multiple of 16 */
    int64_t state_width;
    int64_t input_step; /* bytes from step to step, and from picture to picture */
    int64_t input_batch;
    int64_t output_step;
    int64_t output_batch;
    int64_t input_zero;
    int64_t state_zero;
    int64_t low; /* of cells */
    int64_t high;
};

struct svdf {
    const int8_t *input;
    int8_t *output;
    void *state;             /* [batch, filters, memory], of int8 or of int16 */
    const int16_t *features; /* rows end in zeros */
    const int16_t *times;
    const int64_t *bias;
    const struct factor *factors; /* to the state, to the output */
    int16_t *row;
    int64_t batch;
    int64_t inputs;
    int64_t width;
    int64_t units;
    int64_t rank;
    int64_t memory;
    int64_t is_wide; /* whether the state is of int16 */
    int64_t input_zero;
    int64_t state_zero;
    int64_t output_zero;
};
