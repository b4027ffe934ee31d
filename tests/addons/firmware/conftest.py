"""Programs in C are kept for one run of the tests."""

import pytest

from tests.support.benches.c_programs import kept_programs

__all__ = ["kept_programs"]

pytestmark = pytest.mark.usefixtures("kept_programs")


@pytest.fixture(autouse=True)
def _keeps_programs(kept_programs: None) -> None:
    """Use the folder in all tests."""
