"""What engines say of a model: each runs it, or refuses it in its own words."""

from aisrv import digits
from aisrv.addons.predict.model_view.engines import answers_of
from tests.support.models import hostile_models


def test_engines_run_a_model_or_say_why_not() -> None:
    answers = answers_of(digits.model_bytes(), ["kernels", "relocatable", "no-engine", "kernels:nothing"])
    assert [answer.engine for answer in answers] == ["kernels", "relocatable", "no-engine", "kernels:nothing"]
    assert str(answers[0]) == "kernels: runs it"
    assert answers[1].refusal is not None
    assert "no relocatable image" in answers[1].refusal
    assert answers[2].refusal is not None
    assert "no kind 'no-engine'" in answers[2].refusal
    assert answers[3].refusal is not None


def test_what_is_no_model_is_refused_in_words() -> None:
    (answer,) = answers_of(b"nothing of the kind", ["kernels"])
    assert answer.refusal


def test_hostile_models_leave_words() -> None:
    for number in (1, 7, 12):
        (answer,) = answers_of(hostile_models.case(number).model, ["kernels"])
        assert answer.refusal is None or answer.refusal.isprintable()
