"""The command `aisrv-host`: what it prints, what it writes, and its exit codes."""

import json
import signal
import socket
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import aisrv
from aisrv.protocol.commands import Dialect
from host_tools.cli import main
from host_tools.commands.bench import Measurement
from host_tools.commands.report import show_scores, show_timings
from host_tools.errors import DeviceAccessDenied, DeviceBusy
from host_tools.tensors.outputs import Score, best_scores
from host_tools.tensors.timings import Timings
from host_tools.transports.usb import UsbTransport
from tests.support.benches.memory_device import INFER_ERR, Backend, Device, Engine
from tests.support.benches.memory_scheme import add_memory_scheme
from tests.support.command_calls import CommandCalls
from tests.support.programs import run_process, start_process

MODEL = b"\0\0\0\0TFL3" + bytes(24)
OPERATORS = ["CONV_2D", "MAX_POOL_2D", "CONV_2D", "MAX_POOL_2D", "FULLY_CONNECTED", "SOFTMAX"]
"""The operators of the digits network."""
INTERRUPTED = '{"error": {"kind": "Interrupted", "message": "interrupted", "exit_code": 130}}\n'
PROGRAM = [sys.executable, "-c", "from host_tools.cli import main; main()"]


@pytest.fixture
def device() -> Device:
    return Device(Engine(inputs=[64], outputs=[10], timings=[100] * len(OPERATORS)))


