"""Profiles of models: values, reports that parse back, and what the library refuses."""

import csv
import html.parser
import io
import itertools
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.addons.predict.profile import (
    Configuration,
    HostTime,
    ModelProfile,
    Prediction,
    ProfileError,
    SuiteSettings,
    load_suite,
    measure_host,
    profile_model,
    read_suite,
)
from aisrv.addons.predict.profile.export import CSV_COLUMNS, to_csv, to_json
from aisrv.addons.predict.profile.host import describe_kernels
from aisrv.addons.predict.profile.html_report import MAX_BARS, to_html
from aisrv.inference.placement import arena_need
from aisrv.inference.timings import Basis, DeviceModel, FlashPath, Kernels
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from aisrv.protocol.memory_map import ModelMemory
from aisrv.values.printable import printable
from aisrv.values.settings.size import Size
from tests.support.amounts import amount, in_ci
from tests.support.models import native, networks

DIGITS = digits.model_bytes()
# By hand, in issue slots: 64 pixels of 9*4 products and a pad to 10x10; windows of 2x2; 16 pixels of 2 groups
# and 144 products and a pad to 6x6x16; a pixel of 128 products; 10 classes.
DIGITS_SLOTS = (
    405 + 80 + 64 * (87 + 26 + 6 * 8 + 2 * 2 + 142 + 22) + 120 + 128.88 * 8 + 0.1128 * 100,
    405 + 40 + 16 * (40 + 160 - 3 * 5 - 2),
    405 + 40 + 16 * (87 + 26 + 6 * 8 + 2 * 2 + 2 * (142 + 22 * 4)) + 120 + 128.88 * 4 + 0.1128 * 576,
    405 + 20 + 4 * (40 + 2 * (160 - 3 * 5 - 2)),
    415 + 87 + 3 * 3 + 142 + 22 * 3 - 2 * 6,
    1001 * 10,
)
DIGITS_TICKS = tuple(round(slots * 5 / 6) for slots in DIGITS_SLOTS)
FLASH_TICKS = (6 * 2272 + 142 * 6_264) / 6
"""Of six constants, through the flash server."""
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
        ("CONV_2D", 2, DIGITS_TICKS[0] + DIGITS_TICKS[2], False),
        ("SOFTMAX", 1, DIGITS_TICKS[5], False),
        ("MAX_POOL_2D", 2, DIGITS_TICKS[1] + DIGITS_TICKS[3], True),
        ("FULLY_CONNECTED", 1, DIGITS_TICKS[4], False),
    ]
    assert sum(each.share for each in profile.classes) == pytest.approx(1)


def test_share_of_estimates(profile: ModelProfile) -> None:
    assert profile.estimate_share == pytest.approx((DIGITS_TICKS[1] + DIGITS_TICKS[3]) / sum(DIGITS_TICKS))


def test_parameters_of_digits(profile: ModelProfile) -> None:
    assert profile.parameters == PARAMETERS


def test_predictions_are_of_all_threads_and_three_clocks(profile: ModelProfile) -> None:
    assert [(each.threads, each.clock_mhz) for each in profile.predictions] == [
        (threads, clock) for clock in (600, 700, 800) for threads in (1, 2, 3, 4, 5)
    ]
    estimates = sum(time.ticks for time in profile.times if time.basis is Basis.ESTIMATE)
    assert profile.predictions[0] == Prediction(1, 600, profile.total, profile.flash_total, estimates)
    at_800 = profile.predictions[10]
    assert at_800.ram.ticks == pytest.approx(profile.ticks * 600 / 800, abs=3)
    assert at_800.flash.ticks - at_800.ram.ticks == pytest.approx(FLASH_TICKS * 600 / 800, abs=1)


def test_fast_flash_shortens_predictions_from_flash_only(profile: ModelProfile) -> None:
    fast = profile_model(DIGITS, Configuration(DeviceModel(flash=FlashPath.FAST)))
    assert fast.predictions[0].ram == profile.predictions[0].ram
    assert fast.predictions[0].flash.ticks == fast.ticks + round(2.1 * PARAMETERS)


