"""The packager: files to images and back, verify and diff, the TOML file, blobs of `.params` files."""

import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from flatbuffers import flexbuffers
from hypothesis import given
from hypothesis import strategies as st

from aisrv.model.relocatable.container import ROM, Core, Variant, is_image, offset
from aisrv.model.relocatable.container import Image as RelocatableImage
from aisrv.model.relocatable.network import INFO_MAGIC, Network
from aisrv.model.relocatable.stored import checked, restored
from flash_server.errors import FlashError, LayoutError
from flash_server.files import InputError, map_file, write_file
from flash_server.image import DataPartition, EngineImage, Generation, Part
from flash_server.image.comparison import ImageDifference, compare, diff, verify
from flash_server.image.image_file import EngineFiles, Image
from flash_server.image.nibbles import CHUNK
from flash_server.image.pack_config import read_config
from flash_server.image.pack_options import PackOptions, describe
from flash_server.image.packager import pack, unpack
from flash_server.image.params_file import first_blob
from tests.support.models.relocatable import DIGITS, DIGITS_FPU, DIGITS_M33, SEED

MODEL = bytes(range(256)) * 300
PARAMETERS = bytes(range(250, -1, -1)) * 5


@pytest.fixture
def engines(tmp_path: Path) -> list[EngineFiles]:
    """Two engines: a model and parameters, and execute-in-place data."""
    for name, data in (("a.tflite", MODEL), ("a.params", PARAMETERS), ("b.xip", b"\x01\x02\x03")):
        (tmp_path / name).write_bytes(data)
    return [EngineFiles(tmp_path / "a.tflite", tmp_path / "a.params"), EngineFiles(xip=tmp_path / "b.xip")]


def packed(engines: list[EngineFiles], path: Path, **options: Any) -> Image:
    pack(engines, path, PackOptions(**options))
    return Image.open(path)


# Packing.


def test_packs_what_the_value_builds(engines: list[EngineFiles], tmp_path: Path) -> None:
    pack(
        engines,
        tmp_path / "f",
        PackOptions(Generation.VERSION_1_2, True, size=100_000, alignment=512, fill=True),
    )
    wanted = DataPartition(
        (EngineImage(MODEL, PARAMETERS), EngineImage(xip=b"\x01\x02\x03")), Generation.VERSION_1_2, True, 512
    )
    assert (tmp_path / "f").read_bytes() == wanted.build(100_000, fill=True)


@pytest.mark.parametrize(
    ("generation", "offset"), [("design", 0), ("1.2", 0), ("fast", 0x44 + 4 + len(MODEL) + len(PARAMETERS))]
)
def test_missing_part_as_usual_in_the_generation(
    generation: str, offset: int, engines: list[EngineFiles], tmp_path: Path
) -> None:
    image = packed(engines, tmp_path / "f", generation=Generation(generation))
    assert image.map.headers[0].operators == offset


def test_missing_part_as_asked(engines: list[EngineFiles], tmp_path: Path) -> None:
    assert packed(engines, tmp_path / "f", placed=False).map.headers[0].operators == 0
    placed = packed(engines, tmp_path / "g", generation=Generation.DESIGN, placed=True)
    assert placed.map.headers[0].operators == placed.map.headers[1].model


def test_too_large_leaves_the_old_file(engines: list[EngineFiles], tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(LayoutError, match="engine 0: model at 0x44: it would end at"):
        pack(engines, tmp_path / "f", PackOptions(size=1000))
    assert (tmp_path / "f").read_bytes() == b"old"
    assert not list(tmp_path.glob(".*"))


def test_missing_file_names_engine_and_part(engines: list[EngineFiles], tmp_path: Path) -> None:
    engines[1] = EngineFiles(operators=tmp_path / "none")
    with pytest.raises(
        InputError, match=f"^engine 1: operators: {re.escape(str(tmp_path))}/none: No such file"
    ):
        pack(engines, tmp_path / "f")


def test_directory_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"engine 0: model: .*: Is a directory"):
        pack([EngineFiles(model=tmp_path)], tmp_path / "f")


