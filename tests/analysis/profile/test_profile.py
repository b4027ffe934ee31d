"""Profiles of models: values, reports that parse back, and what the library refuses."""

import csv
import html.parser
import io
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from aisrv import digits
from aisrv.analysis.profile import (
    Configuration,
    HostTime,
    ModelProfile,
    Prediction,
    ProfileError,
    Settings,
    measure_host,
    profile_model,
    read_suite,
)
from aisrv.analysis.profile.export import CSV_COLUMNS, to_csv, to_json
from aisrv.analysis.profile.html_report import MAX_BARS, to_html
from aisrv.analysis.profile.model_profile import printable
from aisrv.inference.memory import ModelMemory, arena_need
from aisrv.inference.timings import DeviceModel, Kernels
from aisrv.model.reader import read_model
from tests.support import networks

DIGITS = digits.model_bytes()
# By hand: 64 pixels of 9*4 products and a pad to 10x10; windows of 2x2; 16*2 pixel groups of 144 products and
# a pad to 6x6x16; a pixel of 128 products; 10 classes.
DIGITS_TICKS = (11_696, 2_059, 7_105, 1_029, 542, 4_300)
PARAMETERS = 6_264
"""Of digits: weights 144 + 4608 + 1280 and biases 4 * (16 + 32 + 10)."""


@pytest.fixture(scope="module")
def profile() -> ModelProfile:
    return profile_model(DIGITS, name="digits")


# The profile.


def test_operators_of_digits(profile: ModelProfile) -> None:
    assert tuple(time.ticks for time in profile.times) == DIGITS_TICKS
    assert profile.ticks == sum(DIGITS_TICKS)


def test_classes_of_digits(profile: ModelProfile) -> None:
    assert [(each.name, each.count, each.ticks, each.has_estimates) for each in profile.classes] == [
        ("CONV_2D", 2, 18_801, False),
        ("SOFTMAX", 1, 4_300, True),
        ("MAX_POOL_2D", 2, 3_088, True),
        ("FULLY_CONNECTED", 1, 542, False),
    ]
    assert sum(each.share for each in profile.classes) == pytest.approx(1)


def test_share_of_estimates(profile: ModelProfile) -> None:
    assert profile.estimate_share == pytest.approx((4_300 + 3_088) / sum(DIGITS_TICKS))


def test_parameters_of_digits(profile: ModelProfile) -> None:
    assert profile.parameters == PARAMETERS


def test_predictions_are_of_all_threads_and_three_clocks(profile: ModelProfile) -> None:
    assert [(each.threads, each.clock_mhz) for each in profile.predictions] == [
        (threads, clock) for clock in (600, 700, 800) for threads in (1, 2, 3, 4, 5)
    ]
    # 12.5 MB/s is 8 ticks a byte, at every clock.
    total = sum(DIGITS_TICKS)
    assert profile.predictions[0] == Prediction(1, 600, total, total + 8 * PARAMETERS)
    at_800 = profile.predictions[10]
    assert at_800.ram_ticks == pytest.approx(total * 600 / 800, abs=3)
    assert at_800.flash_ticks - at_800.ram_ticks == 8 * PARAMETERS


def test_fast_flash_shortens_predictions_from_flash_only(profile: ModelProfile) -> None:
    fast = profile_model(DIGITS, Configuration(DeviceModel(flash_rate=50_000_000)))
    assert fast.predictions[0].ram_ticks == profile.predictions[0].ram_ticks
    assert fast.predictions[0].flash_ticks == fast.ticks + 2 * PARAMETERS


def test_time_from_flash_is_that_of_the_configuration() -> None:
    slow = profile_model(DIGITS)
    fast = profile_model(DIGITS, Configuration(DeviceModel(flash_rate=50_000_000)))
    assert (slow.flash_ticks, fast.flash_ticks) == (slow.ticks + 8 * PARAMETERS, slow.ticks + 2 * PARAMETERS)


def test_loads_of_a_model_are_not_counted_twice() -> None:
    assert profile_model(networks.custom_operator_network("XC_ld_weights")).flash_ticks == 128


def test_model_that_loads_its_parameters_is_predicted_with_and_without() -> None:
    # A load of 16 bytes, at 8 ticks.
    profile = profile_model(networks.custom_operator_network("XC_ld_weights"))
    assert profile.flash_loads == 128
    assert profile.predictions[0] == Prediction(1, 600, 0, 128)


