"""The Model Runner with an engine that follows a script, on virtual time."""

import struct

import pytest

from aisrv.addons.jacdac.task.engine_jobs import LoadJob, LoadResult, ModelState, RunJob, RunResult
from aisrv.addons.jacdac.wire.frame import ServicePacket
from tests.support.benches.jacdac_core import AGGREGATOR, CLIENT, EMPTY, RUNNER, ScriptedCore, floats, state

ACCELEROMETER = 0x1F140409
SENSOR = 0x5E5E5E5E


def test_registers_without_a_model() -> None:
    core = ScriptedCore()
    assert core.error() == "no model"
    for register in (0x101, 0x180, 0x181):
        assert core.get(RUNNER, register) == b""
    for register in (0x182, 0x183, 0x184):
        assert core.get(RUNNER, register) == bytes(4)
    assert core.get(RUNNER, 0x186) == b"TFL3"
    assert core.get(RUNNER, 0x187) == b"\3\0\0\0"
    assert core.get(RUNNER, 0x188) == b"\0"


def test_registers_of_a_model() -> None:
    core = ScriptedCore(state(4, 2))
    assert core.error() == ""
    assert core.get(RUNNER, 0x180) == struct.pack("<2H", 1, 4)
    assert core.get(RUNNER, 0x181) == struct.pack("<2H", 1, 2)
    assert core.get(RUNNER, 0x183) == struct.pack("<I", 500)
    assert core.get(RUNNER, 0x184) == struct.pack("<I", 1000)


# set_model.


def test_upload_replaces_the_model() -> None:
    core = ScriptedCore(state())
    model = bytes(range(256)) * 2
    assert core.upload(model) != 0
    assert core.engine.load(LoadResult(state(8, 3, size=512))) == model
    assert core.get(RUNNER, 0x184) == struct.pack("<I", 512)
    assert core.get(RUNNER, 0x180) == struct.pack("<2H", 1, 8)
    assert core.error() == ""


def test_old_model_serves_until_the_pipe_is_closed() -> None:
    core = ScriptedCore(state())
    port = core.open(0x80, struct.pack("<I", 8))
    core.pipe(port, bytes(8))
    assert core.get(RUNNER, 0x184) == struct.pack("<I", 1000)
    assert core.engine.jobs == []
    core.pipe(port, flags=0x20)
    assert len(core.engine.jobs) == 1


@pytest.mark.parametrize(("flags", "data"), [(0x20, b""), (0x20, b"5678"), (0x60, b"meta")])
def test_ways_to_close(flags: int, data: bytes) -> None:
    core = ScriptedCore()
    counts = flags == 0x20
    port = core.open(0x80, struct.pack("<I", 8 if data and counts else 4))
    core.pipe(port, b"1234")
    core.pipe(port, data, flags=flags)
    assert core.engine.load(LoadResult(state())) == b"1234" + (data if counts else b"")


@pytest.mark.parametrize("size", [0, 100_001, 0xFFFFFFFF])
def test_size_that_is_refused(size: int) -> None:
    core = ScriptedCore(state())
    assert core.open(0x80, struct.pack("<I", size)) == 0
    assert str(size) in core.error()
    assert core.get(RUNNER, 0x184) == struct.pack("<I", 1000)


def test_short_argument_is_extended() -> None:
    core = ScriptedCore()
    port = core.open(0x80, b"\4\0")
    core.pipe(port, b"1234", flags=0x20)
    assert core.engine.load(LoadResult(state())) == b"1234"


@pytest.mark.parametrize(("sent", "size"), [(3, 8), (0, 8), (9, 8), (300, 8)])
def test_wrong_byte_count_leaves_no_model(sent: int, size: int) -> None:
    core = ScriptedCore(state())
    core.upload(bytes(sent), size)
    assert core.engine.load(LoadResult(EMPTY, "the file is empty")) == b""
    assert core.error() == f"set_model: {sent} bytes came of a model of {size}"
    assert core.get(RUNNER, 0x184) == bytes(4)


def test_silent_upload_keeps_the_old_model() -> None:
    core = ScriptedCore(state())
    port = core.open(0x80, struct.pack("<I", 8))
    core.at(3000)
    core.pipe(port, b"1234")
    core.at(7999)
    assert core.error() == ""
    core.at(8000)
    assert core.error() == "set_model: nothing came for 5 s after 4 of 8 bytes"
    core.pipe(port, b"5678", flags=0x20)
    assert core.engine.jobs == []
    assert core.get(RUNNER, 0x184) == struct.pack("<I", 1000)