def test_time_from_flash_is_that_of_the_configuration() -> None:
    slow = profile_model(DIGITS)
    given = profile_model(DIGITS, Configuration(DeviceModel(flash=50_000_000)))
    assert slow.flash_ticks == slow.ticks + round(FLASH_TICKS)
    assert given.flash_ticks == given.ticks + 2 * PARAMETERS


def test_loads_of_a_model_are_not_counted_twice() -> None:
    assert profile_model(networks.custom_operator_network("XC_ld_weights")).flash_ticks == 34


def test_model_that_loads_its_parameters_is_predicted_with_and_without() -> None:
    # A load of 16 bytes, at 2.1 ticks.
    profile = profile_model(networks.custom_operator_network("XC_ld_weights"))
    assert profile.flash_loads.ticks == 34
    assert profile.flash_loads.low < 34 < profile.flash_loads.high
    assert (profile.predictions[0].ram.ticks, profile.predictions[0].flash.ticks) == (0, 34)


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
    # 82,944 multiply-accumulates of convolutions; 1,280 others, and 4 values for each output of the pools.
    slots = 119 * 82_944 + 130 * (1280 + 4 * (4 * 4 * 16 + 2 * 2 * 32)) + 1001 * 10
    assert slow.ticks == pytest.approx(slots * 5 / 6, abs=5)
    estimates = 130 * (1280 + 4 * (4 * 4 * 16 + 2 * 2 * 32))
    assert slow.estimate_share == pytest.approx(estimates / slots, rel=1e-4)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 511, 512, 513, 1024, len(DIGITS) - 4096])
def test_truncated_model_is_refused_by_name(length: int) -> None:
    with pytest.raises(ProfileError, match=r"^short\.tflite: "):
        profile_model(DIGITS[:length], name="short.tflite")


@pytest.mark.in_full
def test_damaged_models_give_a_profile_or_an_error() -> None:
    chance = random.Random(6)
    refused, tries = 0, amount(300, every_day=in_ci(40, every_day=15))
    for _ in range(tries):
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
    assert 0 < refused < tries


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
    assert printable(text, 100) == shown


# This host.


def test_host_time_is_measured() -> None:
    host = measure_host(DIGITS, 3)
    assert host.runs == 3
    assert 0 < host.fastest <= host.median <= host.slowest < 60


def asymmetric_network() -> bytes:
    """A fully connected layer whose weights have a zero point, between two RESHAPEs; then a LOGISTIC."""
    unit, scores = Quantization.per_tensor(1.0, 0), Quantization.per_tensor(1 / 256, -128)
    names = ("input", "flat", "sums", "result")
    tensors = [Tensor(name, (1, 4), TensorType.INT8, unit) for name in names]
    weights = constant_tensor("weights", np.eye(4, dtype=np.int8), Quantization.per_tensor(1.0, 3))
    operators = (
        NetworkOperator(BuiltinOperator.RESHAPE, ("input",), ("flat",)),
        NetworkOperator(BuiltinOperator.FULLY_CONNECTED, ("flat", "weights", ""), ("sums",)),
        NetworkOperator(BuiltinOperator.RESHAPE, ("sums",), ("result",)),
        NetworkOperator(BuiltinOperator.LOGISTIC, ("result",), ("scores",)),
    )
    tensors += [weights, Tensor("scores", (1, 4), TensorType.INT8, scores)]
    return bytes(Network(tuple(tensors), operators, ("input",), ("scores",)))


def test_operators_that_native_kernels_leave_to_others() -> None:
    native.library()
    assert describe_kernels(DIGITS) == "native: 6 of 6 operators"
    expected = "native: 2 of 4 operators; numpy: 1 FULLY_CONNECTED; network: 3 LOGISTIC"
    assert describe_kernels(asymmetric_network()) == expected


def test_operators_without_native_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisrv.addons.kernels.backends.registry.default_backend", lambda: "numpy")
    expected = "numpy: 1 of 4 operators; network: 0 RESHAPE, 2 RESHAPE, 3 LOGISTIC"
    assert describe_kernels(asymmetric_network()) == expected
    assert describe_kernels(networks.custom_operator_network()) is None


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
    assert data["host"] == {
        "runs": 4,
        "median_ms": 2,
        "fastest_ms": 1,
        "slowest_ms": 3,
        "kernels": None,
    }


