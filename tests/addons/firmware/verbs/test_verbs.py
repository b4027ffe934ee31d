"""The table of verbs is whole."""

from aisrv.addons.firmware.records import Verb
from aisrv.addons.firmware.verbs import VERBS


def test_every_verb_has_a_handler_but_those_that_are_no_requests() -> None:
    assert set(Verb) - set(VERBS) == {Verb.RETURN, Verb.WHERE}
