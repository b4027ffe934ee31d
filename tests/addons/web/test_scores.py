"""Which scores the page shows."""

from aisrv.addons.web.scores import MOST_SCORES, shown_scores


def test_a_few_are_all_shown_in_order() -> None:
    assert shown_scores([3, -1, 7]) == [[0, 3], [1, -1], [2, 7]]


def test_of_many_the_ten_largest_are_shown() -> None:
    assert shown_scores([*range(33)]) == [[place, place] for place in range(32, 22, -1)]


def test_a_large_output_is_no_list_of_scores() -> None:
    assert shown_scores([0] * (MOST_SCORES + 1)) == []
