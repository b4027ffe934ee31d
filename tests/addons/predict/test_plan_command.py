"""`aisrv model plan`: what it prints, the pictures that it writes, what it refuses."""

import json
from pathlib import Path

from click.testing import CliRunner

from aisrv.cli.main import main
from aisrv.model.arena_plan import Allocation


def test_command_prints_json(digits_file: Path) -> None:
    result = CliRunner().invoke(main, ["model", "plan", str(digits_file), "--json"])
    assert result.exit_code == 0
    plan = json.loads(result.output)
    assert (plan["head"], plan["lower_bound"]) == (1280, 1280)
    assert plan["operators"][0] == "CONV_2D"
    assert Allocation(0, 64, 0, 1, plan["buffers"][0]["offset"]).size == plan["buffers"][0]["size"]


def test_command_writes_pictures(digits_file: Path, tmp_path: Path) -> None:
    svg, png = tmp_path / "a.svg", tmp_path / "a.png"
    result = CliRunner().invoke(
        main, ["model", "plan", str(digits_file), "--svg", str(svg), "--png", str(png)]
    )
    assert (result.exit_code, result.output) == (0, f"wrote {svg} and {png}\n")
    assert svg.read_text().startswith("<svg ")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_command_refuses_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "noise.tflite"
    path.write_bytes(b"noise")
    result = CliRunner().invoke(main, ["model", "plan", str(path)])
    assert result.exit_code == 1
    assert result.output == (
        f"Error: {path}: not a TensorFlow Lite file: it has 5 bytes, too few for a header\n"
    )