def test_json_without_a_run_has_no_host_time(profile: ModelProfile) -> None:
    assert json.loads(to_json([profile]))["profiles"][0]["host"] is None


def test_csv_parses_back(profile: ModelProfile) -> None:
    odd = replace(profile, name='a "b",\nc')
    rows = list(csv.DictReader(io.StringIO(to_csv([odd, profile]), newline="")))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [int(row["ticks"]) for row in rows] == [*DIGITS_TICKS, *DIGITS_TICKS]
    assert {row["model"] for row in rows[:6]} == {'a "b",\nc'}
    assert [row["basis"] for row in rows[:3]] == ["measured", "estimate", "extrapolated"]
    assert [row["form"] for row in rows[:3]] == ["indirect", "depthwise", "indirect"]


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


def chart(page: _Page, label: str) -> list[dict[str, str | None]]:
    """Return the rectangles of the first picture with a label."""
    start = next(n for n, (_, attributes) in enumerate(page.seen) if attributes.get("aria-label") == label)
    inside = itertools.takewhile(lambda each: each[0] in ("rect", "text", "path"), page.seen[start + 1 :])
    return [attributes for tag, attributes in inside if tag == "rect"]


def test_html_has_a_bar_for_each_operator(profile: ModelProfile) -> None:
    bars = chart(_Page(to_html([profile])), "Times of the operators")
    assert len(bars) == 6
    widths = [float(bar["width"] or 0) for bar in bars]
    assert widths[0] == 240
    assert widths[2] == pytest.approx(240 * DIGITS_TICKS[2] / DIGITS_TICKS[0], abs=0.1)
    assert [bar["class"] for bar in bars] == [
        "fitted",
        "estimate",
        "fitted",
        "estimate",
        "fitted",
        "fitted",
    ]


def test_html_begins_with_the_verdict(profile: ModelProfile) -> None:
    text = to_html([profile])
    assert text.index('class="verdict fits"') < text.index("<h2>")
    free = next(each.free for each in profile.memory.placements if each.fits)
    assert f"Fits with its file in the arena; {free:,} bytes of arena remain." in text
    rates = [
        f"{1e8 / total.ticks:,.0f} ({1e8 / total.high:,.0f} to {1e8 / total.low:,.0f}) with {threads}"
        for threads, total in enumerate([each.ram for each in profile.predictions[:5]], 1)
    ]
    assert f"Inferences a second by threads, at 600 MHz: {', '.join(rates)}." in text
    assert text.index(f"One inference takes {profile.total}, parameters internal.") < text.index("<h2>")


def test_html_says_what_does_not_fit() -> None:
    small = profile_model(DIGITS, Configuration(arena_bytes=1024, external_bytes=1024))
    text = to_html([small])
    assert 'class="verdict fails"' in text
    assert "Does not fit: " in text


def test_html_has_a_bar_for_each_number_of_threads_with_its_estimates(profile: ModelProfile) -> None:
    bars = chart(_Page(to_html([profile])), "Times by threads")
    assert [bar["class"] for bar in bars] == ["fitted", "estimate"] * 5
    one = profile.predictions[0]
    assert float(bars[0]["width"] or 0) + float(bars[1]["width"] or 0) == pytest.approx(240, abs=0.1)
    assert float(bars[1]["width"] or 0) == pytest.approx(240 * one.estimate_ticks / one.ram.ticks, abs=0.1)


def test_html_draws_the_model_with_the_time_of_each_operator(profile: ModelProfile) -> None:
    nodes = chart(_Page(to_html([profile])), "The operators of the model with their times")
    assert [node["class"] for node in nodes] == ["node", "heat"] * 6
    shares = [float(node["width"] or 0) / 320 for node in nodes[1::2]]
    assert shares == pytest.approx([time.ticks / profile.ticks for time in profile.times], abs=0.001)


