"""The tables of services: they are those of the specification, and their documentation has all of them."""

import re

from aisrv.addons.jacdac.wire.service_spec import document
from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER, SENSOR_AGGREGATOR, SERVICES


def test_codes_are_unique() -> None:
    for spec in SERVICES:
        codes = [register.code for register in spec.registers]
        assert len(set(codes)) == len(codes)
        assert len({action.code for action in spec.actions}) == len(spec.actions)


def test_classes() -> None:
    assert (MODEL_RUNNER.service_class, SENSOR_AGGREGATOR.service_class) == (0x140F9A78, 0x1D90E1C5)


def test_the_document_has_a_row_for_each_register_command_and_event() -> None:
    rows = re.findall(r"^\| (command|rw|ro|const|event) 0x[0-9A-F]+ \|", document(SERVICES), re.MULTILINE)
    expected = sum(len(s.registers) + len(s.actions) + len(s.events) for s in SERVICES)
    assert len(rows) == expected
