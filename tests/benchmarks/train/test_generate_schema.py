"""What the reader knows of the schema is what the `tflite` package says."""

from pathlib import Path

import tflite

from aisrv.model import schema
from benchmarks.train.generate_schema import fields_of
from benchmarks.train.generate_schema import schema as generated


def test_the_file_is_what_the_package_gives() -> None:
    assert Path(schema.__file__).read_text() == generated()


def test_operators_have_the_names_of_the_package() -> None:
    assert dict(enumerate(schema.OPERATORS)) == tflite.BUILTIN_OPCODE2NAME


def test_fields_are_those_of_the_schema() -> None:
    # schema.fbs: table Metadata { name:string; buffer:uint; }
    assert list(fields_of("Metadata")) == [("name", 2, "s", None), ("buffer", 3, "I", 0)]
    # schema.fbs: table Buffer { data:[ubyte] (force_align: 16); offset: ulong; size: ulong; }
    assert list(fields_of("Buffer")) == [
        ("data", 2, "[B", None),
        ("offset", 3, "Q", 0),
        ("size", 4, "Q", 0),
    ]


def test_fields_have_the_defaults_of_the_schema() -> None:
    # schema.fbs: dilation_w_factor:int = 1; AddOptions.pot_scale_int16:bool = true
    assert schema.TABLES["Conv2DOptions"]["dilation_w_factor"][2] == 1
    assert schema.TABLES["AddOptions"]["pot_scale_int16"][2] is True
