"""The view of a snapshot, cell by cell, on terminals of several kinds."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from aisrv.monitor.live_view import view_of
from aisrv.monitor.rendering import DevicesTable, DevicesView, DeviceView, errors, scores
from aisrv.monitor.values import (
    CoreState,
    CoreStatus,
    DeviceStatus,
    EngineStatus,
    PortStatus,
    Rates,
    Score,
    TileStatus,
    Traffic,
)
from aisrv.protocol.commands import Status

CORES = (
    CoreStatus(0, "aiengine 0", CoreState.WAITING, "select", "chanend 0x80000002 or chanend 0x80000202"),
    CoreStatus(1, "blink", CoreState.WAITING, "blink"),
    CoreStatus(2, "busy", CoreState.RUNNING),
    CoreStatus(3, "broken", CoreState.HALTED, trap="inct on chanend 0x80000302: ECALL (8): gives up"),
)
ENGINES = (
    EngineStatus(
        0,
        1,
        9424,
        12345,
        (Score(7, 127), Score(1, -3), Score(0, -128)),
        (True, False, False, True),
        Status.ERROR_BAD_CMD | Status.ERROR_NO_MODEL,
    ),
    EngineStatus(1, 0, None, 0, (), (False,) * 4, Status.OKAY),
)
STATUS = DeviceStatus(
    "1-1, serial number LAB-7",
    10.0,
    (TileStatus(0, CORES, 4), TileStatus(1, (CoreStatus(0, "XUD", CoreState.SET_ASIDE),), 0)),
    ENGINES,
    (PortStatus("usb 1-1", Traffic(5000, 600, 70)), PortStatus("spi 0.0", Traffic(0, 0, 0))),
)
VIEW = DeviceView(STATUS, (Rates(1_234_567.0, 999.0, 1234.4), Rates()))


def drawn(
    view: DeviceView | DevicesView | DevicesTable, width: int = 100, encoding: str = "utf-8"
) -> list[str]:
    """Lines of a terminal without colors."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width, height=50, force_terminal=False, legacy_windows=False).print(view)
    file.seek(0)
    return [line.rstrip() for line in file.read().splitlines()]


def test_whole_view_of_a_device() -> None:
    assert drawn(VIEW) == [
        "Device 1-1, serial number LAB-7",
        "tile  core  task        waits for",
        "0     0     aiengine 0  select on chanend 0x80000002 or chanend 0x80000202",
        "0     1     blink       blink",
        "0     2     busy        running",
        "0     3     broken      halted in inct on chanend 0x80000302: ECALL (8): gives up",
        "1     0     XUD         set aside",
        "engine  tile        model  inferences  last classes              LEDs  errors",
        "0       1         9,424 B      12,345  7: 127  1: -3  0: -128    ●○○●  NO_MODEL BAD_CMD",
        "1       0               -           0  -                         ○○○○  -",
        "port       to device  from device   commands  all commands",
        "usb 1-1     1.2 MB/s  999 bytes/s    1,234/s            70",
        "spi 0.0    0 bytes/s    0 bytes/s        0/s             0",
    ]


def test_ignored_packets_are_told_where_there_are_any() -> None:
    status = replace(STATUS, ignored_packets=1234)
    assert drawn(DeviceView(status, VIEW.rates)) == [
        *drawn(VIEW),
        "1,234 packets over USB were no command and ignored",
    ]


def test_what_runs_a_model_in_place_of_the_engine_is_told_beside_it() -> None:
    status = replace(STATUS, engines=(replace(ENGINES[0], fallback="tflm"),))
    assert drawn(DeviceView(status, VIEW.rates))[8].split()[:6] == ["0", "1", "9,424", "B", "on", "tflm"]


@pytest.mark.parametrize("width", [1, 20, 40, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = drawn(VIEW, width)
    assert max(map(len, lines)) <= width
    if width >= 40:
        assert len(lines) == 13


def test_what_a_core_waits_for_is_cut_first() -> None:
    assert drawn(VIEW, 40)[2] == "0     0     aiengine 0  select on chane…"


def test_terminal_without_unicode_gets_ascii() -> None:
    lines = drawn(VIEW, 40, "ascii")
    assert lines[2] == "0     0     aiengine 0  select on chanen"
    assert drawn(VIEW, 100, "ascii")[8].split()[-3:] == ["*..*", "NO_MODEL", "BAD_CMD"]


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (Status.OKAY, "-"),
        (Status.ERROR_INFER_ERR, "INFER_ERR"),
        (Status.ERROR_MODEL_ERR | Status.ERROR_BAD_CMD, "MODEL_ERR BAD_CMD"),
    ],
)
def test_errors_are_named(bits: Status, text: str) -> None:
    assert errors(bits) == text


def test_rates_are_those_since_the_earlier_moment() -> None:
    earlier = DeviceStatus(
        "1-1", 8.0, (), (), (PortStatus("usb 1-1", Traffic(1000, 0, 60)), PortStatus("spi 0.0", Traffic()))
    )
    view = view_of((earlier,), (STATUS,))
    assert view == DevicesView((DeviceView(STATUS, (Rates(2000.0, 300.0, 5.0), Rates())),), 0)


def test_devices_that_are_not_shown_are_counted() -> None:
    assert drawn(view_of((STATUS,), (STATUS,), 996))[-1] == "996 more devices are not shown"
    assert drawn(view_of((STATUS,), (STATUS,)))[-1].startswith("spi 0.0")


# Many devices


def test_a_line_for_each_device() -> None:
    quiet = DeviceStatus("1-2", 10.0, (TileStatus(0, CORES[:3], 4),), ENGINES[1:], STATUS.ports)
    stuck = replace(quiet, name="1-3", deadlock="a waits for b waits for a")
    table = DevicesTable((VIEW, DeviceView(quiet, VIEW.rates[1:]), DeviceView(stuck, VIEW.rates[1:])), 5)
    assert drawn(table) == [
        "device     models  inferences  commands/s  from device  classes    state",
        "1-1 LAB-7  1 of 2      12,345       1,234  999 bytes/s  7: 127  -  1 core halted, NO_MODEL BAD_CMD",
        "1-2        0 of 1           0           0    0 bytes/s  -          ok",
        "1-3        0 of 1           0           0    0 bytes/s  -          deadlock",
        "5 more devices are not shown",
    ]


def test_devices_that_the_terminal_has_no_room_for_are_counted() -> None:
    lines = drawn(DevicesTable((VIEW,) * 60))
    assert len(lines) == 48
    assert lines[-1] == "14 more devices are not shown"


# Names of classes


def test_classes_by_name() -> None:
    named = (Score(7, 127, "seven"), Score(1, -3), Score(0, -128, "a name of more than twenty letters"))
    assert scores(named) == "seven: 127  1: -3  a name of more than : -128"


def test_names_are_no_markup() -> None:
    engine = replace(ENGINES[0], top=(Score(7, 127, "[red]x[/]"),))
    assert "[red]x[/]: 127" in drawn(DeviceView(replace(STATUS, engines=(engine,)), VIEW.rates))[8]
