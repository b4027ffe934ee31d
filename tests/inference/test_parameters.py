"""Parameters in flash: which operators of a model load what, and how their loads are served."""

import pytest
from flatbuffers import flexbuffers

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.parameters import (
    MAX_EXTENT,
    ParameterLoad,
    ParameterTraffic,
    parameter_bytes,
    parameter_loads,
    read_parameters,
)
from aisrv.model import Model, Operator, Tensor, TensorType

Options = dict[str, int | list[int]]


def model(*loads: tuple[str, Options | bytes, tuple[int, ...]]) -> Model:
    """A model of custom operators, each with its name, its options, and its outputs' sizes."""
    tensors: list[Tensor] = []
    operators = []
    for index, (name, options, sizes) in enumerate(loads):
        first = len(tensors)
        tensors += [Tensor("", (size,), TensorType.INT8, index=first + i) for i, size in enumerate(sizes)]
        data = options if isinstance(options, bytes) else bytes(flexbuffers.Dumps(options))
        outputs = tuple(range(first, len(tensors)))
        operators.append(Operator(index, name, (), outputs, is_custom=True, custom_options=data))
    return Model(3, "", tuple(tensors), tuple(operators), (), ())


def test_loads_are_in_operator_order_whatever_their_addresses() -> None:
    found = parameter_loads(
        model(
            ("XC_ld_weights", {"a": 6656, "s": [1024], "t": 0}, (1024,)),
            ("XC_pad", b"anything", (8,)),
            ("XC_ld_weights", {"a": 1664, "s": [4864, 128], "t": 0}, (4864, 128)),
        )
    )
    assert found == (ParameterLoad(0, 6656, 1024), ParameterLoad(2, 1664, 4992))
    assert parameter_bytes(found) == 7680


@pytest.mark.parametrize("name", ["XC_ld_flash", "XC_ld_weights"])
def test_older_names_of_the_options(name: str) -> None:
    found = parameter_loads(model((name, {"addr": 16, "sizes": [4, 8]}, (4, 8))))
    assert found == (ParameterLoad(0, 16, 12),)


def test_a_model_without_loads_needs_no_parameters() -> None:
    found = parameter_loads(model(("XC_pad", b"", (8,))))
    assert found == ()
    assert parameter_bytes(found) == 0


def test_a_load_up_to_the_end_of_the_largest_flash() -> None:
    assert parameter_loads(model(("XC_ld_weights", {"a": MAX_EXTENT - 4, "s": [4]}, (4,))))[0].size == 4


@pytest.mark.parametrize(
    ("options", "outputs", "reason"),
    [
        (b"", (4,), "its options cannot be read: 0 bytes"),
        ({"s": [4]}, (4,), "missing option: a or addr"),
        ({"a": 0}, (4,), "missing option: s or sizes"),
        ({"a": 0, "s": [4]}, (5,), r"loads \[4\] bytes, its outputs have \[5\]"),
        ({"a": 0, "s": [4]}, (4, 4), r"loads \[4\] bytes, its outputs have \[4, 4\]"),
        ({"a": 0, "s": []}, (), "loads nothing"),
        ({"a": 0, "s": [0]}, (0,), "loads nothing"),
        ({"a": 0, "s": [1] * 11}, (1,) * 11, "has 11 elements, at most 10"),
        ({"a": -1, "s": [4]}, (4,), "loads 4 bytes from -1: a flash has at most 67,107,840"),
        ({"a": MAX_EXTENT - 3, "s": [4]}, (4,), "a flash has at most"),
        ({"a": 0, "s": [4], "t": 1}, (4,), "from external memory.*without --xcore-weights-in-external"),
        ({"a": 0, "s": [4], "t": 2}, (4,), "while other operators run.*without --xcore-async-load-weights"),
        ({"a": 0, "s": [4], "t": 3}, (4,), "a load of kind 3"),
    ],
)
def test_loads_that_make_no_sense(options: Options | bytes, outputs: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ModelError, match=rf"^operator 0 \(XC_ld_weights\).*{reason}"):
        parameter_loads(model(("XC_ld_weights", options, outputs)))


class Source:
    """Parameters in memory; remembers what was asked, and fails at the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[int, int]] = []

    async def read(self, offset: int, size: int) -> bytes:
        self.asked.append((offset, size))
        if offset + size > len(self.data):
            raise InvokeError("past the end")
        return self.data[offset : offset + size]


async def test_each_load_is_one_read_to_its_own_address() -> None:
    source = Source(bytes(range(100)))
    memory = memoryview(bytearray(20))
    await read_parameters([ParameterLoad(0, 12, 4), ParameterLoad(3, 2, 3)], source, memory)
    assert source.asked == [(12, 4), (2, 3)]
    assert bytes(memory) == bytes(2) + bytes([2, 3, 4]) + bytes(7) + bytes([12, 13, 14, 15]) + bytes(4)


async def test_nothing_is_read_after_a_read_that_failed() -> None:
    source = Source(bytes(10))
    loads = [ParameterLoad(0, 0, 4), ParameterLoad(1, 8, 4), ParameterLoad(2, 4, 4)]
    with pytest.raises(InvokeError, match="past the end"):
        await read_parameters(loads, source, memoryview(bytearray(12)))
    assert source.asked == [(0, 4), (8, 4)]


def test_traffic_counts_requests_and_bytes() -> None:
    assert ParameterTraffic.of([]) == ParameterTraffic(0, 0)
    loads = [ParameterLoad(0, 64, 10), ParameterLoad(1, 64, 10)]
    assert ParameterTraffic.of(loads) == ParameterTraffic(requests=2, nbytes=20)
