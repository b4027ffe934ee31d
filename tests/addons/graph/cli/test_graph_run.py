"""`aisrv graph run`: graphs without hosts, with real files, a real worker, and what is printed at the end."""

import json
import os
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from tests.support.models.graphs import golden_audio, write_wav
from tests.support.paths import ROOT
from tests.support.programs import AISRV, run_process

AMPLIFIER = """\
format_index 0
format_frame_length 64
format_sampling_rate 16000
stream_io 0
stream_io_hwid 4
stream_io 1
stream_io_hwid 6
node arm_stream_amplifier 0
    node_parameters 0
        1 u8; 0
        1 u16; h803
        1 u8; 0
        2 u16; 0 0
    end
arc_input 0 1 0 arm_stream_amplifier 0 0 0
arc_output 1 1 0 arm_stream_amplifier 0 1 0
end
"""
"""Four times the input: 12 dB, without a slope."""


def run(*arguments: object) -> tuple[int, str, str]:
    done = run_process([*AISRV, "graph", "run", *arguments])
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graph.txt").write_text(AMPLIFIER)


def test_samples_of_a_file_into_a_file() -> None:
    samples = np.arange(-8000, 8000, 10, "<i2")  # 1600: 50 frames
    write_wav(samples.tobytes(), Path("speech.wav"))
    code, out, errors = run("graph.txt", "--io", "4=wav:speech.wav", "--io", "6=file:out.raw")
    assert (code, errors) == (0, "")
    assert out.splitlines() == [
        "arm_stream_amplifier 0: 50 calls, 3,200 bytes in, 3,200 out",
        "IO 4: 3,200 bytes",
        "IO 6: 3,200 bytes",
    ]
    assert np.fromfile("out.raw", "<i2").tolist() == (4 * samples.astype(int)).tolist()


def test_raw_file_that_ends_within_a_frame() -> None:
    Path("in.raw").write_bytes(bytes(64 + 10))
    code, out, _ = run("graph.txt", "--io", "4=file:in.raw", "--io", "6=file:out.raw")
    assert (code, out.splitlines()[1:]) == (0, ["IO 4: 74 bytes", "IO 6: 64 bytes"])


UNEVEN = AMPLIFIER.replace("stream_io 0", "format_index 1\nformat_frame_length 48\nstream_io 0", 1).replace(
    "arc_input 0 1 0", "arc_input 0 1 1"
)
"""Frames of 48 bytes come in, and frames of 64 are read: the arc is too small for both."""


def test_a_graph_that_stands_still_says_why() -> None:
    Path("in.raw").write_bytes(bytes(640))
    Path("graph.txt").write_text(UNEVEN)
    arguments = ("graph.txt", "--io", "4=file:in.raw", "--io", "6=file:out.raw")
    about = "arc 0, which holds 48 of 64 bytes, with frames of 48 in and 64 out"
    reasons = [
        f"IO 4 has more to give, and there is no room in {about}",
        f"neither a frame to read nor room to write one in {about}: arc_jitter_ctrl 1.5 is enough",
    ]
    code, out, _ = run(*arguments)
    assert (code, out.splitlines()[-2:]) == (1, [f"the graph stands still: {reason}" for reason in reasons])
    code, out, _ = run(*arguments, "--json")
    assert (code, json.loads(out)["standstill"]) == (1, reasons)


