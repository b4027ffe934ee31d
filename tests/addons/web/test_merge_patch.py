"""Merge patches by RFC 7396, applied by the algorithm of its section 2."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.web.merge_patch import merge_patch

LEAVES = st.integers(-3, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 2), max_size=2)
OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), LEAVES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), LEAVES | inner, max_size=3),
    max_leaves=8,
)


def applied(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2: MergePatch(Target, Patch)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(OBJECTS, OBJECTS)
def test_a_patch_makes_the_second_of_the_first(before: dict[str, Any], now: dict[str, Any]) -> None:
    patch = merge_patch(before, now)
    assert (before if patch is None else applied(before, patch)) == now


@given(OBJECTS)
def test_nothing_has_changed(value: dict[str, Any]) -> None:
    assert merge_patch(value, value) is None


def test_only_what_has_changed_is_in_a_patch() -> None:
    before = {"a": {"x": 1, "y": [1, 2]}, "b": 1, "c": 0}
    assert merge_patch(before, {"a": {"x": 1, "y": [1, 3]}, "b": 1}) == {"a": {"y": [1, 3]}, "c": None}
