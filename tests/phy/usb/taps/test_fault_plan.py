"""Faults as values: their text form, and at which transfers a plan has them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phy.usb.taps.fault_plan import MOST_FAULTS, TIMED, Chance, Fault, FaultError, FaultKind, FaultPlan, Nth

IN, OUT = 0x81, 0x01


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("stall:in:3", Fault(FaultKind.STALL, IN, Nth(3))),
        ("stall:control:1", Fault(FaultKind.STALL, 0, Nth(1))),
        ("nak:out:2:1.5s", Fault(FaultKind.NAK, OUT, Nth(2), seconds=1.5)),
        ("delay:in:p=1:20ms", Fault(FaultKind.DELAY, IN, Chance(1), seconds=0.02)),
        ("delay:0x82:1:500us", Fault(FaultKind.DELAY, 0x82, Nth(1), seconds=0.0005)),
        ("drop:out:p=0.01,seed=7", Fault(FaultKind.DROP, OUT, Chance(0.01, 7))),
        ("truncate:in:p=0:0", Fault(FaultKind.TRUNCATE, IN, Chance(0), length=0)),
        ("disconnect:in:10", Fault(FaultKind.DISCONNECT, IN, Nth(10))),
    ],
)
def test_text_is_read(text: str, fault: Fault) -> None:
    assert Fault.parse(text) == fault


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "write KIND:WHERE:WHEN or KIND:WHERE:WHEN:ARGUMENT, as in stall:in:3"),
        ("stall:in", "write KIND:WHERE:WHEN or KIND:WHERE:WHEN:ARGUMENT, as in stall:in:3"),
        ("nak:in:1:1s:", "write KIND:WHERE:WHEN or KIND:WHERE:WHEN:ARGUMENT, as in stall:in:3"),
        ("break:in:1", "'break' is not one of stall, nak, drop, delay, truncate, disconnect"),
        ("stall:up:1", "'up' is not a place; write in, out, control, or an endpoint's address such as 0x81"),
        ("stall:0x80:1", "0x80 is not the address of an endpoint"),
        ("stall:0x71:1", "0x71 is not the address of an endpoint"),
        ("stall:in:0", "transfer 0 does not exist: they count from 1"),
        ("stall:in:-1", "'-1' is not the number of a transfer, nor p=PROBABILITY"),
        ("stall:in:" + "9" * 5000, "9' is not the number of a transfer, nor p=PROBABILITY"),
        ("stall:in:p=", "'p=' is not a probability; write it as p=0.01"),
        ("stall:in:p=1.5", "a probability is between 0 and 1, not 1.5"),
        ("stall:in:p=nan", "a probability is between 0 and 1, not nan"),
        ("stall:in:p=1,7", "'7' after the probability; write seed=NUMBER there, as in p=0.01,seed=7"),
        ("stall:in:p=1,seed=x", "'x' is not a seed"),
        ("stall:in:1:5", "stall takes no argument, '5' is too much"),
        ("nak:in:1", "nak needs a time"),
        ("nak:in:1:5", "'5' is not a time; write it as 1.5s, 20ms or 500us"),
        ("nak:in:1:1.2.3s", "'1.2.3s' is not a time; write it as 1.5s, 20ms or 500us"),
        ("delay:in:1:-1s", "'-1s' is not a time; write it as 1.5s, 20ms or 500us"),
        ("delay:in:1:1e999s", "delay lasts 0 to 86400 seconds, not inf"),
        ("truncate:in:1", "truncate needs a number of bytes"),
        ("truncate:in:1:x", "'x' is not a number of bytes"),
    ],
)
def test_bad_text_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(FaultError) as caught:
        Fault.parse(text)
    assert str(caught.value).endswith(reason)
    assert str(caught.value).startswith(f"fault {text!r}: ")


@pytest.mark.parametrize(
    ("kind", "seconds", "length", "reason"),
    [
        (FaultKind.STALL, 1.0, None, "stall takes no time"),
        (FaultKind.DROP, None, 1, "drop takes no number of bytes"),
        (FaultKind.TRUNCATE, None, -1, "truncate leaves 0 bytes or more, not -1"),
        (FaultKind.NAK, float("nan"), None, "nak lasts 0 to 86400 seconds, not nan"),
    ],
)
def test_fault_that_cannot_be_is_refused(
    kind: FaultKind, seconds: float | None, length: int | None, reason: str
) -> None:
    with pytest.raises(FaultError, match=reason):
        Fault(kind, IN, Nth(1), seconds, length)


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    kind = draw(st.sampled_from(FaultKind))
    endpoint = draw(st.integers(0, 0x0F)) | draw(st.sampled_from((0, 0x80)))
    seeds = st.none() | st.integers(0, 10**18 - 1)
    when = draw(st.builds(Nth, st.integers(1, 10**18 - 1)) | st.builds(Chance, st.floats(0, 1), seeds))
    seconds = draw(st.floats(0, 86400)) if kind in TIMED else None
    length = draw(st.integers(0, 10**18 - 1)) if kind is FaultKind.TRUNCATE else None
    return Fault(kind, 0 if endpoint == 0x80 else endpoint, when, seconds, length)


@given(faults())
def test_text_of_a_fault_reads_back(fault: Fault) -> None:
    assert Fault.parse(str(fault)) == fault


@given(st.text(st.characters(codec="utf-8"), max_size=40) | st.from_regex(r"\w+:\w+:[\w=.,]+(:[\w.]+)?"))
def test_any_text_is_a_fault_or_refused(text: str) -> None:
    with suppress(FaultError):
        assert Fault.parse(str(Fault.parse(text))) == Fault.parse(text)


def fired(plan: FaultPlan, count: int, endpoint: int = IN) -> list[int]:
    return [number for number in range(1, count + 1) if plan.next(endpoint) is not None]


def test_nth_transfer_of_its_endpoint_has_the_fault() -> None:
    fault = Fault(FaultKind.STALL, IN, Nth(3))
    plan = FaultPlan([fault])
    assert [plan.next(endpoint) for endpoint in (IN, OUT, 0, IN, OUT, IN, IN)] == [
        None, None, None, None, None, fault, None,
    ]  # fmt: skip


def test_first_of_two_faults_wins_and_both_count() -> None:
    first, second = Fault(FaultKind.STALL, IN, Nth(2)), Fault(FaultKind.DROP, IN, Chance(1))
    plan = FaultPlan([first, second])
    assert [plan.next(IN) for _ in range(3)] == [second, first, second]


def test_same_seed_gives_the_same_faults() -> None:
    plans = [FaultPlan([Fault(FaultKind.DROP, IN, Chance(0.1))], seed) for seed in (5, 5, 6)]
    one, again, other = (fired(plan, 500) for plan in plans)
    assert one == again != other
    assert 25 < len(one) < 85


def test_seed_of_a_fault_goes_before_the_seed_of_the_plan() -> None:
    fault = Fault(FaultKind.DROP, IN, Chance(0.1, seed=7))
    assert fired(FaultPlan([fault], 1), 500) == fired(FaultPlan([fault], 2), 500)


def test_faults_of_one_plan_draw_apart() -> None:
    plan = FaultPlan([Fault(FaultKind.DROP, endpoint, Chance(0.1)) for endpoint in (IN, OUT)])
    assert fired(plan, 500, IN) != fired(plan, 500, OUT)


@pytest.mark.parametrize(("probability", "count"), [(0.0, 0), (1.0, 100)])
def test_probabilities_at_the_ends(probability: float, count: int) -> None:
    assert len(fired(FaultPlan([Fault(FaultKind.DROP, IN, Chance(probability))]), 100)) == count


def test_a_fault_that_is_added_counts_from_then_on() -> None:
    plan = FaultPlan([])
    assert fired(plan, 5) == []
    plan.add(Fault(FaultKind.STALL, IN, Nth(2)))
    assert fired(plan, 5) == [2]


def test_faults_that_may_still_come() -> None:
    once, often = Fault(FaultKind.STALL, IN, Nth(1)), Fault(FaultKind.DROP, OUT, Chance(1))
    plan = FaultPlan([once])
    plan.add(often)
    assert plan.faults == [once, often]
    assert plan.endpoints == {IN, OUT}
    assert plan.next(IN) == once
    assert plan.faults == [often]
    plan.clear()
    assert plan.faults == []
    assert plan.next(OUT) is None


def test_no_more_faults_wait_than_a_plan_may_have() -> None:
    plan, fault = FaultPlan([]), Fault(FaultKind.STALL, IN, Nth(1))
    for _ in range(MOST_FAULTS):
        plan.add(fault)
    with pytest.raises(FaultError, match="64 faults wait already"):
        plan.add(fault)
    assert plan.next(IN) == fault
    plan.add(fault)
    assert len(plan.faults) == 1