@pytest.mark.parametrize("source", ["file:in.raw", "wav:in.wav"])
def test_frames_of_an_input_that_are_shorter_than_those_of_its_reader(source: str) -> None:
    data = np.arange(48 * 8 // 2, dtype="<i2").tobytes()
    Path("in.raw").write_bytes(data)
    write_wav(data, Path("in.wav"))
    Path("graph.txt").write_text(UNEVEN.replace("arc_output", "arc_jitter_ctrl 1.5\narc_output"))
    code, _, _ = run("graph.txt", "--io", f"4={source}", "--io", "6=file:out.raw")
    assert code == 0
    assert np.fromfile("out.raw", "<i2").tolist() == list(range(0, 4 * 48 * 8 // 2, 4))


def test_an_output_that_is_joined_to_nothing_is_named() -> None:
    Path("in.raw").write_bytes(bytes(640))
    code, out, _ = run("graph.txt", "--io", "4=file:in.raw")
    assert code == 1
    about = "arc 1, which holds 64 of 64 bytes, with frames of 64 in and 64 out"
    reason = f"IO 6 is joined to nothing, and its output waits in {about}"
    assert f"the graph stands still: {reason}" in out.splitlines()


def with_script(*code: str) -> str:
    block = ["node arm_stream_script 0", "script_code", *code, "return", "script_parameters 0", "label DATA"]
    return AMPLIFIER.replace(
        "arc_input", "\n".join([*block, "32 i16;" + " 7" * 32, "end", "end", "arc_input"]), 1
    )


WRITE_ARC_0 = ("r1 = 0", "r2 = 8", "set r3 param DATA", "r4 = 64", "callsys 2 r1 r2 r3 r4")


def test_a_graph_in_which_only_a_script_produces_ends_by_itself() -> None:
    Path("graph.txt").write_text(with_script(*WRITE_ARC_0))
    code, _, _ = run("graph.txt", "--io", "6=file:out.raw")
    samples = np.fromfile("out.raw", "<i2")
    assert code == 0
    assert len(samples) >= 32
    assert set(samples.tolist()) == {28}


def test_faults_of_scripts_and_debug_registers_are_shown() -> None:
    Path("in.raw").write_bytes(bytes(640))
    text = with_script("callsys 15").replace(
        "amplifier 0 0 0\n", "amplifier 0 0 0\narc_debug_cmd 1\narc_debug_reg 3\n"
    )
    Path("graph.txt").write_text(text)
    arguments = ("graph.txt", "--io", "4=file:in.raw", "--io", "6=file:out.raw")
    code, out, _ = run(*arguments)
    fault = "the script node of arc 2, word 0 (0x3c33330f): service fault: unknown service 15"
    lines = out.splitlines()
    assert code == 0
    assert "arc 0: debug register 3, add samples: 320" in lines
    assert f"script fault: {fault}" in lines
    values = json.loads(run(*arguments, "--json")[1])
    assert values["registers"] == [{"arc": 0, "register": 3, "does": "add samples", "value": 320}]
    assert values["scripts"]["faults"] == values["scripts"]["runs"] > 0
    assert values["scripts"]["last_fault"] == fault


def test_verbose_shows_the_log_of_the_graph() -> None:
    Path("in.raw").write_bytes(bytes(640))
    Path("graph.txt").write_text(with_script("callsys 15"))
    _, _, errors = run("graph.txt", "--io", "4=file:in.raw", "--io", "6=file:out.raw", "-v")
    assert "aisrv.graph: the script node of arc 2, word 0" in errors


def test_camera_to_engine_in_json() -> None:
    images = digits.test_images()[:10]
    Path("camera.bin").write_bytes(b"".join(bytes(value ^ 0x80 for value in each.image) for each in images))
    Path("digits.tflite").write_bytes(digits.model_bytes())
    code, out, _ = run(
        ROOT / "examples" / "graph" / "digits.txt",
        *("--io", "5=raw:camera.bin:8x8:bayer", "--io", "8=gpio:0,1,2,3,4,5,6,7,8,9"),
        *("--model", "digits.tflite", "--json"),
    )
    values = json.loads(out)
    assert (code, values["waits_for"]) == (0, None)
    assert values["nodes"][1]["inferences"] == 10
    high = [int(pin["name"]) for pin in values["pins"] if pin["level"]]
    assert high == [images[9].label]


def test_microphone_to_keyword() -> None:
    network = runpy.run_path(str(ROOT / "examples" / "word_network.py"))["network"]
    Path("word.tflite").write_bytes(network())
    write_wav(golden_audio(), Path("speech.wav"))
    code, out, _ = run(
        ROOT / "examples" / "graph" / "word.txt",
        *("--io", "4=wav:speech.wav", "--io", "8=gpio:word,long", "--model", "word.tflite", "--json"),
    )
    values = json.loads(out)
    assert code == 0
    assert [node["consumed"] for node in values["nodes"]] == [64000, 64000, 200, 96]
    assert values["nodes"][3]["inferences"] == 6


def test_node_of_an_installed_package() -> None:
    examples = ROOT / "examples"
    metadata = Path("site", "gain-1.dist-info")
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: gain\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[aisrv.graph_nodes]\nexample_gain = gain_node:Gain\n")
    shutil.copy(examples / "gain_node.py", "site")
    samples = np.array([1, -2, 3, 16384] * 16, "<i2")
    samples.tofile("in.raw")
    graph = examples / "graph"
    done = run_process(
        [
            *(
                *AISRV,
                "graph",
                "run",
                graph / "gain.txt",
                "--io",
                "4=file:in.raw",
                "--io",
                "8=gpio:up",
                "--json",
            ),
            *("--platform", graph / "platform" / "top_manifest.txt"),
        ],
        check=True,
        env={**os.environ, "PYTHONPATH": "site"},
    )
    values = json.loads(done.stdout)
    assert [(node["name"], node["produced"]) for node in values["nodes"]] == [("example_gain 0", 128)]
    assert values["pins"] == [{"name": "up", "level": True}]


def test_graph_that_does_not_begin() -> None:
    code, out, _ = run(ROOT / "examples" / "graph" / "digits.txt")
    assert code == 1
    assert out.splitlines()[0] == (
        "the graph does not run: aisrv_stream_inference 0: engine 0 has no input tensor 0"
    )


def test_input_without_end_stops_in_time() -> None:
    Path("in.raw").write_bytes(bytes(64))
    code, out, _ = run(
        "graph.txt",
        "--io",
        "4=raw:in.raw:8x8:bayer:loop:rate=20",
        "--io",
        "6=file:out.raw",
        "--seconds",
        "0.2",
    )
    assert code == 0
    assert "IO 4: " in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--io", "4"], "'4' is not IO=WHAT"),
        (["--io", "7=gpio:led"], "the graph does not use IO 7; it uses 4, 6"),
        (["--io", "4=wav:missing.wav"], "missing.wav"),
        (["--engine", "tensorflow"], "tensorflow"),
    ],
)
def test_what_cannot_be(arguments: list[str], reason: str) -> None:
    code, out, errors = run("graph.txt", *arguments)
    assert (code in (1, 2), out) == (True, "")
    assert reason in errors
    assert "Traceback" not in errors
