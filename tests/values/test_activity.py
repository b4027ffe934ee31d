"""What a part does, told to observers."""

import pytest

from aisrv.values.activity import Activity


class Notes:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def began(self, name: str, size: int) -> None:
        self.told.append((name, size))

    def ended(self) -> None:
        self.told.append("ended")


def test_observers_hear_of_begin_and_end_also_where_it_fails() -> None:
    activity, notes, other = Activity(), Notes(), Notes()
    activity.observe(notes)
    activity.observe(other)
    with activity.of("read", 5):
        assert notes.told == [("read", 5)]
    with pytest.raises(ValueError, match="no"), activity.of("erase", 6):
        raise ValueError("no")
    assert notes.told == other.told == [("read", 5), "ended", ("erase", 6), "ended"]


def test_who_no_more_listens_hears_nothing_but_the_end_of_what_it_knows() -> None:
    activity, notes = Activity(), Notes()
    activity.observe(notes)
    with activity.of("read", 5):
        activity.ignore(notes)
    with activity.of("read", 6):
        pass
    assert notes.told == [("read", 5), "ended"]
