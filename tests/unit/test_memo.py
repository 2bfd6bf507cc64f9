"""Results kept by content: equal data is recognised, data that only compares equal is not."""

from typing import Any

from spindle.manifests.common import drifted
from spindle.model.memo import by_content


def test_equal_content_is_computed_once_and_the_memory_is_bounded() -> None:
    asked: list[Any] = []

    @by_content(2)
    def text(value: Any) -> str:
        asked.append(value)
        return repr(value)

    assert text({"a": [1, "x"]}) == text({"a": [1, "x"]})
    assert len(asked) == 1
    assert text({"a": [True, "x"]}) == repr({"a": [True, "x"]})
    assert text({"a": [1, "y"]}) == repr({"a": [1, "y"]})
    assert text({"a": [1, "x"]}) == repr({"a": [1, "x"]})
    assert len(asked) == 4


def test_an_object_that_is_changed_in_place_is_looked_at_again() -> None:
    live: dict[str, Any] = {"spec": {"ports": [{"name": "client", "port": 9094}]}}
    wanted = {"spec": {"ports": [{"name": "client", "port": 9094}]}}
    assert not drifted(wanted, live)
    live["spec"]["ports"][0]["port"] = 1
    assert drifted(wanted, live)
