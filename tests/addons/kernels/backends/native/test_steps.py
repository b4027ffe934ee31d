"""The structures of the library's header, as Python reads them."""

import ctypes

import pytest

from aisrv.addons.kernels.backends.native.steps import KINDS, STRUCTURES, VARIANTS, structure


def test_fields_are_read_from_the_header() -> None:
    assert STRUCTURES["step"]._fields_ == [
        ("variant", ctypes.c_int64),
        ("kind", ctypes.c_int64),
        ("arguments", ctypes.c_void_p),
        ("pieces", ctypes.c_int64),
    ]
    assert dict(STRUCTURES["addition"]._fields_)["factor1"] is ctypes.c_float  # type: ignore[arg-type]
    assert STRUCTURES["depthwise"]._fields_[0] == ("picture", STRUCTURES["picture"])
    assert KINDS["COPY"] == 0
    assert KINDS["SVDF"] == 11
    assert [*VARIANTS.values()] == [*range(6)]


@pytest.mark.parametrize(
    "values", [{"input": 1, "output": 2}, {"input": 1, "output": 2, "count": 3, "size": 4}]
)
def test_each_field_has_a_value(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"struct copy: (count|size) missing or unknown"):
        structure("copy", **values)
