"""WAV files of I2S peripherals, as Python's own module has them."""

import wave
from pathlib import Path

import pytest

from aisrv.addons.pins.peripherals.i2s_format import Sound, SoundError, read_wav, write_wav


@pytest.mark.parametrize("width", [16, 24, 32])
def test_a_sound_of_each_width_is_written_and_read_again(width: int, tmp_path: Path) -> None:
    sound = Sound(44_100, width, (0, -1, 2 ** (width - 1) - 1, -(2 ** (width - 1))))
    write_wav(tmp_path / "a.wav", sound)
    with wave.open(str(tmp_path / "a.wav"), "rb") as file:
        assert file.getparams()[:4] == (2, width // 8, 44_100, 2)
        assert file.readframes(1) == b"\0" * (width // 8) + b"\xff" * (width // 8)
    assert read_wav(tmp_path / "a.wav") == sound


def test_a_mono_file_plays_on_both_channels(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(b"\x01\x00\xff\xff")
    assert read_wav(tmp_path / "a.wav") == Sound(8_000, 16, (1, 1, -1, -1))


def test_files_that_cannot_be_played_say_why(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"no sound")
    with pytest.raises(SoundError, match=r"a\.wav is no WAV file"):
        read_wav(path)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8_000)
        file.writeframes(b"\x80")
    with pytest.raises(SoundError, match="has 1 channels of 8 bits; 1 or 2 of 16, 24"):
        read_wav(path)
    write_wav(path, Sound(8_000, 16, (1, 2)))
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(SoundError, match="is no WAV file"):
        read_wav(path)