def test_memory_of_digits(profile: ModelProfile) -> None:
    need = arena_need(read_model(DIGITS))
    memory = profile.memory
    assert (memory.model, memory.head, memory.tail) == (len(DIGITS), need.head, need.tail)
    arena, external = memory.placements
    assert (arena.memory, arena.fits, arena.free) == (
        ModelMemory.ARENA,
        True,
        448 * 1024 - len(DIGITS) - need.total,
    )
    assert (external.memory, external.fits, external.free) == (ModelMemory.EXT, True, 448 * 1024 - need.total)


def test_model_that_fits_with_external_memory_only() -> None:
    arena = arena_need(read_model(DIGITS)).total
    in_arena, external = profile_model(DIGITS, Configuration(arena_bytes=arena)).memory.placements
    assert (in_arena.fits, in_arena.free) == (False, arena - len(DIGITS))
    assert f"{len(DIGITS):,}" in in_arena.detail
    assert (external.fits, external.free, external.detail) == (True, 0, "")


def test_model_that_fits_nowhere() -> None:
    placements = profile_model(DIGITS, Configuration(arena_bytes=100, external_bytes=0)).memory.placements
    assert [placement.fits for placement in placements] == [False, False]
    assert all(placement.free < 0 for placement in placements)


def test_reference_kernels_take_longer(profile: ModelProfile) -> None:
    slow = profile_model(DIGITS, Configuration(DeviceModel(kernels=Kernels.REFERENCE)))
    # 84,224 multiply-accumulates, and 4 values for each output of the pools, at 108.2 ticks.
    steps = 84_224 + 4 * (4 * 4 * 16 + 2 * 2 * 32)
    assert slow.ticks == pytest.approx(steps * 4_487_819 / 41_472 + 4_300, abs=5)
    assert slow.estimate_share == 1


@pytest.mark.parametrize("length", [0, 1, 3, 4, 511, 512, 513, 1024, len(DIGITS) - 4096])
def test_truncated_model_is_refused_by_name(length: int) -> None:
    with pytest.raises(ProfileError, match=r"^short\.tflite: "):
        profile_model(DIGITS[:length], name="short.tflite")


def test_damaged_models_give_a_profile_or_an_error() -> None:
    chance = random.Random(6)
    refused = 0
    for _ in range(300):
        damaged = bytearray(DIGITS)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        try:
            report = [profile_model(bytes(damaged), Configuration(DeviceModel(threads=5)))]
        except ProfileError:
            refused += 1
            continue
        assert json.loads(to_json(report))
        _Page(to_html(report))
    assert 0 < refused < 300


def test_model_with_too_many_inputs_is_refused() -> None:
    with pytest.raises(ProfileError, match="41 inputs"):
        profile_model(networks.adding_network(41, 1))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        (
            "a\x1b[31mb\nc\x00",
            "a\N{REPLACEMENT CHARACTER}[31mb\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}",
        ),
        ("\udc80", "\N{REPLACEMENT CHARACTER}"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
    ],
)
def test_names_are_made_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


# This host.


def test_host_time_is_measured() -> None:
    host = measure_host(DIGITS, 3)
    assert host.runs == 3
    assert 0 < host.fastest <= host.median <= host.slowest < 60


def test_model_that_the_host_cannot_run() -> None:
    with pytest.raises(ProfileError, match=r"^net does not run on this host: "):
        measure_host(networks.custom_operator_network("XC_nobody_knows"), 1, name="net")


@pytest.mark.parametrize("runs", [0, -1, 100_001])
def test_number_of_runs_is_bounded(runs: int) -> None:
    with pytest.raises(ValueError, match="there can be 1 to 100,000"):
        measure_host(DIGITS, runs)


# Reports.


def test_json_parses_back(profile: ModelProfile) -> None:
    timed = replace(profile, host=HostTime(4, 0.002, 0.001, 0.003))
    (data,) = json.loads(to_json([timed]))["profiles"]
    assert data["model"] == "digits"
    assert [operator["ticks"] for operator in data["operators"]] == list(DIGITS_TICKS)
    assert data["ms"] == pytest.approx(sum(DIGITS_TICKS) / 100_000)
    assert data["configuration"]["kernels"] == "optimized"
    assert set(data["memory"]["placements"]) == {"arena", "ext"}
    assert len(data["predictions"]) == 15
    assert data["host"] == {"runs": 4, "median_ms": 2, "fastest_ms": 1, "slowest_ms": 3}