@pytest.mark.parametrize("files", [[], [EngineFiles()]])
def test_nothing_to_pack(files: list[EngineFiles], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to pack"):
        pack(files, tmp_path / "f")


def test_output_may_be_an_input(engines: list[EngineFiles], tmp_path: Path) -> None:
    pack(engines, tmp_path / "f")
    pack(engines, tmp_path / "a.params")
    assert (tmp_path / "a.params").read_bytes() == (tmp_path / "f").read_bytes()


def test_progress_counts_to_the_end(engines: list[EngineFiles], tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    pack(
        engines,
        tmp_path / "f",
        PackOptions(size=1 << 20, fill=True),
        lambda done, all_: seen.append((done, all_)),
    )
    assert seen == sorted(seen)
    assert seen[-1] == (1 << 20, 1 << 20)


# Files.


def test_unwritable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FlashError, match="none/f cannot be written: No such file or directory"):
        write_file(tmp_path / "none" / "f", [b"x"], 1)


def test_empty_file_is_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert bytes(map_file(tmp_path / "f")) == b""
    with pytest.raises(LayoutError, match="f: no image: the data partition is empty"):
        Image.open(tmp_path / "f")


# Unpacking.

parts = st.none() | st.binary(max_size=30).filter(lambda data: not is_image(data))


@given(
    st.lists(st.tuples(parts, parts, parts, parts), min_size=1, max_size=3).filter(
        lambda engines: any(part is not None for engine in engines for part in engine)
    ),
    st.sampled_from([Generation.VERSION_1_2, Generation.FAST]),
    st.booleans(),
    st.sampled_from([1, 4, 64]),
    st.integers(0, 40),
    st.booleans(),
)
def test_unpacked_image_packs_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    contents: list[tuple[bytes | None, ...]],
    generation: Generation,
    swapped: bool,
    alignment: int,
    spare: int,
    placed: bool,
) -> None:
    directory = tmp_path_factory.mktemp("unpack")
    images = tuple(EngineImage(*engine) for engine in contents)
    if placed:
        images = tuple(EngineImage(*(engine[part] or b"" for part in Part)) for engine in images)
    partition = DataPartition(images, generation, swapped, alignment)
    (directory / "f").write_bytes(partition.build(partition.image_size + spare, fill=True))
    image = Image.open(directory / "f", len(contents))
    assert unpack(image, directory / "parts")[-1] == directory / "parts" / "image.toml"
    config = read_config(directory / "parts" / "image.toml")
    pack(config.engines, directory / "g", PackOptions(**config.settings))  # type: ignore[arg-type]  # by name
    assert (directory / "g").read_bytes() == (directory / "f").read_bytes()


def test_unpacked_files(engines: list[EngineFiles], tmp_path: Path) -> None:
    image = packed(engines, tmp_path / "f", size=100_000, fill=True, placed=False)
    assert [path.name for path in unpack(image, tmp_path / "parts")] == [
        "engine0.model",
        "engine0.parameters",
        "engine1.xip",
        "image.toml",
    ]
    assert (tmp_path / "parts" / "engine0.model").read_bytes() == MODEL
    assert (tmp_path / "parts" / "engine0.parameters").read_bytes() == PARAMETERS
    assert (tmp_path / "parts" / "engine1.xip").read_bytes()[:4] == b"\x01\x02\x03\xff"
    unpack(image, tmp_path / "parts", trim=True)
    assert (tmp_path / "parts" / "engine1.xip").read_bytes() == b"\x01\x02\x03"


# Verifying and comparing.


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("alignment", [1, 4096])
def test_verified_image(engines: list[EngineFiles], tmp_path: Path, swapped: bool, alignment: int) -> None:
    image = packed(engines, tmp_path / "f", swapped=swapped, alignment=alignment, size=100_000, fill=True)
    assert verify(image, engines) == []
    assert verify(image, [EngineFiles(), engines[1]]) == []


