"""`aisrv backends`: what is installed, and what serves under names that may mean several things."""

import json

import pytest
from click.testing import CliRunner

from aisrv.addons.kernels.backends.native.library import Library, NativeError, Variant
from aisrv.cli.backends import backends
from tests.support.models import native


def listed() -> dict[str, dict[str, str | None]]:
    done = CliRunner().invoke(backends, ["--json"])
    assert done.exit_code == 0
    return {each["name"]: each for each in json.loads(done.stdout)}


@pytest.mark.parametrize("variant", Variant)
def test_native_kernels_with_their_variant(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    found = native.library()._replace(variants=(variant,))
    monkeypatch.setattr("aisrv.addons.kernels.backends.native.library.load", lambda: found)
    assert listed()["kernels:native"] == {
        "name": "kernels:native",
        "origin": "aisrv",
        "missing": None,
        "detail": variant.value,
    }


def test_what_the_engine_kernels_runs_on() -> None:
    native.library()
    assert listed()["kernels"]["detail"] == "on native"
    assert "kernels              aisrv  installed: on native\n" in CliRunner().invoke(backends).stdout


def test_no_native_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Library:
        raise NativeError("there was no C compiler")

    monkeypatch.setattr("aisrv.addons.kernels.backends.native.library.load", load)
    assert listed()["kernels:native"]["missing"] == "there was no C compiler"
    assert listed()["kernels"]["detail"] == "on numpy"
