"""A room grows only with its budget in lines.toml, in the same change, and with a reason."""

from pathlib import Path
from typing import Any

import pytest

from tests.house.line_budgets import faults, measured, read_budgets, room_of

TABLE: dict[str, Any] = {
    "total": 2500,
    "rooms": {"aisrv/engine": 1000, "phy": 1000},
    "grown": [{"room": "phy", "lines": 500, "why": "isochronous transfers of sound and pictures"}],
}


def test_no_room_is_above_its_budget() -> None:
    assert faults(measured(), read_budgets()) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ({"aisrv/engine": 1000, "phy": 1500}, []),
        ({"aisrv/engine": 1001, "phy": 1499}, ["aisrv/engine: 1001 lines, its budget is 1000: cut, or"]),
        ({"aisrv/engine": 1000, "phy": 1299}, ["phy: 1299 lines, its budget is 1500: lower it"]),
        ({"aisrv/engine": 1000}, ["phy: no such room"]),
        ({"aisrv/engine": 800, "phy": 1500, "new": 1}, ["new: a new room"]),
    ],
)
def test_what_is_wrong_is_said(lines: dict[str, int], said: list[str]) -> None:
    found = faults(lines, TABLE)
    assert len(found) == len(said)
    assert all(line.startswith(begin) for line, begin in zip(found, said, strict=True))


def test_all_rooms_together_have_a_budget() -> None:
    lines = {"aisrv/engine": 1000, "phy": 1500}
    assert faults(lines, TABLE | {"total": 2499}) == ["all: 2500 lines, the budget is 2499: cut"]


@pytest.mark.parametrize("why", [{}, {"why": ""}, {"why": "more code"}])
def test_a_room_does_not_grow_without_a_reason(why: dict[str, str]) -> None:
    table = TABLE | {"grown": [{"room": "phy", "lines": 500} | why]}
    lines = {"aisrv/engine": 1000, "phy": 1500}
    assert faults(lines, table) == ["phy: say in lines.toml why it grows by 500 lines"]


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("aisrv/engine/engine.py", "aisrv/engine"),
        ("aisrv/xcore/timed/runtime.py", "aisrv/xcore"),
        ("aisrv/addons/web/device/hub.py", "aisrv/addons/web"),
        ("aisrv/addons/__init__.py", "aisrv/addons"),
        ("aisrv/pytest_plugin.py", "aisrv"),
        ("phy/usb/taps/capture.py", "phy"),
    ],
)
def test_rooms(module: str, room: str) -> None:
    assert room_of(Path(module)) == room