def test_second_set_model_ends_the_first() -> None:
    core = ScriptedCore()
    first = core.open(0x80, struct.pack("<I", 4))
    core.pipe(first, b"1111")
    second = core.open(0x80, struct.pack("<I", 4))
    assert second not in (0, first)
    core.pipe(first, flags=0x20)
    assert core.engine.jobs == []
    core.pipe(second, b"2222", flags=0x20)
    assert core.engine.load(LoadResult(state())) == b"2222"


def test_set_model_during_a_load_is_refused() -> None:
    core = ScriptedCore()
    core.upload(b"1234")
    assert core.open(0x80, struct.pack("<I", 4)) == 0


def test_repeated_and_wrong_counters_are_acknowledged_and_dropped() -> None:
    core = ScriptedCore()
    port = core.open(0x80, struct.pack("<I", 8))
    core.sent.clear()
    core.pipe(port, b"1234", counter=0)
    core.pipe(port, b"1234", counter=0)
    core.pipe(port, b"9999", counter=5)
    core.pipe(port, b"5678", counter=1)
    core.pipe(port, flags=0x20, counter=2)
    core.pipe(port, b"late", counter=3)
    core.pipe(511, b"nobody", counter=0)
    assert len(core.sent) - len(core.take()) == 7
    assert core.engine.load(LoadResult(state())) == b"12345678"


def test_counter_wraps() -> None:
    core = ScriptedCore()
    model = bytes(range(256)) * 40
    core.upload(model)
    assert core.engine.load(LoadResult(state())) == model


def test_model_that_does_not_load() -> None:
    core = ScriptedCore(state())
    core.upload(b"12345678")
    core.engine.load(LoadResult(EMPTY, "no TFL3"))
    assert core.error() == "no TFL3"
    assert core.get(RUNNER, 0x184) == bytes(4)


def test_gets_wait_for_a_load_that_is_quick() -> None:
    core = ScriptedCore(state())
    core.upload(b"1234")
    assert core.command(RUNNER, 0x1184) == []
    core.engine.load(LoadResult(state(size=4)))
    reports = core.reports(core.take(), 0x1184)
    assert reports == [struct.pack("<I", 4)] * 2  # the answer, and the report of the change


def test_gets_answer_as_it_stands_after_100_ms() -> None:
    core = ScriptedCore(state())
    core.upload(b"1234")
    assert core.command(RUNNER, 0x1184) == []
    assert core.command(RUNNER, 0x1185) == []
    core.at(99)
    assert [f for f in core.take() if f.packets[0].command < 0x8000] == []
    core.at(100)
    frames = core.take()
    assert core.reports(frames, 0x1184) == [bytes(4)]
    assert core.reports(frames, 0x1185) == [b"loading"]


def test_announces_continue_during_a_load_that_hangs() -> None:
    core = ScriptedCore(state())
    core.upload(b"1234")
    core.sent.clear()
    core.at(60_000)
    assert sum(f.packets[0][:2] == (0, 0) for f in core.sent) == 120


def test_model_of_another_client_shows_at_once() -> None:
    core = ScriptedCore()
    core.take()
    core.runner.model_changed(state(8, 3, size=77))
    frames = core.take()
    assert core.reports(frames, 0x1184) == [struct.pack("<I", 77)]
    assert core.reports(frames, 0x1180) == [struct.pack("<2H", 1, 8)]
    assert core.reports(frames, 0x1185) == [b""]


def test_reset_after_set_model_is_an_option() -> None:
    core = ScriptedCore(resets=True)
    core.at(3000)
    core.upload(b"1234")
    core.engine.load(LoadResult(state()))
    core.sent.clear()
    core.at(3500)
    (announce,) = [f for f in core.sent if f.packets[0][:2] == (0, 0)]
    assert announce.packets[0].payload[0] == 1


def test_status_code_during_a_load() -> None:
    core = ScriptedCore()
    core.upload(b"1234")
    assert core.get(RUNNER, 0x103) == b"\1\0\0\0"
    core.engine.load(LoadResult(state()))
    assert core.get(RUNNER, 0x103) == bytes(4)


# predict.


def test_predict_runs_for_each_input_however_it_is_split() -> None:
    core = ScriptedCore(state(4, 2))
    port = core.predict()
    data = floats(*range(8))
    for piece in (data[:3], data[3:17], data[17:]):
        core.pipe(port, piece)
    core.pipe(port, flags=0x20)
    assert core.engine.run(RunResult(floats(1, 2), 7)) == floats(0, 1, 2, 3)
    assert core.engine.run(RunResult(floats(3, 4), 9)) == floats(4, 5, 6, 7)
    core.acknowledge()
    assert [p.payload for p in core.pipe_packets] == [floats(1, 2), floats(3, 4), b""]
    assert [p.command for p in core.pipe_packets] == [5 << 7, 5 << 7 | 1, 5 << 7 | 0x20 | 2]
    assert core.get(RUNNER, 0x101) == floats(3, 4)
    assert core.get(RUNNER, 0x182) == struct.pack("<I", 9)


