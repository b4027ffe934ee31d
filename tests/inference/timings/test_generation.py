"""Which tools made a file, and what the options of a converted convolution say."""

import struct
from collections.abc import Callable

import pytest
from flatbuffers import flexbuffers
from msgspec.structs import replace

from aisrv.inference.timings import DeviceModel, Generation, generation_of
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model import Model, Operator, Tensor, TensorType

G = Generation


def options(**values: object) -> bytes:
    """A map of a flexbuffer; bytes become blobs."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in values.items():
            builder.Key(name)
            add(builder, value)
    return bytes(builder.Finish())


def add(builder: flexbuffers.Builder, value: object) -> None:
    if isinstance(value, bytes):
        builder.Blob(value)
    elif isinstance(value, list):
        with builder.Vector():
            for each in value:
                add(builder, each)
    else:
        builder.Add(value)


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def file(*operators: tuple[str, bytes]) -> Model:
    """A model of operators without tensors."""
    made = [
        Operator(index, name, (), (), is_custom=name.startswith("XC_"), custom_options=data)
        for index, (name, data) in enumerate(operators)
    ]
    return Model(3, "", (), tuple(made), (), ())


NAMES = {
    G.G2021: (
        "XC_conv2d_deep",
        "XC_conv2d_shallowin",
        "XC_conv2d_1x1",
        "XC_conv2d_depthwise",
        "XC_fc",
        "XC_avgpool2d",
        "XC_avgpool2d_global",
        "XC_add_8",
        "XC_lookup_8",
    ),
    G.G2022: ("XC_ld_flash",),
    G.G2023: ("XC_add", "XC_pad_3_to_4"),
    G.G2024: (
        "XC_maxpool2d",
        "XC_softmax",
        "XC_slice",
        "XC_pad_v2",
        "XC_concat",
        "XC_ld_weights",
        "XC_mean",
    ),
}


@pytest.mark.parametrize(
    ("name", "generation"), [(name, generation) for generation, names in NAMES.items() for name in names]
)
def test_operators_tell_the_generation(name: str, generation: Generation) -> None:
    found = generation_of(file((name, b""), ("RESHAPE", b"")))
    assert (found.generation, found.origin, found.is_certain) == (generation, "file", True)
    assert str(found) == generation.value


@pytest.mark.parametrize(
    ("name", "data", "generation"),
    [
        ("XC_maxpool2d", options(pool=[2, 2]), G.G2021),
        ("XC_conv2d_v2", options(threads=[[b"a"]]), G.G2022),
        *[
            ("XC_conv2d_v2", options(**{key: 0}), G.G2023)
            for key in ("akp", "kt", "mp", "aggp", "otp", "scratch", "ott", "k", "a", "o", "s", "t", "p")
        ],
    ],
)
def test_options_tell_the_generation(name: str, data: bytes, generation: Generation) -> None:
    assert generation_of(file((name, data))).generation is generation


@pytest.mark.parametrize(
    ("operators", "generation", "note"),
    [
        (("XC_fc", "XC_add"), G.G2023, "the file has operators of 2021 and 2023: the newest counts"),
        (
            ("XC_slice", "XC_pad_3_to_4", "XC_ld_flash"),
            G.G2024,
            "the file has operators of 2022 and 2023 and 2024: the newest counts",
        ),
        (("XC_fc", "XC_fc"), G.G2021, ""),
    ],
)
def test_the_newest_sign_counts(operators: tuple[str, ...], generation: Generation, note: str) -> None:
    found = generation_of(file(*((name, b"") for name in operators)))
    assert (found.generation, found.note) == (generation, note)


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, options(unheard_of=1)])
def test_unknown_options_are_taken_for_2023_with_a_doubt(data: bytes) -> None:
    found = generation_of(file(("XC_conv2d_v2", data)))
    assert (str(found), found.generation, found.is_certain) == ("2023 (?)", G.G2023, False)


def test_doubt_widens_the_band() -> None:
    certain, doubtful = (
        estimate_times(DeviceModel(), convolution((1, 8, 8, 32), (1, 8, 8, 32), 1024, data))[0]
        for data in (options(k=0, a=words(512, 0, 0, 0, 0, 0)), b"")
    )
    assert doubtful.ticks == certain.ticks
    assert doubtful.low < certain.low
    assert doubtful.high > certain.high


def test_a_plain_file_has_no_generation() -> None:
    found = generation_of(file(("CONV_2D", b"")))
    assert (found.generation, found.origin) == (G.PLAIN, "plain")


def test_an_option_counts_more_than_the_file() -> None:
    found = generation_of(file(("XC_slice", b"")), G.G2022)
    assert (found.generation, found.origin) == (G.G2022, "option")


@pytest.mark.parametrize(
    ("generation", "clock", "reference"),
    [(G.G2021, 700, 175), (G.G2022, 700, 175), (G.G2023, 600, 100), (G.G2024, 600, 100), (G.PLAIN, 600, 100)],
)
def test_clocks_of_a_generation(generation: Generation, clock: float, reference: float) -> None:
    device = DeviceModel().for_generation(generation)
    assert (device.core_mhz, device.tick_mhz) == (clock, reference)
    assert DeviceModel(clock_mhz=500, reference_mhz=50).for_generation(generation).core_mhz == 500


# Forms of converted convolutions.


def convolution(data: tuple[int, ...], output: tuple[int, ...], weights: int, made: bytes) -> Model:
    tensors = (
        Tensor("data", data, TensorType.INT8, index=0),
        Tensor("weights", (weights,), TensorType.INT8, data=bytes(weights), index=1),
        Tensor("output", output, TensorType.INT8, index=2),
    )
    operator = Operator(0, "XC_conv2d_v2", (0, 1), (2,), is_custom=True, custom_options=made)
    return Model(3, "", tensors, (operator,), (0,), (2,))


DIRECT = words(4608, 2, 2, 0, 480, 0)
DEPTHWISE = words(144, 2, 2, 16, 0)
GENERIC = words(16, 144)
COPY = words(100, 16, 2, 2, 0, 0, -16, -16, 0, 0)


@pytest.mark.parametrize(
    ("number", "products", "copy", "depth", "form", "slots"),
    [
        (0, DIRECT, b"", 32, "direct", 405 + 40 + 16 * (55 + 106 + 22 * 9 + 2 * 8 + 2 * 2)),
        (1, GENERIC, COPY, 16, "indirect", 405 + 40 + 16 * (113 + 48 + 4 + 142 + 22 * 4)),
        (2, GENERIC, b"", 16, "padded", 405 + 40 + 16 * (58.5 + 56 * 8 + 142 + 22 * 4)),
        (3, DEPTHWISE, b"", 16, "depthwise", 405 + 40 + 16 * 200),
        (4, DEPTHWISE, b"", 16, "depthwise padded", 405 + 40 + 16 * 702),
    ],
)
@pytest.mark.parametrize(("kind", "of_products"), [("k", "a"), ("kt", "aggp")])
def test_the_form_is_an_option(
    number: int,
    products: bytes,
    copy: bytes,
    depth: int,
    form: str,
    slots: float,
    kind: str,
    of_products: str,
) -> None:
    made = options(**{kind: number, of_products: products, "mp": copy})
    (time,) = estimate_times(DeviceModel(), convolution((1, 6, 6, depth), (1, 4, 4, 16), 9999, made))
    assert (time.form, time.slots) == (form, slots)


@pytest.mark.parametrize(
    ("copy", "products", "form"),
    [
        (8, 24, "direct"),
        (32, 8, "indirect"),
        (64, 8, "padded"),
        (8, 20, "depthwise"),
        (64, 20, "depthwise padded"),
    ],
)
def test_the_form_of_2022_is_in_the_sizes_of_a_thread_s_blobs(copy: int, products: int, form: str) -> None:
    threads = [[bytes(32), bytes(copy), bytes(products), bytes(8), 0] for _ in range(2)]
    model = convolution((1, 6, 6, 32), (1, 4, 4, 32), 9999, options(threads=threads))
    (time,) = estimate_times(DeviceModel(), model)
    assert time.form == form


@pytest.mark.parametrize(
    ("copy", "form", "pixel"), [(32, "indirect", 87 + 48 + 4), (64, "padded", 58.5 + 448)]
)
def test_the_window_of_2022_is_in_the_bytes_of_an_output_channel(copy: int, form: str, pixel: float) -> None:
    threads = [[bytes(32), bytes(copy), GENERIC, bytes(8)]]
    model = convolution((1, 6, 6, 16), (1, 6, 6, 16), 9999, options(threads=threads))
    (time,) = estimate_times(DeviceModel(), model)
    assert (time.form, time.slots) == (form, 405 + 60 + 36 * (pixel + 142 + 22 * 4))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: bytes(len(data)),
        lambda data: data[:-1] + b"\xff",
        lambda data: b"",
    ],
)
def test_damaged_options_are_no_crash(damage: Callable[[bytes], bytes]) -> None:
    made = damage(options(k=1, a=GENERIC, mp=COPY))
    (time,) = estimate_times(DeviceModel(), convolution((1, 6, 6, 16), (1, 4, 4, 16), 2560, made))
    assert time.ticks > 0


def test_windows_beyond_reason_are_not_believed() -> None:
    made = options(k=0, a=words(1, 2**30, 2**30, 0, 0, 0))
    (time,) = estimate_times(DeviceModel(), convolution((1, 6, 6, 32), (1, 6, 6, 32), 1024, made))
    assert time.slots == 405 + 60 + 36 * (55 + 2 * (106 + 22))


def test_a_device_of_another_generation_counts_its_own_extras() -> None:
    made = options(k=1, a=GENERIC, mp=COPY)
    model = convolution((1, 6, 6, 16), (1, 4, 4, 16), 2560, made)
    slots = [
        estimate_times(replace(DeviceModel(), generation=generation), model)[0].slots
        for generation in (G.G2022, G.G2023, G.G2024)
    ]
    assert [each - slots[0] for each in slots] == [0, 16 * 26, 16 * (26 - 14)]
