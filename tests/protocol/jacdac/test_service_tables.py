"""The tables of services: their documentation is made of them, and they are those of the specification."""

import re

from aisrv.protocol.jacdac.service_spec import document
from aisrv.protocol.jacdac.service_tables import MODEL_RUNNER, SENSOR_AGGREGATOR, SERVICES
from tests.support.paths import ROOT

GUIDE = ROOT / "docs" / "guides" / "jacdac.md"


def test_guide_has_the_tables() -> None:
    text = GUIDE.read_text()
    assert text[text.index("### Control") :].rstrip() == document(SERVICES).rstrip()


def test_codes_are_unique() -> None:
    for spec in SERVICES:
        codes = [register.code for register in spec.registers]
        assert len(set(codes)) == len(codes)
        assert len({action.code for action in spec.actions}) == len(spec.actions)


def test_classes() -> None:
    assert (MODEL_RUNNER.service_class, SENSOR_AGGREGATOR.service_class) == (0x140F9A78, 0x1D90E1C5)


def test_every_row_of_the_guide_has_a_code() -> None:
    text = GUIDE.read_text()
    rows = re.findall(r"^\| (command|rw|ro|const|event) 0x[0-9A-F]+ \|", text, re.MULTILINE)
    expected = sum(len(s.registers) + len(s.actions) + len(s.events) for s in SERVICES)
    assert len(rows) == expected