def test_json_without_a_run_has_no_host_time(profile: ModelProfile) -> None:
    assert json.loads(to_json([profile]))["profiles"][0]["host"] is None


def test_csv_parses_back(profile: ModelProfile) -> None:
    odd = replace(profile, name='a "b",\nc')
    rows = list(csv.DictReader(io.StringIO(to_csv([odd, profile]), newline="")))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [int(row["ticks"]) for row in rows] == [*DIGITS_TICKS, *DIGITS_TICKS]
    assert {row["model"] for row in rows[:6]} == {'a "b",\nc'}
    assert [row["basis"] for row in rows[:2]] == ["fitted", "estimate"]


class _Page(html.parser.HTMLParser):
    """Elements, attributes and text of a page; every element must be closed."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_html_is_well_formed_and_loads_nothing(profile: ModelProfile) -> None:
    page = _Page(to_html([profile, profile]))
    assert not {tag for tag, _ in page.seen} & {"script", "link", "img", "iframe", "object"}
    assert not {name for _, attributes in page.seen for name in attributes} & {"src", "href", "onload"}
    assert "url(" not in to_html([profile])
    assert "@import" not in to_html([profile])


def test_html_has_a_bar_for_each_operator(profile: ModelProfile) -> None:
    bars = [attributes for tag, attributes in _Page(to_html([profile])).seen if tag == "rect"]
    assert len(bars) == 6
    widths = [float(bar["width"] or 0) for bar in bars]
    assert widths[0] == 480
    assert widths[2] == pytest.approx(480 * 7_105 / 11_696, abs=0.1)
    assert [bar["class"] for bar in bars] == [
        "fitted",
        "estimate",
        "fitted",
        "estimate",
        "fitted",
        "estimate",
    ]


def test_html_escapes_names() -> None:
    name = '<script>alert("1")</script>&'
    page = _Page(to_html([profile_model(networks.custom_operator_network(name), name="<b>x</b>")]))
    assert not {tag for tag, _ in page.seen} & {"script", "b"}
    assert name in page.text
    assert "<b>x</b>" in page.text


def test_html_charts_the_slowest_of_many_operators() -> None:
    page = _Page(to_html([profile_model(networks.adding_network(2, 40))]))
    assert len([tag for tag, _ in page.seen if tag == "rect"]) == 40
    many = replace(profile_model(DIGITS), times=profile_model(DIGITS).times * 20)
    assert len([tag for tag, _ in _Page(to_html([many])).seen if tag == "rect"]) == MAX_BARS


def test_html_of_a_model_that_takes_no_time(profile: ModelProfile) -> None:
    _Page(to_html([replace(profile, times=(), classes=())] * 2))


def test_html_keeps_host_time_apart(profile: ModelProfile) -> None:
    timed = replace(profile, host=HostTime(4, 0.002, 0.001, 0.003))
    assert "This host takes 2.000 ms" in to_html([timed])
    assert "This host" not in to_html([profile])


# Files of configurations.

HERE = Path("/models")

SUITE = """
models:
  - a.tflite
  - {path: b.tflite, name: B}
defaults: {clock: 800, arena: 1M}
configurations:
  - {name: slow, kernels: reference}
  - threads: 5
    clock: 700
    flash_rate: 50
    external: 8K
