"""`aisrv demo`: the files that it writes to try the other commands with; test_end_to_end.py has the rest."""

import io
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.cli.demo import IMAGE_FILES, example_files
from tests.support.programs import AISRV, refusal, run_process


def test_files_are_the_networks_and_two_images(tmp_path: Path) -> None:
    done = run_process([*AISRV, "demo", "--files", tmp_path / "new" / "folder"], check=True)
    folder = tmp_path / "new" / "folder"
    networks = f"{folder}/digits.tflite, {folder}/digits_float.tflite, {folder}/digits_two_outputs.tflite"
    assert (done.stdout, done.stderr) == ("", f"wrote {networks}, {folder}/seven.npy and {folder}/two.npy\n")
    files = {path.name: path for path in folder.iterdir()}
    assert sorted(files) == [
        "digits.tflite",
        "digits_float.tflite",
        "digits_two_outputs.tflite",
        "seven.npy",
        "two.npy",
    ]
    assert files["digits.tflite"].read_bytes() == digits.model_bytes()
    assert files["digits_two_outputs.tflite"].read_bytes() == digits.two_output_model_bytes()


@pytest.mark.parametrize(("name", "label"), [("seven.npy", 7), ("two.npy", 2)])
def test_an_image_shows_the_digit_of_its_name(name: str, label: int) -> None:
    image = np.load(io.BytesIO(example_files()[name]))
    assert (image.shape, image.dtype) == ((1, 8, 8, 1), np.int8)
    shown = digits.test_images()[IMAGE_FILES[name]]
    assert (image.tobytes(), shown.label) == (shown.image, label)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    code, output, errors = refusal("demo", "--files", tmp_path / "taken" / "folder")
    assert (code, output) == (1, "")
    assert errors == f"Error: {tmp_path / 'taken' / 'folder'}: Not a directory\n"
