"""`aisrv-host jacdac`: a live bus, and frames that were recorded."""

from pathlib import Path

from tests.support.programs import HOST, run_process

GOLDEN = """\
0f0f1000a17e5e17e50000010c00000005070300c5e1901d789a0f14
43c60403a17e5e17e500000100028611
29dc0400a17e5e17e5000001003f43c6
27460c03a17e5e17e5000001083e007e0102030405060708
b8cd1800a17e5e17e500000104028411102700000202801007000000030285116f6b2100
44c60403a17e5e17e500000100028611
nothing here
"""


def test_dump_says_what_frames_are(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(GOLDEN)
    done = run_process([*HOST, "jacdac", "dump", trace], check=True)
    assert done.stdout.splitlines() == [
        "from 010000e5175e7ea1  Control (0): services = (1797, 3, 0, (496034245, 336566904))",
        "to 010000e5175e7ea1  Model Runner (2): get format",
        "from 010000e5175e7ea1  ACK of c643",
        "to 010000e5175e7ea1  pipe 252 packet 0: 8 bytes",
        "from 010000e5175e7ea1  Model Runner (2): model_size = 10000",
        "from 010000e5175e7ea1  Model Runner (2): auto_invoke_every = 7",
        "from 010000e5175e7ea1  Model Runner (2): last_error = 'ok!'",
        "no frame: the CRC is 0xc643, the frame says 0xc644",
    ]


def test_watch_shows_devices_and_registers(aisrv_jacdac: str) -> None:
    address = f"jacdac:{aisrv_jacdac}"
    done = run_process([*HOST, "--device", address, "jacdac", "watch", "--seconds", "1.5"], check=True)
    assert "Model Runner (2): last_error = 'no model'" in done.stdout
    assert "Control (0): device_description = 'XCORE AI server'" in done.stdout
    lines = done.stdout.splitlines()
    assert len(lines) == len(set(lines))


def test_watch_needs_a_bus() -> None:
    done = run_process([*HOST, "--device", "usb", "jacdac", "watch"])
    assert done.returncode == 2
    assert "jacdac:HOST:PORT" in done.stderr
    done = run_process([*HOST, "--device", "jacdac:127.0.0.1:1", "jacdac", "watch"])
    assert done.returncode == 3