"""


def test_suite_is_read() -> None:
    suite = read_suite(SUITE, where="s.yaml", directory=HERE)
    assert [(model.path, model.name) for model in suite.models] == [
        (HERE / "a.tflite", "a.tflite"),
        (HERE / "b.tflite", "B"),
    ]
    assert suite.configurations == (
        Configuration(DeviceModel(800, kernels=Kernels.REFERENCE), 1024 * 1024, 16 * 1024 * 1024, "slow"),
        Configuration(DeviceModel(700, 5, 50_000_000), 1024 * 1024, 8192, "configuration 2"),
    )


def test_suite_may_leave_everything_out() -> None:
    suite = read_suite("{}", where="s.yaml", directory=HERE)
    assert (suite.models, suite.configurations) == ((), (Configuration(),))


def test_settings_change_what_they_have() -> None:
    base = Configuration(DeviceModel(800, 3), 1000, 2000, "base")
    assert Settings().over(base, "base") == base
    assert Settings(threads=2, flash_rate=1.0, external=7).over(base) == Configuration(
        DeviceModel(800, 2, 1e6), 1000, 7
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml: it is empty; it should list models or configurations"),
        ("- a", "s.yaml:1: the file must be a mapping, key: value"),
        ("models: {}", "s.yaml:1: models must be a list of 1 to 64"),
        ("models: []", "s.yaml:1: models must be a list of 1 to 64"),
        ("models: [" + "a," * 65 + "]", "s.yaml:1: models must be a list of 1 to 64"),
        ("\nmodel: [a]", 's.yaml:2: the file has no key "model": there are configurations, defaults, models'),
        ("models: [a]\nmodels: [b]", "s.yaml:2: the file has the key models twice"),
        ("models: [{name: a}]", "s.yaml:1: a model needs the key path"),
        ("models: [[a]]", "s.yaml:1: a model must be a mapping, key: value"),
        ("models: ['']", "s.yaml:1: a model must be a text"),
        ('models: ["a\\0b"]', "s.yaml:1: the path has a zero byte"),
        ("models:\n- path: [a]", "s.yaml:2: path must be a text"),
        ("defaults:\n  threads: 6", "s.yaml:2: threads '6': it must be 1 to 5"),
        ("defaults:\n  threads: 0", "s.yaml:2: threads '0': it must be 1 to 5"),
        ("defaults: {threads: two}", "s.yaml:1: threads 'two': it must be 1 to 5"),
        ("defaults: {threads: [1]}", "s.yaml:1: threads must be a text"),
        ("defaults: {clock: .nan}", "s.yaml:1: clock '.nan': it must be a number of MHz above 0"),
        ("defaults: {clock: nan}", "s.yaml:1: clock 'nan': it must be a number of MHz above 0"),
        ("defaults: {clock: -1}", "s.yaml:1: clock '-1': it must be a number of MHz above 0"),
        ("defaults: {clock: 1e999}", "s.yaml:1: clock '1e999': it must be a number of MHz above 0"),
        ("defaults: {kernels: fast}", "s.yaml:1: kernels 'fast': it must be optimized or reference"),
        ("defaults: {flash_rate: 0}", "s.yaml:1: flash_rate '0': it must be a number of MB/s above 0"),
        (
            "defaults: {arena: 1G}",
            "s.yaml:1: arena '1G': it must be a number of bytes, such as 458752, 448K or 16M",
        ),
        (
            "defaults: {external: 99999M}",
            "s.yaml:1: external '99999M': it must be a number of bytes, such as 458752, 448K or 16M",
        ),
        ("configurations:\n- {}\n- [1]", "s.yaml:3: a configuration must be a mapping, key: value"),
        ("configurations: [{speed: 1}]", 's.yaml:1: a configuration has no key "speed"'),
        ("models: &a [*a]", "s.yaml:1: a model must be a mapping, key: value"),
        ("a: b: c", "s.yaml:1: no YAML: mapping values are not allowed here"),
        ("models: [a", "s.yaml:1: no YAML: "),
        ("\x01", "s.yaml: no YAML: "),
        ("--- {}\n--- {}", "s.yaml:2: no YAML: "),
        ("models: " + "[" * 2_000, "s.yaml: it is nested too deeply"),
        ("#" * 65_537, "s.yaml: it has more than 65,536 bytes"),
        ("{? [a] : b}", 's.yaml:1: the file has no key ""'),
    ],
)
def test_suite_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as raised:
        read_suite(text, where="s.yaml", directory=HERE)
    assert str(raised.value).startswith(message)


def test_tags_construct_nothing(tmp_path: Path) -> None:
    witness = tmp_path / "made"
    text = f'models: [!!python/object/apply:os.mkdir ["{witness}"]]'
    with pytest.raises(ProfileError, match="a model must be a mapping"):
        read_suite(text, where="s.yaml", directory=HERE)
    assert not witness.exists()


def test_aliases_do_not_multiply() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    with pytest.raises(ProfileError, match='no key "a0"'):
        read_suite("\n".join(lines), where="s.yaml", directory=HERE)
