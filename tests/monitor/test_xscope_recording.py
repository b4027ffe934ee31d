"""Recordings of xscope's probes: lines of JSON and VCD, as their readers see them."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from vcd.reader import TokenKind, tokenize

from aisrv.monitor.xscope_recording import XscopeLines, XscopeVcd, open_xscope
from aisrv.xcore.core import Core
from aisrv.xcore.probes import DataType, Probe, ProbeEvent, ProbeKind, Value

LEVEL = Probe("level", ProbeKind.CONTINUOUS, DataType.INT, "mV")
POWER = Probe("mean power", ProbeKind.CONTINUOUS, DataType.FLOAT, "W")
BUSY = Probe("busy", ProbeKind.STARTSTOP, DataType.NONE)
OFF = Probe("off", ProbeKind.CONTINUOUS, DataType.UINT, is_enabled=False)
V, START, STOP = ProbeEvent.VALUE, ProbeEvent.START, ProbeEvent.STOP
RECORDS: list[tuple[int, Probe, ProbeEvent, Value, int]] = [
    (0, LEVEL, V, -1, 0),
    (0, POWER, V, 0.25, 5),
    (1, BUSY, START, None, 7),
    (0, LEVEL, V, b"\x01\xff", 8),
    (1, BUSY, STOP, 3, 9),
    (0, POWER, V, 2, 10),
]


def record(path: Path) -> None:
    with open_xscope(path) as recording:
        for tile in (0, 1):
            for probe in (LEVEL, POWER, BUSY, OFF):
                recording.tracer.probe_registered(tile, probe)
        for tile, probe, event, value, tick in RECORDS:
            recording.tracer.probed(Core(tile, 3, "task"), tile, probe, event, value, tick)


def test_lines_of_json_have_everything(tmp_path: Path) -> None:
    record(tmp_path / "probes.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "probes.jsonl").read_text().splitlines()]
    assert lines == [
        {"tick": 0, "tile": 0, "core": 3, "probe": "level", "event": "value", "value": -1},
        {"tick": 5, "tile": 0, "core": 3, "probe": "mean power", "event": "value", "value": 0.25},
        {"tick": 7, "tile": 1, "core": 3, "probe": "busy", "event": "start"},
        {"tick": 8, "tile": 0, "core": 3, "probe": "level", "event": "value", "value": "01ff"},
        {"tick": 9, "tile": 1, "core": 3, "probe": "busy", "event": "stop", "value": 3},
        {"tick": 10, "tile": 0, "core": 3, "probe": "mean power", "event": "value", "value": 2},
    ]


def test_a_vcd_file_has_a_variable_for_each_enabled_probe(tmp_path: Path) -> None:
    record(tmp_path / "probes.vcd")
    names: dict[str, str] = {}
    changes: list[tuple[int, str, Any]] = []
    scope, time = "", 0
    with (tmp_path / "probes.vcd").open("rb") as file:
        for token in tokenize(file):
            if token.kind is TokenKind.SCOPE:
                scope = token.scope.ident
            elif token.kind is TokenKind.VAR:
                names[token.var.id_code] = f"{scope}.{token.var.reference}"
            elif token.kind is TokenKind.CHANGE_TIME:
                time = token.time_change
            elif token.kind is TokenKind.CHANGE_SCALAR:
                changes.append((time, names[token.scalar_change.id_code], int(token.scalar_change.value)))
            elif token.kind is TokenKind.CHANGE_VECTOR:
                changes.append((time, names[token.vector_change.id_code], token.vector_change.value))
            elif token.kind is TokenKind.CHANGE_REAL:
                changes.append((time, names[token.real_change.id_code], token.real_change.value))
    assert sorted(names.values()) == [
        f"tile{tile}.{name}" for tile in (0, 1) for name in ("busy", "level", "mean_power")
    ]
    assert [change for change in changes if change[0]] == [
        (50, "tile0.mean_power", 0.25),
        (70, "tile1.busy", 1),
        (90, "tile1.busy", 0),
        (100, "tile0.mean_power", 2.0),
    ]
    assert (0, "tile0.level", (1 << 64) - 1) in changes


def test_a_probe_that_comes_after_the_first_record_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with XscopeVcd(tmp_path / "probes.vcd") as vcd, caplog.at_level(logging.WARNING):
        vcd.add(0, LEVEL)
        vcd.change(0, LEVEL, V, 1, 1)
        vcd.add(1, POWER)
        vcd.change(1, POWER, V, 1.0, 1)
        vcd.change(0, LEVEL, V, 2, 2)
    assert "probe 'mean power' of tile 1 is left out" in caplog.text
    assert (tmp_path / "probes.vcd").read_text().endswith("#20\nb10 !\n")


def test_a_full_disk_ends_a_recording_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    with XscopeLines(Path("/dev/full")) as lines:
        for tick in range(10_000):
            lines.probed(None, 0, LEVEL, V, 1, tick)
    assert [record.getMessage() for record in caplog.records] == [
        "/dev/full: No space left on device; the recording ends here"
    ]
