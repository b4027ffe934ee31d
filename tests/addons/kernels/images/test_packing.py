"""What making an image says where its package is missing; test_build.py makes images."""

import sys

import pytest

from aisrv.addons.kernels.images.packing import pack_image
from aisrv.model.relocatable.errors import BuildError


def test_a_missing_package_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elftools.common.exceptions", None)
    with pytest.raises(
        BuildError, match=r"^packing needs pyelftools \(.*elftools.*\): pip install .*\[relocatable\]\"$"
    ):
        pack_image(b"", b"")