@pytest.mark.parametrize("offset", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, len(MODEL) - 1])
@pytest.mark.parametrize("swapped", [False, True])
def test_first_wrong_byte_is_told(
    engines: list[EngineFiles], tmp_path: Path, offset: int, swapped: bool
) -> None:
    image = packed(engines, tmp_path / "f", swapped=swapped)
    wrong = bytearray(MODEL)
    wrong[offset] ^= 0x10
    wrong[-1] ^= 0x01
    (tmp_path / "wrong").write_bytes(wrong)
    found = verify(image, [EngineFiles(tmp_path / "wrong", engines[0].parameters)])
    assert found == [ImageDifference(f"differs from byte {offset:#x}", 0, Part.MODEL, offset)]
    assert str(found[0]) == f"engine 0: model: differs from byte {offset:#x}"


def test_other_sizes_differ_where_the_shorter_ends(engines: list[EngineFiles], tmp_path: Path) -> None:
    image = packed(engines, tmp_path / "f")
    for name, data in (("short", MODEL[:-1]), ("long", MODEL + b"\xff")):
        (tmp_path / name).write_bytes(data)
    size = len(MODEL)
    short, long = (verify(image, [EngineFiles(tmp_path / name)])[0] for name in ("short", "long"))
    assert (short.offset, short.what) == (
        size - 1,
        f"differs from byte {size - 1:#x}; {size} and {size - 1} bytes",
    )
    assert (long.offset, long.what) == (size, f"differs from byte {size:#x}; {size} and {size + 1} bytes")


def test_only_padding_may_follow_parameters(engines: list[EngineFiles], tmp_path: Path) -> None:
    image = packed(engines, tmp_path / "f", alignment=4096)
    for name, data in (("short", PARAMETERS[:-1]), ("long", PARAMETERS + b"\xff" * 5000)):
        (tmp_path / name).write_bytes(data)
    assert [each.offset for each in verify(image, [EngineFiles(parameters=tmp_path / "short")])] == [1254]
    assert [each.offset for each in verify(image, [EngineFiles(parameters=tmp_path / "long")])] == [4096]


def test_parts_and_engines_that_the_image_lacks(engines: list[EngineFiles], tmp_path: Path) -> None:
    image = packed(engines, tmp_path / "f", placed=False)
    file = engines[1].xip
    assert list(map(str, verify(image, [EngineFiles(xip=file), engines[1], EngineFiles(model=file)]))) == [
        "engine 0: xip: absent in the image",
        "engine 2: model: the image has 2 engines",
    ]


def test_same_contents_in_another_place_do_not_differ(engines: list[EngineFiles], tmp_path: Path) -> None:
    one = packed(engines, tmp_path / "f")
    other = packed(engines, tmp_path / "g", alignment=512, size=100_000, fill=True)
    assert diff(one, other) == diff(other, one) == []


def test_differences_of_images(engines: list[EngineFiles], tmp_path: Path) -> None:
    one = packed(engines, tmp_path / "f", placed=False)
    changed = bytearray(PARAMETERS)
    changed[100] ^= 0xF0
    (tmp_path / "a.params").write_bytes(changed)
    two = packed(engines[:1], tmp_path / "g", generation=Generation.VERSION_1_2)
    assert list(map(str, diff(one, two))) == [
        "generation: fast and 1.2",
        "nibbles: swapped and normal",
        "engines: 2 and 1",
        "engine 0: parameters: differs from byte 0x64",
    ]
    three = packed([EngineFiles(engines[0].model), engines[1]], tmp_path / "h", placed=False)
    assert list(map(str, diff(one, three))) == [f"engine 0: parameters: only in {tmp_path / 'f'}"]