def test_large_result_takes_several_packets_full_but_the_last() -> None:
    core = ScriptedCore(state(1, 130))
    port = core.predict()
    core.pipe(port, floats(0), flags=0x20)
    core.engine.run(RunResult(floats(*range(130))))
    core.acknowledge()
    assert [len(p.payload) for p in core.pipe_packets] == [224, 224, 72, 0]
    assert core.get(RUNNER, 0x101) == floats(*range(58))


def test_partial_tensor_is_dropped() -> None:
    core = ScriptedCore(state(4, 2))
    port = core.predict()
    core.pipe(port, bytes(7), flags=0x20)
    core.acknowledge()
    assert core.engine.jobs == []
    assert [p.command & 0x20 for p in core.pipe_packets] == [0x20]
    assert core.error() == "predict: 7 bytes of an input of 16 were left over"


@pytest.mark.parametrize("argument", [b"", bytes(11), bytes(13)])
def test_cut_pipe_argument_is_refused(argument: bytes) -> None:
    core = ScriptedCore(state())
    assert core.open(0x81, argument) == 0
    assert core.error() == f"predict: a pipe has 12 bytes, not {len(argument)}"


@pytest.mark.parametrize("port", [0, 512, 0xFFFF])
def test_port_that_cannot_be(port: int) -> None:
    core = ScriptedCore(state())
    assert core.predict(port) == 0


def test_predict_without_a_model_is_refused() -> None:
    core = ScriptedCore()
    assert core.predict() == 0
    assert core.error() == "predict: no model"


def test_failed_run_closes_the_pipe() -> None:
    core = ScriptedCore(state(1, 1))
    port = core.predict()
    core.pipe(port, floats(1, 2))
    core.engine.run(RunResult(error="it exploded"))
    core.acknowledge()
    assert [p.command & 0x20 for p in core.pipe_packets] == [0x20]
    assert core.engine.run(RunResult(floats(0))) is None
    assert core.error() == "it exploded"


def test_new_model_closes_the_pipe() -> None:
    core = ScriptedCore(state(1, 1))
    port = core.predict()
    core.pipe(port, floats(1))
    core.runner.model_changed(state(2, 1))
    core.acknowledge()
    assert [p.command & 0x20 for p in core.pipe_packets] == [0x20]
    assert core.engine.run(RunResult(floats(0))) is None


def test_at_most_eight_predicts() -> None:
    core = ScriptedCore(state())
    assert all(core.predict(target) for target in range(1, 9))
    assert core.predict(9) == 0


def test_predict_dies_with_its_owner() -> None:
    core = ScriptedCore(state())
    for target in range(1, 9):
        core.predict(target)
    core.announce(CLIENT, restart=5)
    core.announce(CLIENT, restart=1)
    assert core.predict(9) != 0
    core.at(2001)
    assert all(core.predict(target) for target in range(1, 9))


def test_predict_of_a_silent_owner_dies_after_a_minute() -> None:
    core = ScriptedCore(state())
    for target in range(1, 9):
        core.predict(target)
    core.at(59_999)
    assert core.predict(9) == 0
    core.at(60_000)
    assert core.predict(9) != 0


def test_predicts_end_when_their_sender_leaves_the_bus() -> None:
    core = ScriptedCore(state())
    core.sender = here = object()
    for target in range(1, 8):
        core.predict(target)
    core.sender = there = object()
    core.predict(8)
    assert core.predict(9) == 0
    core.device.sender_left(object())
    assert core.predict(9) == 0
    core.device.sender_left(here)
    assert all(core.predict(target) for target in range(1, 8))
    assert core.predict(9) == 0
    core.device.sender_left(there)
    assert core.predict(9) != 0
    assert core.get(RUNNER, 0x185) == b"predict: 8 are open already"


def test_upload_ends_when_its_sender_leaves_the_bus() -> None:
    core = ScriptedCore()
    core.sender = here = object()
    port = core.open(0x80, struct.pack("<I", 100))
    core.pipe(port, bytes(60))
    core.device.sender_left(object())
    assert core.get(RUNNER, 0x185) == b"no model"
    core.device.sender_left(here)
    assert core.get(RUNNER, 0x185) == b"set_model: its host has left after 60 of 100 bytes"
    core.pipe(port, bytes(40), flags=0x20)
    core.at(10_000)
    assert not core.engine.jobs


