/* The structures of a relocatable network: those of the interface, and the parameters of its kernels.
 *
 * Those of the interface have counterparts in aisrv/model/relocatable/network.py, field by field. structures.py reads
 * the parameters of kernels from here: fields of one type to a line, without comments between them. A "place" is where
 * a tensor or a constant lies: an offset from the activations, or, with PLACE_WEIGHTS, from the weights.
 */
#ifndef AISRV_RELOCATABLE_NETWORK_H
#define AISRV_RELOCATABLE_NETWORK_H

#include <stdint.h>

#define STATE_INITIALIZED 1u
#define PLACE_WEIGHTS 0x80000000u
#define NAME_BYTES 32
#define MOST_DIMENSIONS 6

/* Errors: the type in bits 7 to 0, the code above. */
#define ERROR(type, code) ((uint32_t)(type) | (uint32_t)(code) << 8)
enum { INVALID_HANDLE = 0x10, INVALID_STATE = 0x11, INVALID_INPUT = 0x12, INVALID_OUTPUT = 0x13, INIT_FAILED = 0x30 };
enum { NETWORK = 0x10, NETWORK_WEIGHTS = 0x12, NETWORK_ACTIVATIONS = 0x13, INVALID_PTR = 0x17, MISSED_INIT = 0x30 };

/* What an observer is told of. */
enum { OBSERVE_BEFORE = 1, OBSERVE_AFTER = 2 };

struct node_info {
    uint32_t operator_code; /* of the model's schema */
    uint32_t kernel;
    uint32_t multiplications;
    uint32_t instructions; /* of one run, counted by the packager; 0 if unknown */
    uint32_t bytes_moved;
    char name[NAME_BYTES];
};

struct tensor_info {
    uint32_t type; /* of the model's schema */
    uint32_t rank;
    uint32_t shape[MOST_DIMENSIONS];
    uint32_t scale; /* the bits of a float */
    int32_t zero_point;
    uint32_t place;
    uint32_t bytes;
    char name[NAME_BYTES];
};

/* Followed by the inputs, the outputs, and the nodes. No pointers: it lies in read-only memory. */
struct network_info {
    uint32_t magic;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t node_count;
};

#define INFO_MAGIC 0x4E495641u /* "AVIN" */

struct node_report {
    uint32_t index;
    uint32_t moment; /* OBSERVE_BEFORE or OBSERVE_AFTER */
    const struct node_info *info;
};

typedef void observer(void *cookie, uint32_t moment, const struct node_report *node);

struct observer_request {
    observer *callback;
    void *cookie;
    uint32_t flags;
};

struct buffer {
    void *data; /* 0 where the bytes lie in the activations already */
    uint32_t bytes;
};

struct report {
    const char *name;
    const struct network_info *info;
    uint32_t runs;
    uint32_t activations_size;
    uint32_t weights_size;
};

struct context {
    uint32_t state; /* bit 0 initialized, bit 1 run in place */
    void *network;
    uint32_t ram;
    uint32_t rom;
    uint32_t heap;
    const char *c_name;
    uint32_t activations_size;
    uint32_t weights_size;
    struct observer_request observer;
    const struct network_info *info;
    uint32_t error;
    const int8_t *weights;
    int8_t *activations;
};

struct memory {
    int8_t *activations;
    const int8_t *weights;
};

static inline int8_t *at(const struct memory *memory, uint32_t place)
{
    if (place & PLACE_WEIGHTS)
        return (int8_t *)memory->weights + (place & ~PLACE_WEIGHTS);
    return memory->activations + place;
}

/* Kernels by number, each with the name of its function. */
enum {
    KERNEL_CONV_2D,
    KERNEL_DEPTHWISE_CONV_2D,
    KERNEL_FULLY_CONNECTED,
    KERNEL_AVERAGE_POOL,
    KERNEL_MAX_POOL,
    KERNEL_SOFTMAX,
    KERNEL_ADD,
    KERNEL_MUL,
    KERNEL_COPY,
    KERNEL_PAD,
    KERNEL_MEAN,
    KERNEL_COUNT
};

typedef void kernel(const void *parameters, const struct memory *memory);

/* Of a convolution of groups, in_c counts the channels of one group. */
struct convolution {
    uint32_t input, output, weights, bias, multipliers;
    int32_t batches, in_h, in_w, in_c, groups, out_h, out_w, out_c, taps_h, taps_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, before_h, before_w;
    int32_t in_zero, out_zero, low, high, depth_multiplier;
};

struct fully_connected {
    uint32_t input, output, weights, bias, multipliers;
    int32_t batches, inputs, outputs, in_zero, weights_zero, out_zero, low, high;
};

struct pool {
    uint32_t input, output;
    int32_t batches, in_h, in_w, channels, out_h, out_w, taps_h, taps_w;
    int32_t stride_h, stride_w, before_h, before_w, low, high;
};

struct softmax {
    uint32_t input, output, exponentials;
    int32_t rows, classes;
};

/* One dimension that a kernel walks through, and the distance of neighbors in two tensors. Tables of them lie
 * among the constants, the outermost first. */
struct dimension {
    int32_t extent, step1, step2;
};

struct elementwise {
    uint32_t input1, input2, output, dimensions;
    int32_t rank, length, zero1, zero2, out_zero, low, high;
    int32_t mantissa1, shift1, mantissa2, shift2, out_mantissa, out_shift;
};

struct copy {
    uint32_t input, output;
    int32_t length;
};

/* Copies of `run` bytes each, from step1 to step2. */
struct pad {
    uint32_t input, output, dimensions;
    int32_t rank, copies, run, first, length, fill;
};

/* The first table has one entry for each dimension that is kept, the second for each that is not. */
struct mean {
    uint32_t input, output, kept, reduced;
    int32_t kept_rank, reduced_rank, length, count, in_zero, out_zero, mantissa, shift;
};

kernel conv_2d, depthwise_conv_2d, fully_connected, average_pool, max_pool, softmax, add, mul, copy, pad, mean;

/* What the generated source defines. */
extern struct context context;
extern const struct network_info *const description;
extern kernel *const kernels[KERNEL_COUNT];
extern const void *const parameters[];

#endif
