"""The list of `make quick` names tests that there are, and no file with one of them is passed over."""

from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.quick import LEFT_OUT, PLACES, is_quick, may_have_quick


@pytest.mark.parametrize("place", [*PLACES, *LEFT_OUT])
def test_each_place_is_there(place: str) -> None:
    path, _, test = place.partition("::")
    assert (ROOT / path).exists()
    assert not test or f"def {test}(" in (ROOT / path).read_text()


def test_no_file_with_a_quick_test_is_passed_over() -> None:
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    quick = [path for path in files if is_quick(str(path))]
    quick += [Path(place.partition("::")[0]) for place in PLACES if "::" in place]
    assert len(quick) > 200
    folders = {folder for path in quick for folder in path.parents[:-2]}
    assert [str(path) for path in (*quick, *folders) if not may_have_quick(path)] == []


@pytest.mark.parametrize(
    "name",
    ["tests/addons/web/test_hub.py", "tests/integration/test_manual.py", "tests/phy/usb/taps"],
)
def test_other_places_are_passed_over(name: str) -> None:
    assert not may_have_quick(Path(name))


def test_one_test_of_a_file_is_not_the_others() -> None:
    file = "tests/integration/test_time_bands.py"
    assert is_quick(f"{file}::test_every_command_is_known")
    assert not is_quick(f"{file}::test_times_have_bands[profile]")
