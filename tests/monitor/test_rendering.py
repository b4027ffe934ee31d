"""The view of a snapshot, cell by cell, on terminals of several kinds."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from aisrv.addons.graph.device import ShownGraph
from aisrv.addons.graph.run.status import ArcStatus, NodeStatus
from aisrv.monitor.cell_texts import errors, scores
from aisrv.monitor.compact_rendering import CompactDevice, DevicesTable
from aisrv.monitor.live_view import view_of
from aisrv.monitor.rendering import DevicesView, DeviceView
from aisrv.monitor.values import (
    CoreState,
    CoreStatus,
    DeviceStatus,
    EngineStatus,
    Peer,
    PortStatus,
    Rates,
    Score,
    TileStatus,
    Traffic,
)
from aisrv.protocol.commands import Status
from tests.support.amounts import in_ci

CORES = (
    CoreStatus(
        0,
        "aiengine 0",
        CoreState.WAITING,
        "select",
        "chanend 0x80000002 or chanend 0x80000202",
        (Peer(1, "usb_data"), Peer(1, "spi_buffer"), Peer(0, "left", True)),
    ),
    CoreStatus(1, "blink", CoreState.WAITING, "blink"),
    CoreStatus(4, "usb_ep0", CoreState.WAITING, "get_setup", "endpoint 0"),
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
    view: DeviceView | DevicesView | CompactDevice | DevicesTable,
    width: int = 100,
    encoding: str = "utf-8",
    height: int = 50,
) -> list[str]:
    """Lines of a terminal without colors."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width, height=height, force_terminal=False, legacy_windows=False).print(view)
    file.seek(0)
    return [line.rstrip() for line in file.read().splitlines()]