def test_html_has_the_picture_of_the_arena(profile: ModelProfile) -> None:
    text = to_html([profile])
    assert text.count('<svg class="arena"') == 1
    assert f"peak, {profile.memory.head:,} bytes" in text


def test_html_compares_two_profiles_by_their_differences(profile: ModelProfile) -> None:
    faster = profile_model(DIGITS, Configuration(DeviceModel(threads=5), name="five"))
    text = to_html([profile, faster])
    less = profile.ticks - faster.ticks
    row = text[text.index("<td>one inference</td>") :].partition("</tr>")[0]
    assert f"\N{MINUS SIGN}{less / 1e5:.3f}" in row
    assert f"\N{MINUS SIGN}{100 * less / profile.ticks:.1f} %" in row
    assert "<h3>Differences</h3>" not in to_html([profile])


def test_html_escapes_names() -> None:
    name = '<script>alert("1")</script>&'
    page = _Page(to_html([profile_model(networks.custom_operator_network(name), name="<b>x</b>")]))
    assert not {tag for tag, _ in page.seen} & {"script", "b"}
    assert name in page.text
    assert "<b>x</b>" in page.text


def test_html_charts_the_slowest_of_many_operators() -> None:
    page = _Page(to_html([profile_model(networks.adding_network(2, 40))]))
    assert len(chart(page, "Times of the operators")) == 40
    many = replace(profile_model(DIGITS), times=profile_model(DIGITS).times * 20)
    assert len(chart(_Page(to_html([many])), "Times of the operators")) == MAX_BARS


def test_html_of_a_model_that_takes_no_time(profile: ModelProfile) -> None:
    _Page(to_html([replace(profile, times=(), classes=())] * 2))


def test_html_keeps_host_time_apart(profile: ModelProfile) -> None:
    timed = replace(profile, host=HostTime(4, 0.002, 0.001, 0.003))
    assert "This host takes 2.000 ms" in to_html([timed])
    assert "This host" not in to_html([profile])


# Files of configurations.

HERE = Path("/models")

SUITE = """
models = ["a.tflite", { path = "b.tflite", name = "B" }]

[defaults]
clock = 800
arena = "1M"

[[configurations]]
name = "slow"
kernels = "reference"

[[configurations]]
threads = 5
clock = 700
flash_rate = 50
external = "8K"
"""


def test_suite_is_read() -> None:
    suite = read_suite(SUITE, where="s.toml", directory=HERE)
    assert [(model.path, model.name) for model in suite.models] == [
        (HERE / "a.tflite", "a.tflite"),
        (HERE / "b.tflite", "B"),
    ]
    assert suite.configurations == (
        Configuration(DeviceModel(800, kernels=Kernels.REFERENCE), 1024 * 1024, 16 * 1024 * 1024, "slow"),
        Configuration(DeviceModel(700, 5, 50_000_000.0), 1024 * 1024, 8192, "configuration 2"),
    )


def test_suite_may_leave_everything_out() -> None:
    suite = read_suite("", where="s.toml", directory=HERE)
    assert (suite.models, suite.configurations) == ((), (Configuration(),))


def test_settings_change_what_they_have() -> None:
    base = Configuration(DeviceModel(800, 3), 1000, 2000, "base")
    assert SuiteSettings().over(base, "base") == base
    assert SuiteSettings(threads=2, flash_rate=1.0, external=Size(7)).over(base) == Configuration(
        DeviceModel(800, 2, 1e6), 1000, 7
    )


