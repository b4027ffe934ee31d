"""Data by their names and paths."""

from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.evaluate.data.opening import open_data
from aisrv.addons.evaluate.errors import DataError


def test_the_form_of_data_shows_in_their_names_or_first_bytes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 2)), y=[0])
    images = Path(digits.__file__).parent / digits.IMAGES_FILE
    labels = images.with_name(digits.LABELS_FILE)
    names = tmp_path / "names.txt"
    names.write_text("zero\none\n")
    assert open_data("digits")[0].kind == "digits"
    assert open_data(str(tmp_path / "a.npz"))[0].kind == "npz"
    assert open_data(str(images))[0].kind == "idx"
    assert open_data(str(images), labels)[1] == ()
    data, given = open_data(str(images), names)
    assert (data.kind, given) == ("idx", ("zero", "one"))


@pytest.mark.parametrize("content", [None, b"", b"text"])
def test_what_is_no_data_set(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "data"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match="No such file" if content is None else "not a data set: a folder of"):
        open_data(str(path))