def test_whole_view_of_a_device() -> None:
    assert drawn(VIEW) == [
        "Device 1-1, serial number LAB-7",
        "tile  core  task        call             waits for",
        "0     0     aiengine 0  select           usb_data, spi_buffer of tile 1 or left (halted) of tile 0",
        "0     1     blink       blink            -",
        "0     4     usb_ep0     get_setup        endpoint 0",
        "0     2     busy                         running",
        "0     3     broken                       halted in inct on chanend 0x80000302: ECALL (8): gives up",
        "1     0     XUD                          set aside",
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


def test_lateness_in_device_time_is_told_where_there_is_any() -> None:
    status = replace(STATUS, late=1234, latest_ms=5.26)
    told = "late 1,234 times in device time, by 5.3 ms at most"
    assert drawn(DeviceView(status, VIEW.rates)) == [*drawn(VIEW), told]


def test_what_runs_a_model_in_place_of_the_engine_is_told_beside_it() -> None:
    status = replace(STATUS, engines=(replace(ENGINES[0], fallback="tflm"),))
    assert drawn(DeviceView(status, VIEW.rates))[9].split()[:6] == ["0", "1", "9,424", "B", "on", "tflm"]


@pytest.mark.parametrize("width", [1, 20, 40, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = drawn(VIEW, width)
    assert max(map(len, lines)) <= width
    if width >= 40:
        assert len(lines) == 14


def test_columns_that_matter_least_go_first_where_the_terminal_is_narrow() -> None:
    lines = drawn(VIEW, 60)
    assert lines[1:3] == [
        "tile  core  task        call             waits for",
        "0     0     aiengine 0  select           usb_data, spi_buff…",
    ]
    assert lines[8:10] == [
        "engine        model  inferences  last classes       errors",
        "0           9,424 B      12,345  7: 127  1: -3  0…  NO_MODE…",
    ]
    lines = drawn(VIEW, 40)
    assert lines[1:3] == ["tile  task        waits for", "0     aiengine 0  usb_data, spi_buffer …"]
    assert lines[11:13] == ["port      commands  all commands", "usb 1-1    1,234/s            70"]


def test_terminal_without_unicode_gets_ascii() -> None:
    assert drawn(VIEW, 40, "ascii")[2] == "0     aiengine 0  usb_data, spi_buffer o"
    assert drawn(VIEW, 100, "ascii")[9].split()[-3:] == ["*..*", "NO_MODEL", "BAD_CMD"]


def test_a_tall_terminal_has_blank_lines_between_the_parts() -> None:
    lines = drawn(DevicesView((VIEW,), 0, "seccomp"), height=18 + 1)
    assert [place for place, line in enumerate(lines) if not line] == [8, 12, 16]
    assert [line for line in lines if line] == [*drawn(VIEW), "workers are kept in by seccomp"]


def test_without_the_lines_for_that_there_are_no_blank_ones() -> None:
    whole = [*drawn(VIEW), "workers are kept in by seccomp"]
    assert drawn(DevicesView((VIEW,), 0, "seccomp"), height=15 + 2) == whole
    assert drawn(DevicesView((VIEW,), 0, "seccomp"), height=15 + 1) == whole


def test_a_low_terminal_gets_each_device_in_few_lines() -> None:
    compact = [
        "Device 1-1, serial number LAB-7",
        "tile 0  aiengine 0  blink  usb_ep0  busy  broken",
        "tile 1  XUD",
        "broken halted: inct on chanend 0x80000302: ECALL (8): gives up",
        "engine  inferences  last class    LEDs  errors",
        "0           12,345  7: 127        ●○○●  NO_MODEL BAD_CMD",
        "1                0  -             ○○○○  -",
        "port       to device  from device   commands",
        "usb 1-1     1.2 MB/s  999 bytes/s    1,234/s",
        "spi 0.0    0 bytes/s    0 bytes/s        0/s",
    ]
    assert drawn(DevicesView((VIEW,)), height=14) == compact
    assert drawn(DevicesView((VIEW,)), height=11) == compact


def test_a_compact_device_tells_what_is_wrong() -> None:
    graph = ShownGraph(
        None, 1, 20, (ArcStatus(0, 1, 64, 9, 2, 3),), (NodeStatus("alu", 4, 5, 6, 1),) * 2, (), ()
    )
    status = replace(STATUS, deadlock="a -> b -> a", ignored_packets=7, parts={"graph": graph})
    lines = drawn(CompactDevice(status, VIEW.rates))
    assert [lines[1], *lines[5:8]] == [
        "deadlock: a -> b -> a",
        "7 packets over USB ignored",
        "graph  20 visits",
        "2 nodes, 8 calls, 2 errors; 1 arcs, 2 overflows, 3 underflows",
    ]


def test_the_lowest_terminals_get_a_line_for_each_device() -> None:
    assert drawn(DevicesView((VIEW, VIEW)), height=10) == drawn(DevicesView((VIEW, VIEW)).table())
    assert len(drawn(DevicesView((VIEW, VIEW)).table())) == 3


@pytest.mark.parametrize("height", range(5, 60, in_ci(1, every_day=3)))
def test_no_view_is_taller_than_the_terminal(height: int) -> None:
    assert len(drawn(DevicesView((VIEW,) * 4, 3, "seccomp"), height=height)) < height


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
    table = DevicesTable(((STATUS, VIEW.rates), (quiet, VIEW.rates[1:]), (stuck, VIEW.rates[1:])), 5)
    assert drawn(table) == [
        "device     models  inferences  commands/s  from device  classes    state",
        "1-1 LAB-7  1 of 2      12,345       1,234  999 bytes/s  7: 127  -  1 core halted, NO_MODEL BAD_CMD",
        "1-2        0 of 1           0           0    0 bytes/s  -          ok",
        "1-3        0 of 1           0           0    0 bytes/s  -          deadlock",
        "5 more devices are not shown",
    ]


def test_devices_that_the_terminal_has_no_room_for_are_counted() -> None:
    lines = drawn(DevicesTable(((STATUS, VIEW.rates),) * 60))
    assert len(lines) == 48
    assert lines[-1] == "14 more devices are not shown"


# Names of classes


def test_classes_by_name() -> None:
    named = (Score(7, 127, "seven"), Score(1, -3), Score(0, -128, "a name of more than twenty letters"))
    assert scores(named).plain == "seven: 127  1: -3  a name of more than : -128"


def test_names_are_no_markup() -> None:
    engine = replace(ENGINES[0], top=(Score(7, 127, "[red]x[/]"),))
    assert "[red]x[/]: 127" in drawn(DeviceView(replace(STATUS, engines=(engine,)), VIEW.rates))[9]
