"""The training of the digits network makes the shipped files again."""

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from aisrv import digits
from benchmarks.train import digits as digits_tool
from benchmarks.train.training import Parameters, forward, gradients

SHIPPED = Path(digits.__file__).parent
FILES = (
    digits.MODEL_FILE,
    digits.FLOAT_MODEL_FILE,
    digits.TWO_OUTPUT_MODEL_FILE,
    digits.IMAGES_FILE,
    digits.LABELS_FILE,
    digits.TRAINING_IMAGES_FILE,
    digits.TRAINING_LABELS_FILE,
)


def test_gradients_are_the_slopes_of_the_loss() -> None:
    random = np.random.RandomState(3)
    parameters = Parameters.initial(random)
    images, labels = random.uniform(0, 1, (3, 8, 8, 1)), np.array([1, 7, 4])

    def loss() -> float:
        logits = forward(parameters, images).logits
        return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(3), labels]))

    slopes = gradients(parameters, images, labels)
    for array, slope in zip(parameters.arrays(), slopes.arrays(), strict=True):
        index = np.unravel_index(np.abs(slope).argmax(), slope.shape)
        array[index] += 1e-6
        above = loss()
        array[index] -= 2e-6
        below = loss()
        array[index] += 1e-6
        assert (above - below) / 2e-6 == pytest.approx(slope[index], rel=1e-4)


@pytest.mark.long("it trains the network anew")
def test_the_training_makes_the_shipped_files(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(digits_tool.main, [str(tmp_path / "made")])
    assert outcome.exit_code == 0, outcome.output
    assert "test images, int8: 99." in outcome.output
    made = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    assert made == {name: (SHIPPED / name).read_bytes() for name in FILES}


def test_without_scikit_learn_the_training_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    outcome = CliRunner().invoke(digits_tool.main, [str(tmp_path)])
    assert outcome.exit_code == 1
    assert outcome.output == (
        "Error: the images come with scikit-learn, which is not installed: pip install scikit-learn\n"
    )
