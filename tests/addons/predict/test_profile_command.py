"""`aisrv profile` as a user calls it."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisrv.cli.main import main
from tests.support.models import networks


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["profile", *map(str, arguments)], env={"COLUMNS": "140"})


def test_one_model_is_shown_in_all_details(digits_file: Path) -> None:
    outcome = run(digits_file)
    assert outcome.exit_code == 0
    for text in ("Operators", "By operator class", "Memory", "Predicted ms", "measured", "█"):
        assert text in outcome.stdout
    assert "this host" not in outcome.stdout


def test_the_time_is_first(digits_file: Path) -> None:
    assert _words(run(digits_file).stdout).startswith(
        "One inference takes 0.414 ms (0.344 to 0.486), parameters internal. "
        "Not converted: times as the tools of 2023 would convert it. "
        "Of the time 67.3 % is as measured, 22.4 % is extrapolated to other shapes, 10.3 % is an estimate. "
        "digits.tflite: fits with its file in the arena; 446,432 bytes of arena remain. "
        "1 thread, 600 MHz, optimized kernels, flash through the server "
    )


def test_the_verdict_says_what_is_missing(digits_file: Path) -> None:
    text = " ".join(run(digits_file, "--arena", "2K").stdout.split())
    assert "digits.tflite: does not fit: " in text
    assert "7,376 missing" in text


def test_the_verdict_on_several_models(digits_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "adding.tflite"
    other.write_bytes(networks.adding_network())
    took = (
        "One inference takes 0.00385 ms (0.00192 to 0.00769) (adding.tflite) to 0.414 ms (0.344 to 0.486) "
        "(digits.tflite) on the device."
    )
    assert _words(run(digits_file, other).stdout).startswith(f"All fit. {took}")
    small = run(digits_file, other, "--arena", "2K").stdout
    assert _words(small).startswith(f"1 of 2 do not fit: digits.tflite. {took}")
    same = run(digits_file, digits_file).stdout
    assert _words(same).startswith("All fit. One inference takes 0.414 ms (0.344 to 0.486) on the device.")


def _words(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def test_host_time_is_shown_on_request(digits_file: Path) -> None:
    assert "median of 2 runs, which says nothing about the device" in run(digits_file, "--run", "2").stdout


def test_several_models_are_compared(digits_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "adding.tflite"
    other.write_bytes(networks.adding_network())
    lines = run(digits_file, other).stdout.splitlines()
    rows = [line.split() for line in lines[1:] if ".tflite" in line]
    # 420 slots and 2.6 for each of 16 elements: 385 of 41,390 ticks.
    assert [row[:2] for row in rows] == [["digits.tflite", "0.414"], ["adding.tflite", "0.00385"]]
    assert ["1.00x" in rows[0], "0.01x" in rows[1]] == [True, True]
    assert rows[1][-1] == "both"


def test_options_reach_the_device_model(digits_file: Path) -> None:
    options = ("--threads", "5", "--clock", "800", "--kernels", "reference", "--flash-rate", "50")
    outcome = run(digits_file, *options, "--arena", "64K", "--external", "1M", "--json")
    (profile,) = json.loads(outcome.stdout)["profiles"]
    assert profile["configuration"] == {
        "name": "",
        "threads": 5,
        "clock_mhz": 800,
        "reference_mhz": 100,
        "external_clock_mhz": 100,
        "kernels": "reference",
        "flash": 50,
        "parameters": "internal",
        "arena_memory": "internal",
        "arena_bytes": 65_536,
        "external_bytes": 1_048_576,
    }


def test_csv_has_a_row_for_each_operator(digits_file: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(digits_file, "--csv").stdout)))
    assert [row["operator"] for row in rows] == [
        "CONV_2D",
        "MAX_POOL_2D",
        "CONV_2D",
        "MAX_POOL_2D",
        "FULLY_CONNECTED",
        "SOFTMAX",
    ]


def test_html_goes_to_its_file(digits_file: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    outcome = run(digits_file, "--html", report)
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert report.read_text().startswith("<!DOCTYPE html>")


def test_file_of_configurations(digits_file: Path) -> None:
    suite = digits_file.with_name("suite.toml")
    suite.write_text(
        "models = ['digits.tflite']\n"
        "configurations = [{name = 'one'}, {name = 'five', threads = 5, clock = 700}]\n"
    )
    data = json.loads(run("--config", suite, "--json").stdout)["profiles"]
    assert [(each["model"], each["configuration"]["name"]) for each in data] == [
        ("digits.tflite", "one"),
        ("digits.tflite", "five"),
    ]
    assert [each["configuration"]["clock_mhz"] for each in data] == [600, 700]


def test_options_count_more_than_the_file(digits_file: Path) -> None:
    suite = digits_file.with_name("suite.toml")
    suite.write_text("[[configurations]]\nname = 'five'\nthreads = 5\n")
    (data,) = json.loads(run(digits_file, "--config", suite, "--threads", "2", "--json").stdout)["profiles"]
    assert (data["configuration"]["name"], data["configuration"]["threads"]) == ("five", 2)


def test_comparison_names_configurations(digits_file: Path) -> None:
    suite = digits_file.with_name("suite.toml")
    suite.write_text("configurations = [{name = '[red]one'}, {name = 'five', threads = 5}]\n")
    outcome = run(digits_file, "--config", suite).stdout
    assert "[red]one: 1 thread, 600 MHz, optimized kernels, flash through the server" in outcome
    assert "five: 5 threads" in outcome


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(networks.custom_operator_network("\x1b[2J[bold]op[/nope]"))
    outcome = run(path)
    assert outcome.exit_code == 0
    assert "\x1b" not in outcome.stdout
    assert "[2J[bold]op[/nope]" in outcome.stdout


@pytest.mark.parametrize("data", [b"", b"\0" * 8, b"\x1c\0\0\0TFL3", b"TFL3" * 1000, bytes(1024)])
def test_file_that_is_no_model(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.tflite"
    path.write_bytes(data)
    outcome = run(path)
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("Error: bad.tflite: ")
    assert outcome.stdout == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[defaults]\nthreads = 9", ":2: defaults.threads: must be a whole number from 1 to 5, not 9"),
        (b"\xff\xfe\xfd", ": not a TOML file: no UTF-8 at byte 0"),
        (b"models = ['absent.tflite']", "absent.tflite: No such file or directory"),
        (b"models = ['.']", ": Is a directory"),
        (b"a" * 70_000, ": larger than 65536 bytes"),
    ],
)
def test_file_of_configurations_that_is_wrong(tmp_path: Path, text: bytes, message: str) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_bytes(text)
    outcome = run("--config", suite)
    assert outcome.exit_code == 1
    assert message in outcome.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["absent.tflite"],
        ["--config", "absent.toml"],
        ["MODEL", "--threads", "6"],
        ["MODEL", "--threads", "0"],
        ["MODEL", "--clock", "0"],
        ["MODEL", "--clock", "nan"],
        ["MODEL", "--flash-rate", "-1"],
        ["MODEL", "--kernels", "fast"],
        ["MODEL", "--arena", "1T"],
        ["MODEL", "--run", "0"],
        ["MODEL", "--json", "--csv"],
    ],
)
def test_wrong_usage(digits_file: Path, arguments: list[str]) -> None:
    outcome = run(*(digits_file if argument == "MODEL" else argument for argument in arguments))
    assert outcome.exit_code == 2
    assert "Error: " in outcome.stderr


def test_report_that_cannot_be_written(digits_file: Path, tmp_path: Path) -> None:
    outcome = run(digits_file, "--html", tmp_path / "absent" / "report.html")
    assert outcome.exit_code == 2
    assert f"the directory {str(tmp_path / 'absent')!r} does not exist" in outcome.stderr


def test_model_that_the_host_cannot_run(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(networks.custom_operator_network())
    outcome = run(path, "--run", "1")
    assert outcome.exit_code == 1
    assert "net.tflite does not run on this host" in outcome.stderr


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        (("--generation", "2022"), "clock_mhz", 700),
        (("--generation", "2022"), "reference_mhz", 175),
        (("--generation", "2024"), "flash", "fast"),
        (("--reference", "50"), "reference_mhz", 50),
        (("--parameters", "external"), "parameters", "external"),
        (("--parameters", "auto"), "parameters", "internal"),
        (("--arena-memory", "external"), "arena_memory", "external"),
        (("--external-clock", "100"), "external_clock_mhz", 100),
        (("--flash", "fast"), "flash", "fast"),
        (("--flash", "server"), "flash", "server"),
        (("--flash", "12.5"), "flash", 12.5),
    ],
)
def test_options_of_time(digits_file: Path, options: tuple[str, ...], key: str, value: object) -> None:
    (profile,) = json.loads(run(digits_file, *options, "--json").stdout)["profiles"]
    assert profile["configuration"][key] == value


@pytest.mark.parametrize("value", ["slow", "0", "-1", "nan"])
def test_flash_that_is_none(digits_file: Path, value: str) -> None:
    outcome = run(digits_file, "--flash", value)
    assert outcome.exit_code == 2
    assert "is neither server nor fast, nor a rate in MB/s above 0" in " ".join(outcome.output.split())


def test_the_document_has_bands_and_bases(digits_file: Path) -> None:
    (profile,) = json.loads(run(digits_file, "--generation", "2022", "--json").stdout)["profiles"]
    assert profile["ms"] == pytest.approx(profile["ticks"] / 175_000)
    assert profile["ms_low"] < profile["ms"] < profile["ms_high"]
    assert (profile["generation"], profile["generation_from"], profile["reference_mhz"]) == (
        "2022",
        "option",
        175,
    )
    assert set(profile["basis_shares"]) == {"measured", "carried", "extrapolated", "estimate"}
    assert sum(profile["basis_shares"].values()) == pytest.approx(1)
    assert profile["published"] is None
    assert profile["slots"] == sum(operator["slots"] for operator in profile["operators"])
    first = profile["operators"][0]
    assert (first["form"], first["basis"], first["memory"]) == ("padded", "measured", "internal")
    assert first["low"] < first["ticks"] < first["high"]


def test_threads_with_external_parameters_are_told(digits_file: Path) -> None:
    text = " ".join(run(digits_file, "--threads", "5", "--parameters", "external").stdout.split())
    assert (
        "Note: 5 threads with parameters in external memory: XMOS builds for LPDDR have one thread." in text
    )


def test_a_file_too_large_for_a_tile_has_its_parameters_in_external_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.tflite"
    path.write_bytes(networks.adding_network() + bytes(512 * 1024))
    assert run(path).stdout.splitlines()[0].endswith("parameters external.")


def test_no_report_has_a_time_without_its_band(digits_file: Path, tmp_path: Path) -> None:
    """Each number with `ms` behind it, or in a column of ms, is followed by its band."""
    page = tmp_path / "report.html"
    run(digits_file, "--html", page)
    text = re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.DOTALL)
    times = re.findall(r"[\d.]+ ms[^<]{0,3}", text)
    assert times
    assert [time for time in times if not time.endswith((" (0", " (1"))] == []
    shown = run(digits_file).stdout
    assert " % estimates" not in shown
    assert re.findall(r"[\d.]+ ms(?! \()", shown) == []


def test_the_whole_way_of_an_inference(digits_file: Path) -> None:
    text = _words(run(digits_file, "--end-to-end").stdout)
    assert text.startswith("digits.tflite over usb: 0.476 ms from input to output (")
    for command in ("SET_MODEL_ARENA", "SET_INPUT_TENSOR", "START_INFER", "GET_OUTPUT_TENSOR"):
        assert command in text


def test_the_whole_way_as_json(digits_file: Path) -> None:
    (profile,) = json.loads(run(digits_file, "--end-to-end", "--host", "spi:10000000", "--json").stdout)[
        "profiles"
    ]
    way = profile["end_to_end"]
    assert way["link"] == "spi:10000000"
    assert way["ticks"] == sum(row["ticks"] for row in way["commands"])
    assert [row["command"] for row in way["commands"]] == [
        "SET_INPUT_TENSOR",
        "START_INFER",
        "GET_OUTPUT_TENSOR",
    ]


def test_a_camera_that_is_faster_than_the_engine(digits_file: Path) -> None:
    text = _words(run(digits_file, "--end-to-end", "--camera", "5000").stdout)
    assert re.search(
        r"A camera of 5000 frames a second: 2,\d{3}\.\d inferences a second\. Of 2,\d{3} frames", text
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--host", "spi:10"], "'spi:10' is neither usb nor spi:HZ with a clock of 1000 to 50000000"),
        (["--end-to-end", "--host", "i2c"], "'i2c' is neither usb nor spi:HZ"),
        (["--camera", "5"], "--host, --camera and --host-us need --end-to-end"),
        (["--end-to-end", "--csv"], "--end-to-end is shown in the terminal or with --json"),
        (
            ["--end-to-end", "--host", "spi:1000000", "--host-us", "5"],
            "--host-us is for --host usb: over SPI the host polls back to back",
        ),
    ],
)
def test_options_of_the_whole_way_that_do_not_go_together(
    digits_file: Path, options: list[str], reason: str
) -> None:
    outcome = run(digits_file, *options)
    assert outcome.exit_code == 2
    assert reason in _words(outcome.stderr)
