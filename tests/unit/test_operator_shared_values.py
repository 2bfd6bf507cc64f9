"""Equal parts of Kubernetes objects are held once, and nothing of what they say changes by that."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle_operator.shared_values import SharedValues, reused

_SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0]) | st.sampled_from("ab")
_VALUES = st.recursive(
    _SCALARS, lambda of: st.lists(of, max_size=3) | st.dictionaries(st.sampled_from("abc"), of, max_size=3)
)


def _text(value: object) -> str:
    """With the order of keys, and 1, 1.0 and true told apart."""
    return json.dumps(value)


@given(st.lists(_VALUES, max_size=4))
def test_shared_values_say_the_same(values: list[object]) -> None:
    pool, before = SharedValues(), [_text(value) for value in values]
    shared = [pool.shared(value) for value in values]
    assert [_text(value) for value in shared] == before


@given(_VALUES, _VALUES)
def test_reused_values_say_the_same_and_the_former_is_as_it_was(former: object, value: object) -> None:
    was, wanted = _text(former), _text(value)
    assert _text(reused(former, value)) == wanted
    assert _text(former) == was


@given(_VALUES)
def test_an_equal_value_is_the_former_one(value: object) -> None:
    fresh = copy.deepcopy(value)
    assert reused(value, fresh) is value or isinstance(value, float)


def _pod(name: str) -> Any:
    probe = {"exec": {"command": ["sh", "-c", "true"]}, "periodSeconds": 1000}
    return json.loads(json.dumps({"metadata": {"name": name}, "spec": {"probe": probe, "args": ["a", name]}}))


def test_parts_of_a_list_are_held_once() -> None:
    pool = SharedValues()
    one, two, again = (pool.shared(_pod(name)) for name in ("one", "two", "one"))
    assert again is one
    assert two["spec"]["probe"]["exec"] is one["spec"]["probe"]["exec"]
    assert two["spec"]["args"] is not one["spec"]["args"]


def test_what_did_not_change_is_held_once() -> None:
    before, after = _pod("one"), _pod("one")
    after["status"] = {"phase": "Running"}
    kept = reused(before, after)
    assert kept["spec"] is before["spec"]
    assert kept["status"] == {"phase": "Running"}
    assert "status" not in before
