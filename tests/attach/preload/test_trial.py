"""The trial of the preload library: made at the first start, and again when something changed."""

import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from aisrv.attach.preload.server import serve_preload
from aisrv.attach.preload.trial import PreloadMissingError, forget_trials
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.spi.bus import SpiBus
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from tests.support.programs import missing


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "aisrv"


async def start() -> None:
    bus = UsbBus(aisrv_descriptors())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(usb_ep0, bus)
        try:
            await nursery.start(serve_preload, [bus])
        except PreloadMissingError as error:
            missing(str(error))
        nursery.cancel_scope.cancel()


def no_trial_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")


def notes(caches: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in caches.iterdir()}


async def test_a_trial_that_came_out_well_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    await start()
    no_trial_can_run(monkeypatch)
    await start()


async def test_the_note_names_the_librarys_file(caches: Path) -> None:
    await start()
    ((name, text),) = notes(caches).items()
    assert name == "umockdev-usb"
    path = text.partition("\n")[0]
    assert path.startswith("/")
    assert "/libumockdev-preload.so.0" in path


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"\0\n()",
        b"/nowhere/libumockdev-preload.so.0\n(1, 2, 3, 4, '', '')",
        b"/bin/sh\n(1, 2, 3, 4, 'libumockdev-preload.so.0', '')",
    ],
)
async def test_another_file_or_a_broken_note_is_tried(
    caches: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    await start()
    (caches / "umockdev-usb").write_bytes(text)
    no_trial_can_run(monkeypatch)
    with pytest.RaisesGroup(FileNotFoundError, flatten_subgroups=True):
        await start()


@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "LD_PRELOAD"])
async def test_another_place_to_look_for_it_is_tried(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    await start()
    monkeypatch.setenv(variable, "libc.so.6")
    no_trial_can_run(monkeypatch)
    with pytest.RaisesGroup(FileNotFoundError, flatten_subgroups=True):
        await start()


async def test_forgotten_trials_are_made_again(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await start()
    forget_trials()
    assert notes(caches) == {}
    no_trial_can_run(monkeypatch)
    with pytest.RaisesGroup(FileNotFoundError, flatten_subgroups=True):
        await start()


async def test_spi_is_tried_by_itself(caches: Path) -> None:
    await start()
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(partial(serve_preload, spi=[SpiBus()]), [])
        except PreloadMissingError as error:
            missing(str(error))
        nursery.cancel_scope.cancel()
    assert set(notes(caches)) == {"umockdev-spi", "umockdev-usb"}


@pytest.fixture
def unwritable(caches: Path) -> None:
    caches.write_text("a file where the folder belongs")


@pytest.mark.usefixtures("unwritable")
async def test_where_nothing_can_be_written_it_is_tried_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    await start()
    no_trial_can_run(monkeypatch)
    with pytest.RaisesGroup(FileNotFoundError, flatten_subgroups=True):
        await start()