def test_what_is_over_is_not_given_back_again() -> None:
    core = ScriptedCore(state(1, 1))
    core.sender = here = object()
    port = core.predict()
    core.pipe(port, floats(1), flags=0x20)
    core.engine.run(RunResult(floats(2)))
    core.acknowledge()
    core.device.sender_left(here)
    assert core.piped == floats(2)


def test_unacknowledged_result_is_sent_four_times() -> None:
    core = ScriptedCore(state(1, 1))
    port = core.predict()
    core.pipe(port, floats(1))
    core.engine.run(RunResult(floats(2)))
    times = [0]
    for ms in range(1, 500):
        core.sent.clear()
        core.at(ms)
        times += [ms for f in core.sent if f.is_command]
    assert times == [0, 40, 140, 240]
    core.pipe(port, floats(1))
    assert core.engine.jobs == []


def test_inputs_that_pile_up_end_the_predict() -> None:
    core = ScriptedCore(state(1, 1))
    port = core.predict()
    for _ in range(3):
        core.pipe(port, bytes(4 * 30))
    assert len(core.engine.jobs) == 64
    assert "more than 64 inputs" in core.error()


def test_model_with_two_inputs_does_not_run_here() -> None:
    one = state(4, 2)
    tensors = type(one.tensors)(one.tensors.inputs * 2, one.tensors.outputs)
    core = ScriptedCore(ModelState(10, 10, 100, tensors))
    assert core.get(RUNNER, 0x180) == struct.pack("<2H", 1, 4)
    assert core.error() == "the model has 2 inputs and 1 outputs: only models with one of each run here"
    assert core.predict() == 0


# auto_invoke_every, with samples of three floats.


def aggregated(core: ScriptedCore, interval: int = 20) -> None:
    core.announce(SENSOR, ACCELEROMETER)
    entry = struct.pack("<QIBBBb", 0, ACCELEROMETER, 0, 12, 0xA0, 20)
    core.set(AGGREGATOR, 0x080, struct.pack("<HHI", interval, 2, 0) + entry)


def reading(core: ScriptedCore, ms: float, x: float) -> None:
    from aisrv.addons.jacdac.wire.frame import report_frame

    core.at(ms)
    if not int(ms) % 500:
        core.announce(SENSOR, ACCELEROMETER)
    payload = struct.pack("<3i", int(x * (1 << 20)), 0, 0)
    core.device.receive(report_frame(SENSOR, ServicePacket(1, 0x1101, payload)))


def test_runs_after_each_n_samples_oldest_first() -> None:
    core = ScriptedCore(state(6, 1))
    aggregated(core)
    core.set(RUNNER, 0x080, b"\2\0")
    for number in range(6):
        reading(core, 20 * number, number)
    assert core.engine.run(RunResult(floats(9))) == floats(1, 0, 0, 2, 0, 0)
    frames = core.take()
    assert core.reports(frames, 0x1101) == [floats(9)]
    # The fourth sample came while the first run was in flight; the fifth was there by its end.
    assert core.engine.run(RunResult(floats(8))) == floats(4, 0, 0, 5, 0, 0)


def test_remainder_is_an_error_of_auto_invoke_alone() -> None:
    core = ScriptedCore(state(4, 1))
    aggregated(core)
    core.set(RUNNER, 0x080, b"\1\0")
    assert core.error() == "auto_invoke_every: 4 input elements are not a multiple of 3 a sample"
    for number in range(4):
        reading(core, 20 * number, number)
    assert core.engine.jobs == []
    assert core.predict() != 0


def test_no_inputs_is_an_error_once_runs_are_asked_for() -> None:
    core = ScriptedCore(state(6, 1))
    assert core.error() == ""
    core.set(RUNNER, 0x080, b"\1")
    assert core.error() == "auto_invoke_every: the Sensor Aggregator has no inputs"


def test_failed_run_stops_until_something_is_set() -> None:
    core = ScriptedCore(state(3, 1))
    aggregated(core)
    core.set(RUNNER, 0x080, b"\1")
    reading(core, 0, 0)
    reading(core, 20, 1)
    core.engine.run(RunResult(error="bad"))
    reading(core, 40, 2)
    assert core.engine.jobs == []
    core.set(RUNNER, 0x080, b"\1")
    assert core.engine.run(RunResult(floats(1))) == floats(2, 0, 0)


def test_reset_forgets_auto_invoke_and_loads_from_flash() -> None:
    core = ScriptedCore(state())
    core.set(RUNNER, 0x080, b"\1")
    core.command(0, 0x82)
    assert core.get(RUNNER, 0x080) == bytes(2)
    assert not isinstance(core.engine.jobs[0], LoadJob | RunJob)
    assert core.engine.load(LoadResult(state(size=5))) is None
    assert core.get(RUNNER, 0x184) == struct.pack("<I", 5)