def test_unsound_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x01\x02\xfe\xfd" + bytes([100]) + bytes(15))
    with pytest.raises(
        LayoutError, match=r"/f: engine 0: model at 0x64: the data ends at 0x14, within the headers$"
    ):
        Image.open(tmp_path / "f")


def test_trailing_ff_is_counted_across_chunks(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff" * (CHUNK + 7) + b"\x01" + b"\xff" * (2 * CHUNK + 5))
    image = packed([EngineFiles(xip=tmp_path / "x")], tmp_path / "f")
    assert image.used(0, Part.XIP) == CHUNK + 8
    assert compare(memoryview(b""), memoryview(b""), swapped=True) == 0


# The TOML file.


def test_config(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        'generation = "1.2"\nnibbles = "swapped"\nsize = "4M"\nalign = 16\nfill = true\nmissing = "placed"\n'
        '[[engine]]\nmodel = "a"\nxip = "/x"\n[[engine]]\n'
    )
    config = read_config(tmp_path / "c.toml")
    assert config.engines == (EngineFiles(tmp_path / "a", xip=Path("/x")), EngineFiles())
    assert PackOptions(**config.settings) == PackOptions(  # type: ignore[arg-type]  # by name
        Generation.VERSION_1_2, True, 4 << 20, 16, True, True
    )


def test_described_config_reads_the_same(tmp_path: Path) -> None:
    files = [EngineFiles(tmp_path / 'a "quoted" \\ name\u00e9\n'), EngineFiles()]
    options = PackOptions(Generation.DESIGN, True, 1 << 20, 64, False, True)
    (tmp_path / "c.toml").write_text(describe(files, options), "utf-8")
    config = read_config(tmp_path / "c.toml")
    assert config.engines == tuple(files)
    assert PackOptions(**config.settings) == options  # type: ignore[arg-type]  # by name


def test_an_older_name_of_normal_nibbles_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('nibbles = "straight"\n')
    assert read_config(tmp_path / "c.toml").settings == {"swapped": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engine", ":1: Expected '=' after a key in a key/value pair"),
        ("engine = 1", ":1: engine: must be an array of tables, not 1; write [[engine]] above each"),
        ("engine = [1]", ":1: engine[0]: must be a table with model, parameters, operators, xip, not 1"),
        (
            "[engine]\nmodel='a'",
            ":1: engine: must be an array of tables, not {'model': 'a'}; write [[engine]] above each",
        ),
        (
            "[[engine]]\nparam='a'",
            ":2: engine[0].param: 'param' is not known here; did you mean parameters?",
        ),
        ("[[engine]]\n[[engine]]\nxip=1", ":3: engine[1].xip: must be the path of a file, not 1"),
        ("[[engine]]\nmodel=''", ":2: engine[0].model: must be the path of a file, not ''"),
        ("generation='2'", ":1: generation: '2' is not known here; known are design, 1.2, fast"),
        ("generation=1.2", ":1: generation: must be one of design, 1.2, fast, not 1.2"),
        ("nibbles=[]", ":1: nibbles: must be one of normal, straight, swapped, not []"),
        ("nibbles='swaped'", ":1: nibbles: 'swaped' is not known here; did you mean swapped?"),
        ("missing='none'", ":1: missing: 'none' is not known here; known are placed, zero"),
        (
            "size='4X'",
            ":1: size: '4X' is not a size; write bytes as 4096 or 0x1000, or 4K, 4M or 512 KiB",
        ),
        ("size=true", ":1: size: must be a size, such as 4096, 448K or 16M, not True"),
        ("size=-1", ":1: size: must be a size, such as 4096, 448K or 16M, not -1"),
        ("fill=1", ":1: fill: must be true or false, not 1"),
        ("\naling=1", ":2: aling: 'aling' is not known here; did you mean align?"),
        ("a=" + "[" * 5000, ": nested deeper than 32 levels"),
        ("a." * 30000 + "a=1", ": nested deeper than 32 levels"),
        ("#" * 65537, ": larger than 65536 bytes"),
    ],
)
def test_what_a_config_cannot_say(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_config(path)
    assert str(error.value) == f"{path}{message}"


def test_config_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not a TOML file: no UTF-8 at byte 0"):
        read_config(tmp_path / "c.toml")
    with pytest.raises(InputError, match="none: No such file"):
        read_config(tmp_path / "none")


# Blobs.


def flexbuffer(value: object) -> bytes:
    """A flexbuffer of nested lists, dicts, numbers and blobs."""
    builder = flexbuffers.Builder()

    def add(value: object) -> None:
        if isinstance(value, bytes):
            builder.Blob(value)
        elif isinstance(value, dict):
            with builder.Map():
                for key, each in value.items():
                    builder.Key(key)
                    add(each)
        elif isinstance(value, list):
            with builder.Vector():
                for each in value:
                    add(each)
        else:
            builder.Add(value)

    add(value)
    return bytes(builder.Finish())


@pytest.mark.parametrize(
    ("value", "blob"),
    [
        (b"abc", b"abc"),
        (b"", b""),
        ([b"first", b"second"], b"first"),
        ([1, "text", [], b"x"], b"x"),
        ([[[1], [b"deep"]], b"later"], b"deep"),
        ({"params": [b"p0", b"p1"]}, b"p0"),
        ({"a": 1, "b": b"bytes"}, b"bytes"),
        ([b"\xa5" * 100_000], b"\xa5" * 100_000),
    ],
)
def test_first_blob(value: object, blob: bytes) -> None:
    assert first_blob(flexbuffer(value)) == blob


@pytest.mark.parametrize("value", [1, "text", [], [1, 2], {"a": "b"}])
def test_no_blob(value: object) -> None:
    with pytest.raises(InputError, match="the flexbuffer has no blob"):
        first_blob(flexbuffer(value))


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"abcd", b"\0" * 100, b"\xff" * 100])
def test_no_flexbuffer(data: bytes) -> None:
    with pytest.raises(InputError, match="no flexbuffer"):
        first_blob(data)


