"""Sources of C include and call downward alone, as modules of Python import: `LAYERS` has the floors."""

import subprocess
from pathlib import Path

import pytest

from aisrv.addons.firmware.compiler import RUNTIME, find_compiler, runtime
from aisrv.addons.firmware.errors import FirmwareError
from tests.house.c_layers import (
    FIRMWARE,
    LAYERS,
    PART_OF,
    calls,
    floors_of,
    folders,
    includes,
    not_down,
)
from tests.support.paths import ROOT
from tests.support.programs import missing


@pytest.fixture
def compiler() -> str:
    try:
        return find_compiler()
    except FirmwareError as error:
        missing(str(error))


def test_each_folder_with_sources_has_layers() -> None:
    assert folders() == set(LAYERS)


@pytest.mark.parametrize("folder", LAYERS)
def test_each_unit_has_a_floor(folder: str) -> None:
    units = {path.stem for suffix in "ch" for path in (ROOT / folder).glob(f"*.{suffix}")}
    assert units - set(PART_OF) == set(floors_of(LAYERS[folder]))


@pytest.mark.parametrize("folder", LAYERS)
def test_includes_lead_down(folder: str) -> None:
    assert not_down(LAYERS[folder], includes(ROOT / folder)) == []


def test_calls_of_the_firmware_lead_down(compiler: str) -> None:
    ours = [path for path in map(Path, runtime(compiler)) if f"{path.stem}.c" in RUNTIME]
    assert not_down(LAYERS[FIRMWARE], calls(ours)) == []


def test_an_include_of_a_higher_floor_is_found(tmp_path: Path) -> None:
    (tmp_path / "low.c").write_text('#include "low.h"\n# include "parts/high.h"\n#include <high.h>\n')
    (tmp_path / "high.c").write_text('#include "low.h"\n#include "beside.h"\n')
    assert not_down(["high | beside", "low"], includes(tmp_path)) == ["high -> beside", "low -> high"]


def test_a_call_of_a_higher_floor_is_found(compiler: str, tmp_path: Path) -> None:
    """What one includes the other does not say: a declaration of its own is enough to call."""
    (tmp_path / "low.c").write_text("void up(void); extern int count; void down(void) { up(); count++; }\n")
    (tmp_path / "high.c").write_text("void down(void); int count; void up(void) { down(); }\n")
    objects = [tmp_path / name for name in ("low.o", "high.o")]
    for each in objects:
        subprocess.run([compiler, "-c", each.with_suffix(".c"), "-o", each], check=True)
    assert not_down(["high", "low"], calls(objects)) == ["low -> high"]