@pytest.fixture
def backend(device: Device, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The scheme `memory`, which is also what the environment names."""
    backend = Backend(device)

    add_memory_scheme(monkeypatch, lambda _: UsbTransport(backend, "the device"))
    monkeypatch.setenv("AISRV_DEVICE", "memory")
    return backend


COMMAND = CommandCalls(main)
call, done = COMMAND.call, COMMAND.done


def failed(code: int, *arguments: object) -> str:
    errors = COMMAND.failed(code, *arguments)
    assert errors.startswith("aisrv-host: ")
    assert errors.count("\n") == 1
    return errors


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "input.bin"
    path.write_bytes(bytes(range(64)))
    return path


# info, list, log


def test_info(backend: Backend) -> None:
    lines = done("info").splitlines()
    assert lines[0].split() == ["ID", "0x12345678"]
    assert lines[2].split() == ["status", "OKAY"]
    assert lines[-1].split() == ["model", "none", "loaded"]


def test_info_as_json(backend: Backend, device: Device) -> None:
    device.engine.perform(0x86, 0, MODEL)
    device.engine.errors = 0x04
    data = json.loads(done("--json", "info"))
    assert (data["id"], data["engine"], data["status"]) == (0x12345678, 0, ["ERROR_NO_MODEL"])
    assert (data["spec"]["input_bytes"], data["spec"]["output_bytes"]) == (64, 10)


def test_the_device_is_given_back(backend: Backend) -> None:
    done("info")
    assert backend.open_handles == 0


def test_list(backend: Backend) -> None:
    assert "memory" in done("list")
    assert json.loads(done("--json", "list"))[0]["address"] == "memory"


def test_list_without_a_device_tells_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AISRV_DEVICE", raising=False)
    monkeypatch.setattr("host_tools.commands.inspect.LOOKED_AT", ("usbip:127.0.0.1:1",))
    result = call("list")
    assert (result.exit_code, result.stdout) == (0, "no devices found\n")
    assert "127.0.0.1:1: no USB/IP server answers" in result.stderr


def test_log(backend: Backend, device: Device) -> None:
    device.engine.log = b"one\ntwo\n"
    assert done("log") == "one\ntwo\n"
    assert json.loads(done("--json", "log")) == {"log": ["one", "two"]}


def test_an_empty_log(backend: Backend) -> None:
    assert done("log") == ""


# load and infer


def test_load(backend: Backend, device: Device, digits_file: Path) -> None:
    assert f": {digits_file.stat().st_size} bytes loaded into arena in " in done("load", digits_file)
    assert (device.engine.model, device.engine.memory) == (digits_file.read_bytes(), 0x86)


def test_load_into_external_memory(backend: Backend, device: Device, digits_file: Path) -> None:
    answer = json.loads(done("--json", "load", "--ext", digits_file))
    assert (answer["memory"], answer["bytes"]) == ("ext", digits_file.stat().st_size)
    assert device.engine.memory == 0x87


def test_infer_raw_bytes(backend: Backend, device: Device, raw: Path) -> None:
    device.engine.perform(0x86, 0, MODEL)
    answer = json.loads(done("--json", "infer", raw, "--top", 2))
    # The double answers 255 - i, which as int8 is -1 - i.
    assert answer["top"] == [
        {"index": 0, "label": None, "value": -1},
        {"index": 1, "label": None, "value": -2},
    ]
    assert (answer["tensor"], answer["bytes"]) == (0, 10)


def test_infer_loads_the_model_into_an_empty_engine(
    backend: Backend, device: Device, raw: Path, digits_file: Path
) -> None:
    answer = json.loads(done("--json", "infer", raw, "--model", digits_file, "--top", 1))
    assert device.engine.model == digits_file.read_bytes()
    assert answer["top"][0]["value"] == pytest.approx(
        127 / 256
    )  # the softmax has scale 1/256, zero point -128


def test_infer_does_not_load_a_model_again(
    backend: Backend, device: Device, raw: Path, digits_file: Path
) -> None:
    done("load", digits_file)
    device.engine.seen.clear()
    done("infer", raw, "--model", digits_file)
    assert 0x86 not in [command for command, _, _ in device.engine.seen]


def test_infer_does_not_run_another_model(
    backend: Backend, device: Device, raw: Path, digits_file: Path
) -> None:
    device.engine.inputs = [65]
    device.engine.perform(0x86, 0, MODEL)
    message = failed(2, "infer", raw, "--model", digits_file)
    assert "holds another model (65 bytes in" in message
    assert f"aisrv-host load {digits_file}" in message


def test_infer_an_image(backend: Backend, device: Device, digits_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "white.png"
    Image.fromarray(np.full((16, 16), 255, np.uint8)).save(path)
    done("infer", path, "--model", digits_file)
    assert device.engine.input_data == [bytes([112]) * 64]
    done("infer", path, "--model", digits_file, "--range", "full")
    assert device.engine.input_data == [bytes([127]) * 64]
    done("infer", path, "--shape", "8x8:uint8", "--invert")
    assert device.engine.input_data == [bytes(64)]


def test_infer_shows_labels(backend: Backend, device: Device, raw: Path, tmp_path: Path) -> None:
    device.engine.perform(0x86, 0, MODEL)
    labels = tmp_path / "labels.txt"
    labels.write_text("null\n[bold]eins\n")
    lines = done("infer", raw, "--labels", labels, "--top", 3).splitlines()
    assert lines[0].split() == ["index", "label", "value"]
    assert [line.split()[:3] for line in lines[2:5]] == [
        ["0", "null", "-1"],
        ["1", "[bold]eins", "-2"],
        ["2", "-3"],
    ]


def test_infer_writes_the_output(backend: Backend, raw: Path, digits_file: Path, tmp_path: Path) -> None:
    done("infer", raw, "--model", digits_file, "--output", tmp_path / "out.bin", "--top", 0)
    assert (tmp_path / "out.bin").read_bytes() == bytes(range(255, 245, -1))
    assert done("infer", raw, "--model", digits_file, "--output", tmp_path / "out.npy", "--top", 0) == (
        f"{tmp_path / 'out.npy'}: 10 bytes\n"
    )
    assert np.load(tmp_path / "out.npy").tolist() == [list(range(-1, -11, -1))]


def test_load_checks_the_file_before_it_replaces_the_model(
    backend: Backend, device: Device, tmp_path: Path
) -> None:
    device.engine.perform(0x86, 0, MODEL)
    bad = tmp_path / "bad.tflite"
    bad.write_bytes(MODEL[:8] + b"another")
    backend.calls.clear()
    assert f"{bad}: " in failed(2, "load", bad)
    assert (device.engine.model, backend.calls) == (MODEL, [])
    done("load", bad, "--force")
    assert device.engine.model == bad.read_bytes()


def test_infer_shows_labels_of_the_model_s_file(backend: Backend, raw: Path, digits_file: Path) -> None:
    with zipfile.ZipFile(digits_file, "a") as archive:
        archive.writestr("labels.txt", "zero\none\n")
    answer = json.loads(done("infer", raw, "--model", digits_file, "--top", 2, "--json"))
    assert [one["label"] for one in answer["top"]] == ["zero", "one"]


def test_infer_without_inputs_takes_what_was_written(backend: Backend, device: Device, raw: Path) -> None:
    device.engine.perform(0x86, 0, MODEL)
    done("write", 0, raw)
    assert json.loads(done("--json", "infer", "--top", 1))["top"][0]["value"] == -1


def test_infer_with_several_inputs(backend: Backend, device: Device, raw: Path, tmp_path: Path) -> None:
    device.engine.inputs = [64, 3]
    device.engine.perform(0x86, 0, MODEL)
    (tmp_path / "second.bin").write_bytes(b"abc")
    done("infer", raw, tmp_path / "second.bin")
    assert device.engine.input_data == [bytes(range(64)), b"abc"]


def test_infer_with_too_many_inputs(backend: Backend, raw: Path, digits_file: Path) -> None:
    assert "2 inputs given" in failed(2, "infer", raw, raw, "--model", digits_file)
    assert backend.calls == []


def test_infer_checks_the_size_before_it_writes(backend: Backend, device: Device, tmp_path: Path) -> None:
    device.engine.perform(0x86, 0, MODEL)
    (tmp_path / "short.bin").write_bytes(bytes(63))
    assert "63 bytes, the tensor has 64" in failed(2, "infer", tmp_path / "short.bin")
    assert device.engine.seen[-1][0] == 0x0A


# read and write


def test_read_as_hex(backend: Backend, device: Device) -> None:
    device.engine.outputs = [20]
    device.engine.perform(0x86, 0, MODEL)
    device.engine.output_data = [bytes(range(20))]
    assert done("read", 0) == (
        "00000000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f\n00000010  10 11 12 13\n"
    )


def test_read_values(backend: Backend, device: Device, digits_file: Path) -> None:
    done("load", digits_file)
    device.engine.output_data = [bytes([0x80] * 9 + [0])]
    answer = json.loads(done("--json", "read", 0, "--model", digits_file))
    assert answer["values"] == [[0.0] * 9 + [0.5]]
    assert answer["hex"] == "80" * 9 + "00"


def test_read_to_a_file(backend: Backend, device: Device, tmp_path: Path) -> None:
    device.engine.perform(0x86, 0, MODEL)
    assert done("read", 0, "--output", tmp_path / "out") == f"{tmp_path / 'out'}: 10 bytes\n"
    assert (tmp_path / "out").read_bytes() == bytes(10)


def test_write_and_read_an_input(backend: Backend, device: Device, raw: Path) -> None:
    device.engine.perform(0x86, 0, MODEL)
    assert done("write", 0, raw) == "input 0: 64 bytes written\n"
    assert json.loads(done("--json", "read", 0, "--input"))["hex"] == bytes(range(64)).hex()


def test_a_tensor_that_the_model_does_not_have(backend: Backend, raw: Path, digits_file: Path) -> None:
    assert "unknown output tensor 1: " in failed(2, "read", 1, "--model", digits_file)
    assert "unknown input tensor 1: " in failed(2, "write", 1, raw, "--model", digits_file)
    assert backend.calls == []


# timings


def test_timings(backend: Backend, device: Device) -> None:
    device.engine.timings = [150, 50]
    device.engine.perform(0x86, 0, MODEL)
    lines = [line.split() for line in done("timings").splitlines()]
    assert lines[0] == ["#", "ticks", "µs", "%"]
    assert lines[2][:4] == ["0", "150", "1.50", "75.0"]
    assert lines[3][:4] == ["1", "50", "0.50", "25.0"]
    assert lines[2][4] == "█" * 32
    assert lines[3][4].rstrip("▋") == "█" * 10  # a third of the longest


def test_the_host_is_told_the_clock_of_hardware(backend: Backend, device: Device) -> None:
    device.engine.timings = [350, 175]
    device.engine.perform(0x86, 0, MODEL)
    answer = json.loads(done("--reference", "175", "--json", "timings"))
    assert (answer["total_ticks"], answer["total_us"]) == (525, 3.0)
    assert [one["us"] for one in answer["operators"]] == [2.0, 1.0]
    text = done("--reference", "175", "timings")
    assert "A tick is 1/175 µs." in text
    assert "hardware measures" in text


def test_timings_with_names(backend: Backend, device: Device, digits_file: Path) -> None:
    done("load", digits_file)
    answer = json.loads(done("--json", "timings", "--model", digits_file))
    assert [one["name"] for one in answer["operators"]] == OPERATORS
    assert (answer["total_ticks"], answer["total_us"]) == (600, 6.0)
    assert [
        line.split()[1] for line in done("timings", "--model", digits_file).splitlines()[2:8]
    ] == OPERATORS


def test_timings_of_another_model(backend: Backend, device: Device, digits_file: Path) -> None:
    device.engine.timings = [150, 50]
    device.engine.perform(0x86, 0, MODEL)
    assert "the device gives 2 timings: it holds another model" in failed(
        2, "timings", "--model", digits_file
    )


def test_timings_before_an_inference(backend: Backend, device: Device) -> None:
    device.engine.perform(0x86, 0, MODEL)
    device.engine.timings = [0, 0]
    message = "there are no timings: no inference has run since the model was loaded"
    assert failed(1, "timings") == f"aisrv-host: {message}\n"


def test_timings_of_nothing(backend: Backend, device: Device) -> None:
    device.engine.perform(0x86, 0, MODEL)
    device.engine.timings = []
    assert json.loads(done("--json", "timings")) == {
        "reference_mhz": 100,
        "total_ticks": 0,
        "total_us": 0.0,
        "total_us_band": None,
        "operators": [],
    }
    assert "ticks" in done("timings")


# gpio


def test_gpio_shows_its_settings(backend: Backend) -> None:
    answer = json.loads(done("--json", "gpio"))
    assert answer == {"enabled": False, "thresholds": [-128] * 4, "mode": "none"}


def test_gpio_settings(backend: Backend) -> None:
    done("gpio", "enable")
    done("gpio", "threshold", 2, -5)
    done("gpio", "mode", "max")
    assert done("gpio").split() == [
        "enabled",
        "yes",
        "thresholds",
        "-128",
        "-128",
        "-5",
        "-128",
        "mode",
        "max",
    ]
    done("gpio", "disable")
    assert done("gpio").split()[:2] == ["enabled", "no"]


@pytest.mark.parametrize("arguments", [("4", "0"), ("0", "128"), ("0", "-129"), ("x", "0"), ("0",)])
def test_gpio_thresholds_out_of_range(backend: Backend, arguments: tuple[str, ...]) -> None:
    assert call("gpio", "threshold", *arguments).exit_code == 2
    assert backend.calls == []


# bench


def test_bench_without_a_model(backend: Backend) -> None:
    answer = json.loads(done("--json", "bench", "--seconds", 0))
    assert [(one["name"], one["runs"]) for one in answer] == [("status round trip", 3)]


def test_bench_with_a_model(backend: Backend, digits_file: Path) -> None:
    answer = json.loads(done("--json", "bench", "--seconds", 0, "--model", digits_file))
    assert [(one["name"], one["bytes"]) for one in answer] == [
        ("status round trip", 0),
        ("load model", digits_file.stat().st_size),
        ("write input 0", 64),
        ("inference", 0),
        ("read output 0", 10),
        ("write, infer, read", 0),
    ]
    for one in answer:
        assert one["seconds"]["min"] <= one["seconds"]["median"] <= one["seconds"]["max"]


def test_bench_as_a_table(backend: Backend) -> None:
    assert "status round trip" in done("bench", "--seconds", 0)


@pytest.mark.parametrize(
    ("nbytes", "seconds", "rate"),
    [
        (16, 1.0, "16 bytes/s"),
        (64, 0.0005, "128.0 kB/s"),
        (64, 0.000_002, "32.0 MB/s"),
        (0, 0.0001, "10,000/s"),
        (0, 4.0, "0.25/s"),
        (0, 25.0, "0.04/s"),
    ],
)
def test_rates_of_slow_operations_are_no_zeros(nbytes: int, seconds: float, rate: str) -> None:
    assert Measurement("operation", (seconds,), nbytes).rate == rate


# JSON, before and after the subcommand


@pytest.mark.parametrize("words", [("--json", "log"), ("log", "--json"), ("--json", "log", "--json")])
def test_json_before_and_after_the_subcommand(backend: Backend, words: tuple[str, ...]) -> None:
    assert json.loads(done(*words)) == {"log": []}


def test_json_of_subcommands_of_subcommands(backend: Backend) -> None:
    assert json.loads(done("gpio", "enable", "--json")) == {"enabled": True}
    assert json.loads(done("gpio", "--json"))["enabled"] is True
    assert json.loads(done("gpio", "threshold", 2, -5, "--json")) == {"index": 2, "threshold": -5}
    assert json.loads(done("--json", "gpio", "mode", "max")) == {"mode": "max"}
    assert json.loads(done("gpio", "disable", "--json")) == {"enabled": False}


@pytest.mark.parametrize("words", [("--json", "infer"), ("infer", "--json")])
def test_errors_of_the_device_in_json(backend: Backend, device: Device, words: tuple[str, ...]) -> None:
    result = call(*words)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert json.loads(result.stdout) == {
        "error": {
            "kind": "NoModelError",
            "message": result.stderr.removeprefix("aisrv-host: ").strip(),
            "exit_code": 1,
            "command": 0x84,
            "engine": 0,
            "tensor": 0,
            "status": ["ERROR_NO_MODEL"],
            "log": device.engine.log.decode().splitlines(),
        }
    }


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (3, "DeviceNotFound", ("--json", "--device", "usbip:127.0.0.1:1", "info")),
        (2, "BadAddressError", ("--device", "nonsense:1", "info", "--json")),
        (2, "UsageError", ("--json", "load", "/nonexistent")),
        (2, "UsageError", ("load", "/nonexistent", "--json")),
        (2, "UsageError", ("--engine", "256", "info", "--json")),
        (2, "UsageError", ("nonsense", "--json")),
        (2, "UsageError", ("read", "--json")),
        (2, "UsageError", ("--json", "info", "--nonsense")),
    ],
)
def test_errors_in_json(code: int, kind: str, words: tuple[str, ...]) -> None:
    result = call(*words)
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["kind"], error["exit_code"]) == (code, kind, code)
    assert error["message"] in " ".join(result.stderr.split())


def test_json_behind_two_dashes_is_an_argument(backend: Backend) -> None:
    result = call("infer", "--", "--json")
    assert (result.exit_code, result.stdout) == (2, "")


# Options


def test_engine(backend: Backend, device: Device) -> None:
    device.engines = (Engine(), Engine(log=b"second\n"))
    assert done("--engine", 1, "log") == "second\n"


def test_dialect(backend: Backend) -> None:
    done("--dialect", "design", "log")
    assert backend.calls[0] == "out 12"


def test_device_option_goes_before_the_environment(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISRV_DEVICE", "nonsense")
    assert done("--device", "memory", "log") == ""
    assert "'nonsense' is not a device address" in failed(2, "log")


# Errors


@pytest.mark.parametrize("dialect", [one.value for one in Dialect])
def test_an_error_of_the_device_is_one_line_and_code_1(backend: Backend, dialect: str) -> None:
    message = failed(1, "--dialect", dialect, "infer")
    assert "START_INFER failed on engine 0, tensor 0 (ERROR_NO_MODEL)" in message
    assert backend.open_handles == 0


def test_an_inference_that_fails(backend: Backend, device: Device) -> None:
    device.engine.fails[0x84] = INFER_ERR
    assert "ERROR_INFER_ERR" in failed(1, "infer")


def test_no_device_is_code_3() -> None:
    failed(3, "--device", "usbip:127.0.0.1:1", "info")


@pytest.mark.parametrize("error", [DeviceBusy("busy"), DeviceAccessDenied("not allowed")])
def test_a_device_that_cannot_be_had_is_code_3(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(spec: str) -> UsbTransport:
        raise error

    add_memory_scheme(monkeypatch, refuse)
    assert failed(3, "info") == f"aisrv-host: {error}\n"


def test_a_device_that_went_away_is_code_3(
    backend: Backend, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish() -> bytes:
        backend.gone = True
        backend._check()
        return b""

    monkeypatch.setattr(device, "in_packet", vanish)
    assert "the device is gone" in failed(3, "info")


def test_a_timeout_is_code_4(backend: Backend, device: Device) -> None:
    device.stuck_on = 0x10
    assert "timed out" in failed(4, "info")


def test_nonsense_from_the_device_is_code_5(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "get", lambda *_: b"abc")
    assert "expected a word of 4 bytes" in failed(5, "info")


def test_a_bad_file_is_code_2(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "bad.tflite").write_bytes(b"bad")
    failed(2, "infer", "--model", tmp_path / "bad.tflite")
    (tmp_path / "labels").write_bytes(b"\xff\xfe")
    assert "not a text file of labels" in failed(2, "infer", "--labels", tmp_path / "labels")


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("--engine", "256", "info"), ("--timeout", "0", "info"), ("--dialect", "x", "info"),
     ("read",), ("read", "-1"), ("load", "/nonexistent"), ("infer", "--range", "2..3")],
)  # fmt: skip
def test_wrong_usage_is_code_2(arguments: tuple[str, ...]) -> None:
    assert call(*arguments).exit_code == 2


@pytest.mark.parametrize("name", [None, *main.commands])
def test_every_help_has_examples(name: str | None) -> None:
    assert "Examples:\n    aisrv-host" in done(*([name] if name else []), "--help")


def test_version() -> None:
    assert done("--version") == f"aisrv-host, version {aisrv.__version__}\n"


# What is shown


def test_the_best_scores_come_first_and_equal_ones_in_order() -> None:
    assert best_scores([1, 3, 2, 3], 3, ["a", "b"]) == [Score(1, "b", 3), Score(3, "", 3), Score(2, "", 2)]
    assert best_scores([], 5) == []


def test_scores_and_timings_of_zeros_have_no_bars(capsys: pytest.CaptureFixture[str]) -> None:
    show_scores([Score(0, "", 0.0)])
    show_timings(Timings([0, 0]))
    assert "█" not in capsys.readouterr().out


# As a process


def test_an_error_has_no_traceback() -> None:
    result = run_process([*PROGRAM, "--device", "usbip:127.0.0.1:1", "info"])
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.count("\n") == 1


def test_help_imports_nothing_heavy() -> None:
    heavy = "numpy", "rich", "usb", "PIL", "tflite", "trio", "asyncio", "flatbuffers"
    program = (
        "import sys\nfrom host_tools.cli import main\n"
        "main(['infer', '--help'], standalone_mode=False)\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    result = run_process([sys.executable, "-c", program], check=True)
    assert result.stderr == "[]\n"


@pytest.mark.parametrize("json_option", [None, "--json"])
def test_ctrl_c_ends_with_130(json_option: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"usbip:127.0.0.1:{server.getsockname()[1]}"
        server.settimeout(60)
        words = ["--device", address, "info", *filter(None, [json_option])]
        with start_process([*PROGRAM, *words]) as process:
            peer, _ = server.accept()  # it is connected, and waits for an answer that never comes
            assert peer.recv(8)
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=60)
            peer.close()
    assert (process.returncode, error) == (130, "")
    assert out == ("" if json_option is None else INTERRUPTED)
