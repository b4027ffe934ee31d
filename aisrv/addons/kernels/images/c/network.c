/* The functions of a relocatable network: the header's vectors lead here.
 *
 * Every function is called with r9 at the start of the instance's RAM. A handle is the address of the context.
 */
#include "network.h"

#define VECTORS 11

static uint32_t runs;

/* GCC calls these for copies of structures. */
void *memcpy(void *to, const void *from, uint32_t count)
{
    uint8_t *t = to;
    for (const uint8_t *f = from; count; count--)
        *t++ = *f++;
    return to;
}

void *memset(void *to, int value, uint32_t count)
{
    for (uint8_t *t = to; count; count--)
        *t++ = (uint8_t)value;
    return to;
}

static int is_ours(const struct context *handle)
{
    return handle == &context;
}

static uint32_t fail(struct context *handle, uint32_t error)
{
    if (handle->error == 0)
        handle->error = error;
    return 0;
}

static const struct tensor_info *tensors(void)
{
    return (const struct tensor_info *)(description + 1);
}

static const struct node_info *nodes(void)
{
    return (const struct node_info *)(tensors() + description->input_count + description->output_count);
}

static uint32_t create(struct context *handle)
{
    if (!is_ours(handle))
        return ERROR(INVALID_HANDLE, NETWORK);
    handle->network = handle;
    return 0;
}

static uint32_t init(struct context *handle, const int8_t *weights, int8_t *activations)
{
    if (!is_ours(handle))
        return 0;
    if (weights == 0 && handle->weights_size)
        return fail(handle, ERROR(INIT_FAILED, NETWORK_WEIGHTS));
    if ((activations == 0 || (uint32_t)activations & 3) && handle->activations_size)
        return fail(handle, ERROR(INIT_FAILED, NETWORK_ACTIVATIONS));
    handle->weights = weights;
    handle->activations = activations;
    handle->state |= STATE_INITIALIZED;
    return 1;
}

static uint32_t init_v2(struct context *handle, const int8_t *const *weights, int8_t *const *activations)
{
    if (!is_ours(handle))
        return 0;
    if (weights == 0 || activations == 0)
        return fail(handle, ERROR(INIT_FAILED, INVALID_PTR));
    return init(handle, weights[0], activations[0]);
}

static void observe(struct context *handle, uint32_t index, uint32_t moment)
{
    struct node_report report = {index, moment, nodes() + index};
    if (handle->observer.callback != 0 && handle->observer.flags & moment)
        handle->observer.callback(handle->observer.cookie, moment, &report);
}

static uint32_t is_ready(struct context *handle)
{
    if (!is_ours(handle))
        return 0;
    return handle->state & STATE_INITIALIZED ? 1 : fail(handle, ERROR(INVALID_STATE, MISSED_INIT));
}

static uint32_t run(struct context *handle, const struct buffer *inputs, const struct buffer *outputs)
{
    if (!is_ready(handle))
        return 0;
    struct memory memory = {handle->activations, handle->weights};
    const struct tensor_info *tensor = tensors();
    if (inputs == 0)
        return fail(handle, ERROR(INVALID_INPUT, INVALID_PTR));
    if (outputs == 0)
        return fail(handle, ERROR(INVALID_OUTPUT, INVALID_PTR));
    for (uint32_t i = 0; i < description->input_count; i++, tensor++)
        if (inputs[i].data != 0)
            memcpy(at(&memory, tensor->place), inputs[i].data, tensor->bytes);
    for (uint32_t i = 0; i < description->node_count; i++) {
        observe(handle, i, OBSERVE_BEFORE);
        kernels[nodes()[i].kernel](parameters[i], &memory);
        observe(handle, i, OBSERVE_AFTER);
    }
    for (uint32_t i = 0; i < description->output_count; i++, tensor++)
        if (outputs[i].data != 0)
            memcpy(outputs[i].data, at(&memory, tensor->place), tensor->bytes);
    runs++;
    return 1;
}

static uint32_t get_report(struct context *handle, struct report *report)
{
    if (!is_ready(handle))
        return 0;
    *report = (struct report){handle->c_name, description, runs, handle->activations_size, handle->weights_size};
    return 1;
}

static uint32_t get_error(struct context *handle)
{
    uint32_t error = is_ours(handle) ? handle->error : ERROR(INVALID_HANDLE, NETWORK);
    if (is_ours(handle))
        handle->error = 0;
    return error;
}

static uint32_t destroy(struct context *handle)
{
    if (is_ours(handle)) {
        handle->state = 0;
        handle->network = 0;
        return 0;
    }
    return (uint32_t)handle;
}

/* One kernel, with parameters that the caller brings. */
static uint32_t forward(struct context *handle, uint32_t number, const void *given)
{
    if (!is_ready(handle) || number >= KERNEL_COUNT || kernels[number] == 0)
        return 0;
    struct memory memory = {handle->activations, handle->weights};
    kernels[number](given, &memory);
    return 1;
}

static uint32_t observer_register(struct context *handle, const struct observer_request *request)
{
    if (!is_ours(handle) || request == 0 || request->callback == 0)
        return 0;
    handle->observer = *request;
    return 1;
}

static uint32_t observer_unregister(struct context *handle, observer *callback, void *cookie)
{
    if (!is_ours(handle) || callback != handle->observer.callback || cookie != handle->observer.cookie)
        return 0;
    handle->observer = (struct observer_request){0, 0, 0};
    return 1;
}

static uint32_t observer_node_info(struct context *handle, struct node_report *node)
{
    if (!is_ours(handle) || node == 0 || node->index >= description->node_count)
        return 0;
    node->info = nodes() + node->index;
    return 1;
}

const void *const vectors[VECTORS] __attribute__((section(".header.vectors"), used)) = {
    create, init, init_v2, run, get_report, get_error, destroy,
    forward, observer_register, observer_unregister, observer_node_info,
};
