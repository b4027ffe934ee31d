"""`aisrv-host` as a process beside `aisrv run`: the sensor, flash and raw commands, over USB/IP and SPI."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from aisrv import digits
from tests.support.programs import FLASH, HOST, run_process, running


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    return str(path)


def host(device: str, *words: object) -> Any:
    done = run_process([*HOST, "--device", device, *map(str, words), "--json"], check=True)
    return json.loads(done.stdout)


def test_sensor_over_usbip_and_spi(model: str, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    with running("--board", "camera", "--spi-port", "0", "--model", model) as (_, ready):
        usb, spi = (place.strip() for place in ready.split(","))
        assert host(spi, "acquire")["acquired"] is True
        host(usb, "frame", photo)
        assert host(usb, "stream", "on") == {"mode": "stream"}
        assert host(usb, "stream") == {"mode": "stream"}
        assert host(usb, "stream", "off") == {"mode": "single"}
        host(usb, "i2c", "0x10", 3, 2)  # a white test pattern
        host(usb, "acquire")
        host(usb, "infer", "--output", tmp_path / "scores.npy")
        for command in (
            ("frame", photo),
            ("stream", "on"),
            ("i2c", "1", "2", "3"),
            ("reset",),
            ("raw", "0x0D"),
        ):
            done = run_process([*HOST, "--device", spi, *map(str, command)])
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert "SPI" in done.stderr
        host(usb, "frame", tmp_path / "white.png")
    with Image.open(photo) as picture:
        assert picture.size == (640, 480)
        assert picture.getpixel((2, 2)) == (255, 255, 255)
        assert picture.getpixel((637, 477)) == (0, 0, 0)
    with Image.open(tmp_path / "white.png") as picture:
        assert picture.getextrema() == ((255, 255),) * 3
    scores = np.load(tmp_path / "scores.npy")
    assert (scores.dtype, scores.shape) == (np.int8, (1, 10))


def test_model_from_flash_and_raw_commands(model: str, tmp_path: Path) -> None:
    flash = tmp_path / "flash.bin"
    run_process([*FLASH, "pack", "--engine", f"model={model}", "--output", flash], check=True)
    chip = tmp_path / "board.flash"
    run_process([*FLASH, "write", flash, "--chip", chip], check=True)
    with running("--flash", str(chip)) as (_, device):
        assert host(device, "load", "--from-flash")["input_bytes"] == 64
        assert host(device, "raw", "GET_INPUT_TENSOR_LENGTH")["hex"] == "40000000"
        assert host(device, "reset") == {"reset": True}
        assert host(device, "info")["spec"]["input_bytes"] == 64
        # The tensor's own type without the model's file: the device says it.
        image = tmp_path / "image.npy"
        pixels = np.frombuffer(digits.test_images()[0].image, np.int8).reshape(1, 8, 8, 1)
        np.save(image, (pixels.astype(np.float32) + 128) / 240)
        host(device, "infer", image, "--output", tmp_path / "scores.npy")
        host(device, "read", 0, "--input", "--output", tmp_path / "input.npy")
    assert np.load(tmp_path / "scores.npy").dtype == np.int8
    assert np.load(tmp_path / "input.npy").tolist() == pixels.tolist()


def test_a_file_that_is_no_model_leaves_the_loaded_one(model: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.tflite"
    bad.write_bytes(Path(model).read_bytes()[:1000])
    with running("--model", model) as (_, device):
        done = run_process([*HOST, "--device", device, "load", bad])
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert host(device, "info")["spec"]["input_bytes"] == 64


@pytest.mark.long("devices are compared over USB/IP every day, and in one process")
def test_two_devices_compared_over_usbip_and_spi(model: str) -> None:
    with running("--spi-port", "0") as (_, ready):
        for device in ready.split(", "):
            done = run_process([*HOST, "diff", device, "virtual", "--model", model], check=True)
            assert done.stdout.startswith("8 runs: all 80 elements agree\n")
