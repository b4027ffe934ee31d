"""Stimuli: levels from VCD and CSV files, of sigrok and of recordings too, and files that are none."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.pins.peripherals.stimulus import StimulusError, read_stimulus
from aisrv.addons.pins.peripherals.wave import wave_of
from aisrv.xcore.ports.pin import Z
from tests.support.benches.pin_bench import Line, pin_bench
from tests.support.benches.simulation import simulated
from tests.support.programs import run_process

VCD = """$timescale 10 ns $end
$scope module top $end
$scope module i2c $end
$var wire 1 ! scl $end
$var wire 1 " sda $end
$upscope $end
$var wire 8 # bus $end
$upscope $end
$enddefinitions $end
#0
1!
1"
b1010 #
#100
0!
#101
0"
1!
#101
0!
#250
x"
z!
"""


@pytest.fixture
def vcd(tmp_path: Path) -> Path:
    path = tmp_path / "wave.vcd"
    path.write_text(VCD)
    return path


@pytest.mark.parametrize(
    ("signal", "changes"),
    [
        ("scl", ((0, 1), (100, 0), (250, Z))),
        ("i2c.sda", ((0, 1), (101, 0), (250, Z))),
        ("top.i2c.sda", ((0, 1), (101, 0), (250, Z))),
    ],
)
def test_a_signal_of_a_vcd_file(vcd: Path, signal: str, changes: tuple[tuple[int, int], ...]) -> None:
    assert read_stimulus(vcd, signal).changes == changes


def test_without_a_signal_the_first_of_the_names_that_is_there(vcd: Path) -> None:
    assert read_stimulus(vcd, names=("1A", "i2c.sda", "scl")).changes == ((0, 1), (101, 0), (250, Z))


@pytest.mark.parametrize(
    ("timescale", "time", "tick"),
    [
        ("1 ns", 1000, 100),
        ("100 ps", 1000, 10),
        ("1 us", 3, 300),
        ("1 s", 2, 200_000_000),
        ("1 fs", 10**9, 100),
    ],
)
def test_times_in_each_unit(tmp_path: Path, timescale: str, time: int, tick: int) -> None:
    path = tmp_path / "wave.vcd"
    head = f"$timescale {timescale} $end $var wire 1 ! a $end $enddefinitions $end"
    path.write_text(f"{head}\n#0\n0!\n#{time}\n1!\n")
    assert read_stimulus(path).changes == ((0, 0), (tick, 1))


def test_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "wave.csv"
    path.write_text("time,scl,sda\n0,1,z\n1e-6,0,1\n\n2e-6,0,0\n")
    assert read_stimulus(path, "scl").changes == ((0, 1), (100, 0))
    assert read_stimulus(path, "sda").changes == ((0, Z), (100, 1), (200, 0))


def test_a_file_of_sigrok(tmp_path: Path) -> None:
    found = shutil.which("sigrok-cli")
    if found is None:
        pytest.skip("Debian's package sigrok-cli is not installed; .ci/packages does that")
    path = tmp_path / "wave.vcd"
    (tmp_path / "wave.bin").write_bytes(bytes((1, 3, 3, 2, 0)))
    source = ["-i", tmp_path / "wave.bin", "-I", "binary:numchannels=8:samplerate=1000000"]
    run_process([found, *source, "-O", "vcd", "-o", path], check=True)
    # The command puts a line of its own before the file. Probes are 0 to 7; a sample is a microsecond.
    path.write_text(path.read_text().removeprefix("META samplerate: 1000000\n"))
    assert read_stimulus(path, "0").changes[:2] == ((0, 1), (300, 0))
    assert read_stimulus(path, "1").changes[:3] == ((0, 0), (100, 1), (400, 0))


@simulated
async def test_a_recording_drives_the_same_pin_again(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    async with pin_bench(path) as bench:
        (pin,), line = bench.pins("4B.2"), Line()
        pin.drive_run([1, 0, 1], 100, 7, line)
        pin.release(line, 500)
        await bench.until(1000)
    async with pin_bench() as bench:
        (pin,) = bench.pins("4B.2")
        pin.keep("test", 0)
        read_stimulus(path, names=(pin.name,)).drive(pin, 0)
        await bench.until(1000)
        assert wave_of(pin) == "z 1@100 0@107 1@114 z@500"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.vcd", "", "it has no signal"),
        ("a.vcd", "no vcd", "no VCD file"),
        ("a.vcd", "$timescale 1 ns $end $upscope $end", "no VCD file"),
        ("a.vcd", "$var wire 1 ! a $end $enddefinitions $end #0 q!", "no VCD file"),
        (
            "a.vcd",
            "$var wire 1 ! a $end $enddefinitions $end #90 1! #80 0!",
            "no VCD file: the time goes back",
        ),
        ("a.vcd", "$var wire 1 ! a $end #0 1!", "no VCD file: changes before $enddefinitions $end"),
        ("a.vcd", "$var wire 1 ! a $end", "no VCD file: it has no $enddefinitions $end"),
        ("a.vcd", "$var wire 1 ! a $end $enddefinitions $end #1 1! !", "no change of a signal at byte 48"),
        ("a.csv", "", 'the first line has the names, as "time,scl,sda"'),
        ("a.csv", "time,a\n1", "line 2 has 1 columns, the first line has 2"),
        ("a.csv", "time,a\n1,2", "line 2: a time in seconds and levels 0, 1, x or z, not '1,2'"),
        ("a.csv", "time,a\nnan,1", "line 2: the time nan is not 0 s or later"),
        ("a.csv", "time,a\n-1,1", "line 2: the time -1 is not 0 s or later"),
        ("a.csv", "time,a\n2,1\n\n1,0", "line 4: the time is before that of a line above"),
        ("a.csv", "time,b,c\n2,1,0", "it has no signal 'a'; there are b, c"),
        ("a.txt", "", "a stimulus is a file .vcd or .csv"),
    ],
)
def test_a_file_that_is_no_stimulus_says_why(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(StimulusError) as caught:
        read_stimulus(path, "a")
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


OTHERS = ('0"', "z##", "b101 1!", "bx b1", "r1.5 0!", "s 1!", "$dumpvars", "$end", "$comment 1! $end")
"""What changes nothing of the signal !, though it looks so."""


@given(
    st.lists(
        st.one_of(
            st.sampled_from(OTHERS),
            st.sampled_from("01xXzZ").map("{}!".format),
            st.integers(0, 9).map("+{}".format),
        )
    ),
    st.sampled_from((" ", "\n", "\r\n", "\t ")),
)
def test_changes_of_a_signal_are_found_among_all_else(
    tmp_path_factory: pytest.TempPathFactory, items: list[str], between: str
) -> None:
    tick, texts, last = 0, [], {0: -1}
    for item in items:
        if item.startswith("+"):
            tick += int(item[1:])
            texts.append(f"#{tick}")
            continue
        texts.append(item)
        if item.endswith("!") and len(item) == 2:
            last[tick] = {"0": 0, "1": 1}.get(item[0], Z)
    expected, before = [], -1
    for each, level in last.items():
        if level not in (-1, before):
            expected.append((each, level))
            before = level
    path = tmp_path_factory.getbasetemp() / "found.vcd"
    head = "$timescale 10 ns $end $var wire 1 ! a $end $enddefinitions $end"
    path.write_text(between.join((head, *texts)), newline="")
    assert read_stimulus(path).changes == tuple(expected)


@given(content=st.binary(max_size=80), cut=st.integers(0, len(VCD)))
def test_random_and_truncated_files_are_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name in ("any.vcd", "any.csv"):
        for text in (content, VCD[:cut].encode(), VCD[:cut].encode() + content):
            (folder / name).write_bytes(text)
            try:
                changes = read_stimulus(folder / name, "sda").changes
            except StimulusError:
                continue
            assert [tick for tick, _ in changes] == sorted({tick for tick, _ in changes})
