"""Tables of settings as typed classes: what fits, and what is said of what does not."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from aisrv.values.settings.errors import SettingsError
from aisrv.values.settings.size import Size
from aisrv.values.settings.tables import Integer, Number, Table, convert
from aisrv.values.settings.toml_file import parse_toml
from tests.support.amounts import in_ci


class Color(Enum):
    RED = "red"
    GREEN = "green"


class Wheel(Table, frozen=True, rename={"diameter_mm": "diameter"}):
    diameter_mm: Integer
    spokes: Annotated[int, Meta(ge=3, le=36)] | None = None


class Car(Table, frozen=True):
    name: str | None = None
    color: Color | None = None
    gear: Literal["manual", "automatic"] | None = None
    weight: Number | None = None
    power: Annotated[float, Meta(gt=0, le=1000)] | None = None
    new: bool | None = None
    memory: Size | None = None
    manual: Path | None = None
    wheels: Annotated[tuple[Wheel, ...], Meta(max_length=4)] | None = None
    radio: Annotated[str, Meta(description="a station")] | Wheel | None = None
    tags: tuple[str, ...] | None = None


def read(text: str) -> Car:
    return convert(parse_toml(text, "car.toml", Path("/cars")), Car)


def test_all_kinds_of_values() -> None:
    car = read(
        'name = "a"\ncolor = "green"\ngear = "manual"\nweight = 3\npower = 1e3\nnew = true\nmemory = "4K"\n'
        'manual = "a.pdf"\nradio = "BBC"\ntags = ["x", "y"]\n[[wheels]]\ndiameter = 0x200\nspokes = 3\n'
    )
    assert car == Car(
        name="a",
        color=Color.GREEN,
        gear="manual",
        weight=3.0,
        power=1000.0,
        new=True,
        memory=Size(4096),
        manual=Path("/cars/a.pdf"),
        wheels=(Wheel(diameter_mm=512, spokes=3),),
        radio="BBC",
        tags=("x", "y"),
    )


def test_fields_that_are_given_have_the_names_of_the_class() -> None:
    car = read("name = ''\nnew = false\nradio = {diameter = 0}")
    assert car.given() == {"name": "", "new": False, "radio": Wheel(diameter_mm=0)}
    assert isinstance(car.radio, Wheel)
    assert car.radio.given() == {"diameter_mm": 0}


@pytest.mark.parametrize("number", [0, 1, (1 << 40) - 1, 1 << 40])
def test_sizes_up_to_a_bound(number: int) -> None:
    assert read(f"memory = {number}").memory == number
    assert read(f"memory = '{number:#x}'").memory == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nme = 1", "1: nme: 'nme' is not known here; did you mean name?"),
        (
            "speed = 1",
            "1: speed: 'speed' is not known here; known are name, color, gear, weight, power, new, ",
        ),
        (
            "[[wheels]]\ndiameter_mm = 1",
            "2: wheels[0].diameter_mm: 'diameter_mm' is not known here; did you mean diameter?",
        ),
        ("[[wheels]]", "1: wheels[0]: the key diameter is missing"),
        (
            "[[wheels]]\ndiameter = 1\nspokes = 2",
            "3: wheels[0].spokes: must be a whole number from 3 to 36, not 2",
        ),
        (
            "radio = 1",
            "1: radio: must be a station or a table with diameter, spokes, not 1",
        ),
        ("radio = {diameter = 'x'}", "1: radio.diameter: must be a whole number, not 'x'"),
        ("color = 'gren'", "1: color: 'gren' is not known here; did you mean green?"),
        ("color = 1", "1: color: must be one of red, green, not 1"),
        ("gear = 'stick'", "1: gear: 'stick' is not known here; known are automatic, manual"),
        ("weight = inf", "1: weight: must be a finite number, not inf"),
        ("weight = -inf", "1: weight: must be a finite number, not -inf"),
        ("weight = nan", "1: weight: must be a finite number, not nan"),
        (
            "weight = 0xffffffffffffffffffff",
            "1: weight: must be a number from -1099511627776 to 1099511627776, not 120",
        ),
        ("power = 0", "1: power: must be a number above 0, at most 1000, not 0"),
        ("power = 1e4", "1: power: must be a finite number above 0, at most 1000, not 10000.0"),
        ("new = 'yes'", "1: new: must be true or false, not 'yes'"),
        ("new = 1979-05-27", "1: new: must be true or false, not datetime.date(1979, 5, 27)"),
        ("memory = -1", "1: memory: must be a size, such as 4096, 448K or 16M, not -1"),
        ("memory = 0x10000000001", "1: memory: must be a size, such as 4096, 448K or 16M, not 1099511627777"),
        ("memory = '2000G'", "1: memory: must be a size, such as 4096, 448K or 16M, not '2000G'"),
        (
            "memory = '4X'",
            "1: memory: '4X' is not a size; write bytes as 4096 or 0x1000, or 4K, 4M",
        ),
        ('manual = "a\\u0000"', "1: manual: must be the path of a file, not 'a\\x00'"),
        ("tags = 'x'", "1: tags: must be an array of texts, not 'x'"),
        ("tags = ['x',\n1]", "2: tags[1]: must be a text in quotes, not 1"),
        ("wheels = 1", "1: wheels: must be an array of 0 to 4 tables, not 1; write [[wheels]] above each"),
        ("name = []", "1: name: must be a text in quotes, not []"),
        # A key that looks like a part of msgspec's message.
        (
            "'x` - at `$.wheels' = 1",
            "1: 'x` - at `$.wheels': 'x` - at `$.wheels' is not known here; known are name, ",
        ),
        (
            "name = 'x` - at `$.wheels'\ncolor = 'x` - at `$.wheels'",
            "2: color: 'x` - at `$.wheels' is not known here; known are red, green",
        ),
        (
            "memory = ' - at `$.wheels`'",
            "1: memory: ' - at `$.wheels`' is not a size; write bytes as 4096 or 0x1000, or 4K, 4M",
        ),
        ("'' = 1", "1: '': '' is not known here; known are name, color"),
    ],
)
def test_what_does_not_fit(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        read(text)
    assert str(error.value).startswith(f"car.toml:{message}")


KEYS = st.sampled_from(["name", "memory", "wheels", "radio", "power", "tags", "`", "x"])
VALUES = st.recursive(
    st.sampled_from(
        ["1", "-1", "'red'", "'4K'", "''", "inf", "nan", "true", "1979-05-27", "0x" + "f" * 40, "07:32:00"]
    ),
    lambda inner: (
        st.lists(inner, max_size=5).map(lambda values: f"[{', '.join(values)}]")
        | inner.map(lambda value: f"{{diameter = {value}}}")
        | inner.map(lambda value: f"{{'`' = {value}}}")
    ),
    max_leaves=4,
)


@settings(max_examples=in_ci(500, every_day=100), deadline=None, derandomize=True)
@given(
    st.dictionaries(st.sampled_from(["name", "memory", "wheels", "radio", "power", "tags", "`", "x"]), VALUES)
)
def test_any_values_are_a_table_or_an_error_with_a_line(values: dict[str, str]) -> None:
    text = "".join(f"'{key}' = {value}\n" for key, value in values.items())
    try:
        read(text)
    except SettingsError as error:
        assert str(error).startswith("car.toml:")  # noqa: PT017 - some texts raise none
        assert error.path  # noqa: PT017
