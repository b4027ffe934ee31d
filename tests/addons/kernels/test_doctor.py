"""What `aisrv doctor` says of native kernels."""

import pytest

from aisrv.addons.kernels.backends.native.library import Library, NativeError
from aisrv.addons.kernels.doctor import NATIVE_USE, findings
from aisrv.cli.doctor import Finding, State
from tests.support.models import native


def test_the_variant_of_native_kernels() -> None:
    variant = native.library().variants[-1].value
    assert list(findings()) == [Finding("native kernels", State.WORKS, variant, use=NATIVE_USE)]


def test_why_there_are_no_native_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Library:
        raise NativeError("there was no C compiler")

    monkeypatch.setattr("aisrv.addons.kernels.doctor.load", load)
    (finding,) = findings()
    assert (finding.state, finding.helps) == (State.MISSING, "sudo apt-get install gcc")
    assert finding.detail == "there was no C compiler; slower ones serve until aisrv is installed with gcc"
