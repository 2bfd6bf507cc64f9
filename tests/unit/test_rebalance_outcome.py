import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle_rebalance import outcome
from spindle_rebalance.outcome import Outcome, Tail


def test_the_message_names_reason_sentence_and_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    outcome.tell(Outcome("ns/demo", "Proposed", "Said."), ["one"], path)
    assert not path.exists()  # nobody reads it
    path.touch()
    outcome.tell(Outcome("ns/demo", "Proposed", "Said.", proposal="demo-1"), ["one", "two"], path)
    assert json.loads(path.read_text()) == {"reason": "Proposed", "message": "Said.", "proposal": "demo-1"}
    outcome.tell(Outcome("ns/demo", "EngineFailed", "Said.", failed=True), ["one", "two"], path)
    assert json.loads(path.read_text()) == {
        "reason": "EngineFailed", "message": "Said.", "lines": ["one", "two"],
    }  # fmt: skip


@given(st.text(max_size=9000), st.lists(st.text(max_size=300), max_size=20))
def test_it_fits_into_what_the_kubelet_keeps(text: str, tail: list[str]) -> None:
    made = outcome.message(Outcome("ns/demo", "RunFailed", text, failed=True), tail)
    assert len(made.encode()) <= 4096
    found = json.loads(made)
    assert found["reason"] == "RunFailed"
    lines = found.get("lines", [])
    assert tail[len(tail) - len(lines) :] == lines  # the first lines go first
    if found["message"] != text:
        assert not lines


def test_several_clusters_fail_if_one_does() -> None:
    good, bad = Outcome("ns/a", "Balanced", "fine"), Outcome("ns/b", "KafkaUnreachable", "gone", failed=True)
    both = outcome.together([good, bad])
    assert both.failed
    assert both.reason == "KafkaUnreachable"
    assert both.message.startswith("1 of 2 clusters failed: ns/b: gone; ns/a: fine")
    assert outcome.together([good]) is good
    assert outcome.together([good, good]).reason == "Balanced"


def test_the_tail_is_the_last_lines(caplog: pytest.LogCaptureFixture) -> None:
    tail, log = Tail(), logging.getLogger("tail")
    log.addHandler(tail)
    caplog.set_level(logging.INFO, "tail")
    for k in range(30):
        log.info("line %d\nmore", k)
    log.removeHandler(tail)
    assert list(tail.lines) == [f"line {k}" for k in range(10, 30)]
