"""The C source of one network: its description, its parameters, and the kernels that it uses."""

import struct
from collections.abc import Iterator, Sequence

from aisrv.addons.kernels.images.recording import RecordedNetwork
from aisrv.addons.kernels.images.structures import KERNELS, Parameters
from aisrv.model.relocatable.container import Variant
from aisrv.model.relocatable.network import INFO_MAGIC, TensorInfo


def network_source(name: str, network: RecordedNetwork, variant: Variant, kernels: Sequence[str]) -> str:
    """Return the source as text. `name` is a C identifier; `kernels` are those that the image holds."""
    return "\n".join(_lines(name, network, variant, kernels)) + "\n"


def _lines(name: str, network: RecordedNetwork, variant: Variant, kernels: Sequence[str]) -> Iterator[str]:
    inputs, outputs, nodes = len(network.inputs), len(network.outputs), len(network.nodes)
    yield '#include "network.h"'
    yield ""
    yield f'const uint32_t flags __attribute__((section(".header.flags"), used)) = {int(variant):#010x};'
    yield ""
    yield "static const struct {"
    yield "    struct network_info info;"
    yield f"    struct tensor_info tensors[{inputs + outputs}];"
    yield f"    struct node_info nodes[{nodes}];"
    yield "} network = {"
    yield f"    {{{INFO_MAGIC:#x}, {inputs}, {outputs}, {nodes}}},"
    yield "    {"
    for tensor in (*network.inputs, *network.outputs):
        yield f"        {_tensor(tensor)},"
    yield "    },"
    yield "    {"
    for node in network.nodes:
        info = node.info
        numbers = (info.operator_code, info.kernel, info.multiplications, info.instructions, info.bytes_moved)
        yield (f"        {{{', '.join(map(str, numbers))}, {_text(info.name)}}},")
    yield "    },"
    yield "};"
    yield ""
    for index, node in enumerate(network.nodes):
        structure, values = node.step.parameters.structure, _values(node.step.parameters)
        yield f"static const struct {structure} node{index} = {{{values}}};"
    yield ""
    table = ", ".join(f"&node{index}" for index in range(nodes))
    yield f"const void *const parameters[] = {{{table or '0'}}};"
    yield "kernel *const kernels[KERNEL_COUNT] = {"
    for kernel in kernels:
        yield f"    [{KERNELS.index(kernel)}] = {kernel},"
    yield "};"
    yield "const struct network_info *const description = &network.info;"
    yield ""
    yield 'struct context context __attribute__((section(".data.context"), used)) = {'
    yield f"    .c_name = {_text(name)},"
    yield f"    .activations_size = {network.activations_size},"
    yield f"    .weights_size = {len(network.weights)},"
    yield "    .info = &network.info,"
    yield "};"


def _values(parameters: Parameters) -> str:
    return ", ".join(f".{field} = {_number(value)}" for field, value in parameters.by_field().items())


def _number(value: int) -> str:
    return f"{value}u" if value > 0x7FFFFFFF else str(value)


def _tensor(tensor: TensorInfo) -> str:
    shape = (tensor.shape0, tensor.shape1, tensor.shape2, tensor.shape3, tensor.shape4, tensor.shape5)
    (scale,) = struct.unpack("<I", struct.pack("<f", tensor.scale))
    return (
        f"{{{tensor.type}, {tensor.rank}, {{{', '.join(map(str, shape))}}}, {scale:#x}, "
        f"{tensor.zero_point}, {tensor.place}, {tensor.bytes}, {_text(tensor.name)}}}"
    )


def _text(text: str) -> str:
    """Return a C string of at most 31 characters; characters that are not plain become escapes."""
    data = text.encode("ascii", "replace")[:31]
    return '"' + "".join(chr(b) if chr(b).isalnum() or b in b"_ /.:-" else f"\\{b:03o}" for b in data) + '"'
