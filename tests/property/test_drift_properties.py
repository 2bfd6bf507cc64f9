"""Drift as an invariant: the API server's additions never are, a changed leaf always is."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spindle.manifests.common import drifted, with_applied

_LEAF = st.one_of(
    st.text("abc", max_size=3), st.integers(0, 3), st.booleans(), st.sampled_from(["1Gi", "500m", "9092"])
)
_KEY = st.sampled_from(["spec", "selector", "image", "limits", "requests", "size", "port", "value", "cpu"])


def _named(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A list of objects with names."""
    entries = st.lists(st.dictionaries(_KEY, inner, max_size=3), max_size=3)
    return entries.map(lambda found: [{"name": f"n{i}", **entry} for i, entry in enumerate(found)])


_VALUE = st.recursive(
    _LEAF,
    lambda inner: (
        st.dictionaries(_KEY, inner, max_size=3)
        | st.lists(_LEAF, max_size=3)
        | _named(inner)
        | st.lists(st.dictionaries(_KEY, inner, min_size=1, max_size=2), max_size=2)
    ),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(_KEY, _VALUE, min_size=1, max_size=4)


def as_server_has_it(value: Any, draw: st.DataObject) -> Any:
    """What the API server makes of an object: defaults added, empty values dropped, named entries added behind."""
    if isinstance(value, dict):
        kept = {k: as_server_has_it(v, draw) for k, v in value.items()}
        if draw.draw(st.booleans()):
            kept = {k: v for k, v in kept.items() if v not in ("", [], {}) and not (v == 0 or v is False)}
        return {**kept, **draw.draw(st.dictionaries(st.sampled_from(["defaultA", "defaultB"]), _LEAF))}
    if isinstance(value, list):
        out = [as_server_has_it(v, draw) if isinstance(v, dict) else v for v in value]
        if out and all(isinstance(v, dict) and "name" in v for v in out) and draw.draw(st.booleans()):
            out.append({"name": "added", "by": "another"})
        return out
    return value


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all leaves."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path


@settings(max_examples=150)
@given(_OBJECTS, st.data())
def test_what_the_server_adds_is_no_drift(desired: dict[str, Any], data: st.DataObject) -> None:
    assert not drifted(desired, as_server_has_it(desired, data))
    applied = with_applied(desired)
    assert not drifted(applied, as_server_has_it(applied, data))


@settings(max_examples=150)
@given(_OBJECTS, st.data())
def test_any_changed_leaf_is_drift(desired: dict[str, Any], data: st.DataObject) -> None:
    paths = list(leaves(desired))
    assume(paths)
    live = as_server_has_it(desired, data)
    path = data.draw(st.sampled_from(paths))
    changed = deepcopy(desired)
    target: Any = changed
    for step in path[:-1]:
        target = target[step]
    old = target[path[-1]]
    target[path[-1]] = data.draw(
        st.just("changed") | st.just(not old if isinstance(old, bool) else True) | st.just(77)
    )
    if not target[path[-1]]:
        assume(old is True)
    assert drifted(changed, live)
