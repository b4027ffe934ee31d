"""Recordings of pins: levels at their times, names, what lies ahead, and a full disk."""

import errno
import logging
from pathlib import Path
from unittest.mock import patch

import pytest
from vcd.reader import TokenKind, tokenize

from aisrv.addons.pins.peripherals.vcd import PinsVcd
from tests.support.benches.pin_bench import Line, pin_bench
from tests.support.benches.simulation import simulated


def read(path: Path) -> tuple[dict[str, str], list[tuple[int, str, str]]]:
    """Return the initial levels by name, and time, name and level of each change."""
    names: dict[str, list[str]] = {}
    first, changes, now, scopes = {}, [], None, []
    with path.open("rb") as file:
        for token in tokenize(file):
            if token.kind is TokenKind.SCOPE:
                scopes.append(token.scope.ident)
            elif token.kind is TokenKind.UPSCOPE:
                scopes.pop()
            elif token.kind is TokenKind.VAR:
                names.setdefault(token.var.id_code, []).append(".".join((*scopes, token.var.reference)))
            elif token.kind is TokenKind.CHANGE_TIME:
                now = token.time_change
            elif token.kind is TokenKind.CHANGE_SCALAR:
                for name in names[token.scalar_change.id_code]:
                    if not now:
                        first[name] = token.scalar_change.value
                    if now:
                        changes.append((now, name, token.scalar_change.value))
    return first, changes


@simulated
async def test_levels_are_recorded_at_their_times(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    async with pin_bench(path) as bench:
        (pin,), a, b = bench.pins("1A"), Line("a"), Line("b")
        pin.drive_run([1, 0, 1], 100, 10, a)
        pin.drive(0, b, 130)
        pin.release(a, 150)
        pin.release(b, 151)
        pin.drive(1, a, 9_000_000)  # lies ahead at the end
        bench.node.tiles[1].pin("4A.1").drive(1, a, 5_000_000)
        await bench.until(6_000_000)
    first, changes = read(path)
    assert first["tile0.X0D00"] == "z"
    assert len(first) == 128
    levels = [(1000, "1"), (1100, "0"), (1200, "1"), (1300, "x"), (1500, "0"), (1510, "z")]
    assert [(time, level) for time, name, level in changes if name == "tile0.X0D00"] == levels
    assert (50_000_000, "tile1.X1D03", "1") in changes


@simulated
async def test_pins_with_a_use_have_a_second_name(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    async with pin_bench(path, scl="1A") as bench:
        bench.pins("1A")[0].drive(1, Line(), 7)
        await bench.until(20)
    assert read(path)[1] == [(70, "bus.scl", "1"), (70, "tile0.X0D00", "1")]


@simulated
async def test_what_has_passed_is_in_the_file_while_the_node_runs(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    async with pin_bench(path) as bench:
        (pin,), line = bench.pins("1A"), Line()
        for tick in range(10, 100):
            await bench.until(tick)
            pin.drive(tick % 2, line)
        await bench.until(10_000_000)
        assert len(read(path)[1]) == 90


@simulated
async def test_a_recording_is_idle_while_no_pin_changes(tmp_path: Path) -> None:
    async with pin_bench(tmp_path / "pins.vcd") as bench:
        await bench.until(10)
        with patch.object(PinsVcd, "_write", side_effect=AssertionError):
            await bench.until(10**9)


@simulated
async def test_a_full_disk_ends_the_recording_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with pin_bench(tmp_path / "pins.vcd") as bench:
        line = Line()
        full = OSError(errno.ENOSPC, "No space left on device")
        with patch("vcd.VCDWriter.change", side_effect=full), caplog.at_level(logging.ERROR):
            bench.pins("1A")[0].drive(1, line)
            await bench.until(10_000_000)
        bench.pins("1A")[0].drive(0, line)
        await bench.until(20_000_000)
    assert [each.message.partition(": ")[2] for each in caplog.records] == [
        "No space left on device; the recording ends here"
    ]
