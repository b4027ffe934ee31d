"""xscope's config files: probes, their macros, and files that are none."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.board import BoardFileError
from aisrv.board.xscope_file import LARGEST_FILE, parse_xscope, read_xscope
from aisrv.xcore.probes import DataType, Probe, ProbeKind
from tests.support.amounts import in_ci

CONFIG = b"""<?xml version="1.0" encoding="UTF-8"?>
<xSCOPEconfig ioMode="basic" enabled="true">
  <Probe name="Tile0 Result" type="CONTINUOUS" datatype="UINT" units="mV" enabled="true"/>
  <Probe name="A longer name" shortname="short" type="DISCRETE" datatype="INT" units="Bytes" enabled="false"/>
  <Probe name="2nd"/>
  <Module name="Ethernet" id="eth">
    <Probe name="Busy" type="STARTSTOP" datatype="NONE" units="NONE" enabled="true"/>
  </Module>
</xSCOPEconfig>
"""


def test_a_file_gives_probes_and_macros() -> None:
    config = parse_xscope(CONFIG)
    assert config.probes == (
        Probe("Tile0 Result", ProbeKind.CONTINUOUS, DataType.UINT, "mV"),
        Probe("A longer name", ProbeKind.DISCRETE, DataType.INT, "Bytes", is_enabled=False),
        Probe("2nd", ProbeKind.CONTINUOUS, DataType.NONE),
        Probe("Ethernet Busy", ProbeKind.STARTSTOP, DataType.NONE, "NONE"),
    )
    assert config.defines == ("TILE0_RESULT=0", "SHORT=-1", "_2ND=2", "ETH_BUSY=3")


def test_a_file_that_is_disabled_disables_all() -> None:
    config = parse_xscope(CONFIG.replace(b'"basic" enabled="true"', b'"basic" enabled="false"'))
    assert [probe.is_enabled for probe in config.probes] == [False] * 4
    assert set(config.macros.values()) == {-1}


def test_a_probe_named_twice_as_many_as_fit_and_one_more() -> None:
    probes = [f'<Probe name="p{number}"/>' for number in range(256)]
    full = parse_xscope(f"<xSCOPEconfig>{''.join(probes[:255])}</xSCOPEconfig>".encode())
    assert len(full.probes) == 255
    for extra, message in ((probes[255], "more than 255 probes"), (probes[0], "a second probe is P0 in C")):
        with pytest.raises(BoardFileError, match=message):
            parse_xscope(f"<xSCOPEconfig>{''.join(probes[:255])}{extra}</xSCOPEconfig>".encode())


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("xSCOPEconfig", "Network", ":2: network: a config file of xscope is an xSCOPEconfig"),
        (
            'ioMode="basic"',
            'ioMode="fast"',
            ":2: xscopeconfig: iomode must be none, basic, timed, not 'fast'",
        ),
        ('"CONTINUOUS"', '"OFTEN"', ":3: probe: type must be startstop, continuous, discrete, statemachine,"),
        ('"UINT"', '"BYTE"', ":3: probe: datatype must be none, uint, int, float, not 'BYTE'"),
        ('enabled="false"', 'enabled="0"', ":4: probe: enabled must be true, false, not '0'"),
        ('name="2nd"', "", ":5: probe: name must be a name"),
        ('name="2nd"', 'name="a&#10;b"', ":5: probe: name must be a name"),
        ('name="2nd"', f'name="{"x" * 256}"', ":5: probe: name is longer than 255 characters"),
        ('units="mV"', 'units="&#x1b;"', ":3: reference to invalid character number"),
        ('name="2nd"', 'name="tile0-result"', ":5: probe: a second probe is TILE0_RESULT in C"),
        ('id="eth"', "", ":6: module: id must be a name"),
        ("<Probe name=", "<Port name=", ":3: port: an xSCOPEconfig has Probes and Modules"),
        ('<Probe name="Busy"', '<Module name="Busy"', ":7: module: a Module has Probes"),
        ("<xSCOPEconfig", '<!DOCTYPE a [<!ENTITY b "c">]><xSCOPEconfig', ":2: a document type declaration"),
        ("</Module>", "", ":9: mismatched tag"),
    ],
)
def test_what_is_no_config_file(before: str, after: str, message: str) -> None:
    text = CONFIG.decode()
    assert before in text
    with pytest.raises(BoardFileError) as error:
        parse_xscope(text.replace(before, after).encode())
    assert str(error.value).startswith(f"config.xscope{message}")


def test_a_file_is_named_and_not_too_large(tmp_path: Path) -> None:
    path = tmp_path / "config.xscope"
    path.write_bytes(CONFIG)
    assert read_xscope(path) == parse_xscope(CONFIG)
    path.write_bytes(CONFIG + b" " * LARGEST_FILE)
    with pytest.raises(BoardFileError, match=r"config\.xscope"):
        read_xscope(path)
    with pytest.raises(BoardFileError, match="No such file"):
        read_xscope(tmp_path / "none.xscope")


@settings(max_examples=in_ci(200, every_day=40))
@given(place=st.integers(0, len(CONFIG) - 1), byte=st.binary(max_size=3))
def test_a_file_with_changed_bytes_is_read_or_refused(place: int, byte: bytes) -> None:
    try:
        config = parse_xscope(CONFIG[:place] + byte + CONFIG[place + 1 :])
    except BoardFileError:
        return
    assert len(config.macros) == len(config.probes)