def check_blob(data: bytes) -> None:
    """Whatever the data are: a blob out of them, or InputError."""
    with suppress(InputError):
        assert first_blob(data) in data


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: data + bytes([0x28, 1])))
def test_any_bytes_as_flexbuffer(data: bytes) -> None:
    check_blob(data)


def test_cut_or_damaged_flexbuffer() -> None:
    whole = flexbuffer({"params": [b"abcdef", b"gh"]})
    for size in range(len(whole)):
        check_blob(whole[:size])
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        check_blob(bytes(damaged))


def test_blob_longer_than_the_file_is_refused() -> None:
    # Length 200 in front of three bytes; the root is an offset of 3 back to them.
    with pytest.raises(InputError, match="a blob of 200 bytes in a file of 7"):
        first_blob(bytes([200, 1, 2, 3, 3, 0x64, 1]))


# Relocatable images.


@pytest.mark.parametrize("part", [Part.OPERATORS, Part.XIP])
def test_a_relocatable_image_is_stored_with_its_length_and_checksum(tmp_path: Path, part: Part) -> None:
    output, odd = tmp_path / "out", tmp_path / "odd"
    odd.write_bytes(b"odd")
    pack([EngineFiles(model=odd, **{part.label: DIGITS})], output, PackOptions(swapped=False))
    image = Image.open(output, 1, swapped=False)
    segment = image.map.parts[0][part]
    assert segment is not None
    assert segment.start % 4 == 0
    assert bytes(restored(bytes(image.data[segment.start :]))) == DIGITS.read_bytes()


def test_a_broken_relocatable_image_is_not_packed(tmp_path: Path) -> None:
    broken, output = tmp_path / "broken", tmp_path / "out"
    broken.write_bytes(DIGITS.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"engine 0: operators: .*broken: weights_end says"):
        pack([EngineFiles(operators=broken)], output)
    assert not output.exists()