POSITIVE = "must be a number above 0, at most 1000000"
A_MODEL = "must be the path of a model in quotes or a table with path, name"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = 1", "1: models: must be an array of 1 to 64 texts or tables, not 1"),
        ("models = []", "1: models: must be an array of 1 to 64 texts or tables, not []"),
        (
            "models = [" + "'a'," * 65 + "]",
            "1: models: must be an array of 1 to 64 texts or tables, not ['a', 'a', 'a', 'a', 'a', 'a', ",
        ),
        ("\nmodel = ['a']", "2: model: 'model' is not known here; did you mean models?"),
        ("models = ['a']\nmodels = ['b']", "2: Cannot overwrite a value"),
        ("models = [{name = 'a'}]", "1: models[0]: the key path is missing"),
        ("models = [['a']]", f"1: models[0]: {A_MODEL}, not ['a']"),
        ("models = ['']", f"1: models[0]: {A_MODEL}, not ''"),
        ('models = ["a\\u0000b"]', f"1: models[0]: {A_MODEL}, not 'a\\x00b'"),
        (
            "models = [\n{path = ['a']}]",
            "2: models[0].path: must be the path of a model in quotes, not ['a']",
        ),
        ("[defaults]\nthreads = 6", "2: defaults.threads: must be a whole number from 1 to 5, not 6"),
        ("[defaults]\nthreads = 0", "2: defaults.threads: must be a whole number from 1 to 5, not 0"),
        ("[defaults]\nthreads = 'two'", "2: defaults.threads: must be a whole number from 1 to 5, not 'two'"),
        ("[defaults]\nthread = 1", "2: defaults.thread: 'thread' is not known here; did you mean threads?"),
        (
            "[defaults]\nclock = nan",
            "2: defaults.clock: must be a finite number above 0, at most 1000000, not nan",
        ),
        ("[defaults]\nclock = 'x'", f"2: defaults.clock: {POSITIVE}, not 'x'"),
        ("[defaults]\nclock = -1", f"2: defaults.clock: {POSITIVE}, not -1"),
        ("[defaults]\nclock = 1000001", f"2: defaults.clock: {POSITIVE}, not 1000001"),
        ("[defaults]\nflash_rate = 0", f"2: defaults.flash_rate: {POSITIVE}, not 0"),
        (
            "[defaults]\nkernels = 'fast'",
            "2: defaults.kernels: 'fast' is not known here; known are optimized, reference",
        ),
        (
            "[defaults]\narena = '1T'",
            "2: defaults.arena: '1T' is not a size; write bytes as 4096 or 0x1000, or 4K, 4M or 512 KiB",
        ),
        (
            "[[configurations]]\nexternal = '2G'",
            "2: configurations[0].external: 2147483648 bytes; the most is 2147483647",
        ),
        (
            "[defaults]\narena = 2147483648",
            "2: defaults.arena: 2147483648 bytes; the most is 2147483647",
        ),
        (
            "[defaults]\narena = '2000000M'",
            "2: defaults.arena: must be a size, such as 4096, 448K or 16M, not '2000000M'",
        ),
        (
            "configurations = [{},\n[1]]",
            "2: configurations[1]: must be a table with threads, clock, reference, kernels, generation, ",
        ),
        (
            "configurations = 1",
            "1: configurations: must be an array of 1 to 64 tables, not 1; write [[config",
        ),
        (
            "[[configurations]]\n" * 65,
            "1: configurations: must be an array of 1 to 64 tables, not [{}, ",
        ),
        (
            "[[configurations]]\n[[configurations]]\nspeed = 1",
            "3: configurations[1].speed: 'speed' is not known here; known are threads, clock, reference, ",
        ),
        ("[[configurations]]\nname = ''", "2: configurations[0].name: must be a text in quotes, not ''"),
        ("models = ['a'", "1: Unclosed array"),
        ("\x01", "1: Invalid statement"),
    ],
)
def test_suite_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as raised:
        read_suite(text, where="s.toml", directory=HERE)
    assert str(raised.value).startswith(f"s.toml:{message}")


def test_a_name_is_shown_without_control_characters() -> None:
    (shown,) = read_suite(
        '[[configurations]]\nname = "a\\u001b"', where="s.toml", directory=HERE
    ).configurations
    assert shown.name == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("name", ["suite.yaml", "suite.YML"])
def test_a_yaml_file_is_told_the_toml_form(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("models: [a.tflite]\n")
    with pytest.raises(ProfileError) as raised:
        load_suite(path)
    assert str(raised.value) == (
        f"{path}: a suite is a TOML file, not YAML: models = [...], a table [defaults], and "
        "[[configurations]] above each configuration, with key = value"
    )


def test_a_suite_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "suite.toml")
    with pytest.raises(ProfileError, match="not a regular file"):
        load_suite(tmp_path / "suite.toml")
