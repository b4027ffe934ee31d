"""Settings of inputs: each key, where they come from, and what is refused."""

from dataclasses import fields
from pathlib import Path

import pytest

from aisrv.addons.evaluate.errors import InputError
from aisrv.addons.evaluate.inputs.settings import InputSettings, default_settings, read_settings, to_toml
from aisrv.model.metadata import ColorSpace, InputMetadata


def read(text: str, tmp_path: Path) -> dict[int, InputSettings]:
    path = tmp_path / "input.toml"
    path.write_text(text)
    return read_settings(path, ("image", "gain"))


def test_inputs_by_number_and_name(tmp_path: Path) -> None:
    found = read('[inputs.0]\nmean = 128\nstd = 64\n[inputs.gain]\nkind = "array"\n', tmp_path)
    assert found == {
        0: InputSettings(mean=(128.0,), std=(64.0,), source="settings"),
        1: InputSettings(kind="array", source="settings"),
    }


def test_what_is_printed_is_read_again(tmp_path: Path) -> None:
    settings = InputSettings(
        kind="image",
        color="bgr",
        crop=(0.0, 0.1, 0.9, 1.0),
        mean=(1.0, 2.0, 3.0),
        std=(4.0, 5.0, 6.0),
        filter="nearest",
        antialias=False,
        draft=True,
        source="settings",
    )
    text = to_toml((settings,))
    assert read(text, tmp_path) == {0: settings}
    assert all(
        f"\n{each.name} = " in text
        for each in fields(InputSettings)
        if each.name not in ("source", "frontend")
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '[inputs.0]\ncolour = "bgr"\n',
            r"input\.toml:2: colour: 'colour' is not known here; did you mean color\?",
        ),
        ('[inputs.0]\ncolor = "brg"\n', r"input\.toml:2: color: 'brg' is not known here; did you mean rgb\?"),
        ("[inputs.0]\nmean = [1, 2]\n", "2 means and 0 deviations"),
        ("[inputs.0]\nmean = 1\nstd = 0\n", "deviations are above 0"),
        ('[inputs.0]\ncrop = "middle"\n', 'crop = "middle": write "none"'),
        ("[inputs.0]\ncrop = [0.5, 0, 0.4, 1]\n", "shares of 0 to 1"),
        (
            '[inputs.0]\nfilter = "lanczos"\nantialias = false\n',
            "antialias = false is for nearest and bilinear",
        ),
        (
            '[inputs.0]\nfrontend = "mfc"\n',
            r'frontend = "mfc": mfcc, micro_speech, microwakeword, or a file \.tflite; did you mean mfcc\?',
        ),
        ('[inputs.0]\nfrontend = "microwakeword"\n', "one each 160: write step = 160"),
        ('[inputs.2]\ncolor = "bgr"\n', r"no input '2', it has 0 \(image\), 1 \(gain\)"),
        ("[input.0]\n", r"write \[inputs\.0\]"),
        ("inputs = 3\n", r"write a table for each input"),
    ],
)
def test_what_is_refused_with_its_line(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        read(text, tmp_path)


def test_defaults_from_metadata() -> None:
    assert default_settings(None) == InputSettings()
    gray = InputMetadata("x", (127.5,), (127.5,), ColorSpace.GRAYSCALE)
    assert default_settings(gray) == InputSettings(
        kind="image", color="gray", mean=(127.5,), std=(127.5,), source="metadata"
    )