@pytest.mark.parametrize(
    ("code", "weights"), [("operators", "parameters"), ("xip", "parameters"), ("xip", "operators")]
)
def test_weights_apart_are_stored_with_length_and_checksum(tmp_path: Path, code: str, weights: str) -> None:
    output, path = tmp_path / "out", DIGITS_M33.with_suffix(".weights")
    pack([EngineFiles(**{code: DIGITS_M33, weights: path})], output)
    image = Image.open(output, 1)
    found = {part.label: b"".join(image.normal(0, part)) for part in Part if image.stored(0, part)}
    assert bytes(restored(found[code])) == DIGITS_M33.read_bytes()
    assert bytes(checked(found[weights])) == path.read_bytes()
    starts = [segment.start for part in Part if (segment := image.map.parts[0][part]) and segment.size]
    assert [start % 4 for start in starts] == [0, 0]


def test_an_image_and_its_weights_are_verified(tmp_path: Path) -> None:
    files = EngineFiles(operators=DIGITS, xip=DIGITS_M33)
    apart = EngineFiles(xip=DIGITS_M33, parameters=DIGITS_M33.with_suffix(".weights"))
    image = packed([files, apart], tmp_path / "f")
    assert verify(image, [files, apart]) == []
    (other,) = verify(image, [EngineFiles(operators=DIGITS_FPU)])
    assert (other.engine, other.part, other.offset) == (0, Part.OPERATORS, 0)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            {"operators": DIGITS_M33},
            r"engine 0: operators: .*m33.nbin: the image's 7,752 bytes of weights are in a file of their own",
        ),
        (
            {"xip": DIGITS_M33, "parameters": DIGITS_M33.with_suffix(".weights.short")},
            "name it as operators= or parameters= of the same engine",
        ),
        ({"parameters": DIGITS}, "engine 0: parameters: .*m4.nbin: a relocatable image, which is loaded as"),
        ({"xip": Path("foreign")}, "engine 0: xip: .*foreign: the image has no description of its tensors"),
        ({"xip": Path("m55")}, "engine 0: xip: .*m55: compiled for cortex-m55, which no engine executes"),
        (
            {"operators": Path("wide")},
            "operators: .*wide: the model has 41 inputs, a device takes at most 40",
        ),
    ],
)
def test_an_image_that_no_engine_loads_is_not_packed(
    tmp_path: Path, files: dict[str, Path], reason: str
) -> None:
    made = {
        "foreign": SEED.image(),
        "m55": replaced(DIGITS.read_bytes(), 4, int(Variant(Core.CORTEX_M55))),
        "wide": image_of_many_inputs(41),
        "digits-cortex-m33.weights.short": DIGITS_M33.with_suffix(".weights").read_bytes()[:-4],
    }
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    given = {part: tmp_path / path.name if path.name in made else path for part, path in files.items()}
    with pytest.raises(InputError, match=reason):
        pack([EngineFiles(**given)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def image_of_many_inputs(count: int) -> bytes:
    """The digits' image with a description of so many inputs in the place of its code."""
    image = RelocatableImage.from_bytes(DIGITS.read_bytes())
    network = Network.of(image)
    tensors = bytes(network.inputs[0]) * count + bytes(network.outputs[0])
    description = struct.pack("<4I", INFO_MAGIC, count, 1, 0) + tensors
    data = bytearray(image.data)
    data[200 : 200 + len(description)] = description
    info = image.sizes.ro + offset(image.header.ctx) + 11 * 4
    return replaced(bytes(data), info, ROM << 28 | 200)


def replaced(data: bytes, at: int, word: int) -> bytes:
    return data[:at] + struct.pack("<I", word) + data[at + 4 :]


def test_other_operators_stay_as_they_are(tmp_path: Path) -> None:
    other, output = tmp_path / "other", tmp_path / "out"
    other.write_bytes(b"operators")
    pack([EngineFiles(operators=other)], output, PackOptions(swapped=False))
    assert output.read_bytes().endswith(b"operators")
