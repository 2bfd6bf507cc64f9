"""What is shown while a run of the job, or a proposal, is under way."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from spindle.api.rebalance import KafkaRebalance
from spindle_cli import following
from spindle_cli.kube import KubeError, NotFoundError
from tests.unit.proposal_samples import D0, D1, move, rebalance

MOVES = (move(0, (0, D0), (2, D1), size=3_000), move(1, (1, D0), (1, D1), size=1_000))
RUNNING: dict[str, Any] = {"running": {}}


def pod(state: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "job-x"},
        "spec": {"nodeName": "node3"},
        "status": {"phase": "?", "containerStatuses": [{"state": state}], **status},
    }


def ended(code: int, message: str | None, reason: str = "Completed") -> dict[str, Any]:
    return pod({"terminated": {"exitCode": code, "reason": reason, "message": message}})


def logged(event: str, **more: Any) -> str:
    return json.dumps({"level": "info", "event": event, **more})


class Kube:
    """Its pod goes through the states that it is given, one a look; its proposal through its own."""

    def __init__(self, *states: dict[str, Any] | None, log: tuple[str, ...] = (), told: Any = ()) -> None:
        self.states, self.lines, self.told = list(states), log, list(told)

    def pods(self, selector: str) -> list[dict[str, Any]]:
        assert selector == "job-name=job"
        found = self._next()
        return [found] if found else []

    def pod(self, name: str) -> dict[str, Any]:
        found = self._next()
        if found is None:
            raise NotFoundError(f"there is no pod {name} in namespace kafka")
        return found

    def _next(self) -> dict[str, Any] | None:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def log(self, name: str) -> Iterator[str]:
        yield from self.lines

    def rebalance(self, name: str) -> KafkaRebalance:
        status = self.told.pop(0) if len(self.told) > 1 else self.told[0]
        return KafkaRebalance.parse(rebalance(*MOVES, status=status))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "pause", lambda seconds: None)


def job(kube: Any) -> tuple[bool, list[str]]:
    lines: list[str] = []
    return following.job(kube, "job", lines.append), lines


def proposal(kube: Any, timeout: float = 60.0) -> tuple[bool, list[str]]:
    lines: list[str] = []
    good = following.proposal(kube, "demo-1", timeout, lines.append)
    return good, [line.partition(" s  ")[2] or line for line in lines]


def test_a_run_is_told_by_its_log_and_by_what_came_of_it() -> None:
    outcome = json.dumps({"reason": "Proposed", "message": "made: 12 moves.", "proposal": "demo-1"})
    log = (
        logged("ns/demo: look, 0.3 s", cluster="ns/demo"),
        "WARN of a library",
        "",
        "{}",
        logged("spark: start, 8.0 s", cluster="spark"),
    )
    kube = Kube(None, pod({"waiting": {}}), pod(RUNNING), pod(RUNNING), ended(0, outcome), log=log)

    good, lines = job(kube)

    assert good
    assert [line.partition(" s  ")[2] or line for line in lines] == [
        "pod job-x runs on node3",
        "look, 0.3 s",
        "spark: start, 8.0 s",
        "Proposed: made: 12 moves.",
        "To inspect it: spindle rebalance show demo-1",
    ]


def test_what_the_log_ended_with_is_not_told_twice() -> None:
    outcome = json.dumps({"reason": "Balanced", "message": "There is nothing to do."})
    last = logged("run ended after 3.0 s: Balanced: There is nothing to do.")

    good, lines = job(Kube(pod(RUNNING), pod(RUNNING), ended(0, outcome), log=(last,)))

    assert good
    assert "\n".join(lines).count("There is nothing to do.") == 1


@pytest.mark.parametrize(
    ("message", "reason", "told"),
    [
        ('{"reason": "KafkaUnreachable", "message": "Nobody answers."}', "Error", "KafkaUnreachable: Nobody answers."),
        (None, "OOMKilled", "OOMKilled, exit code 137"),
        ("the last lines of a log", "Error", "Error, exit code 137"),
    ],
)  # fmt: skip
def test_a_run_that_failed_says_why_and_where_to_look(message: str | None, reason: str, told: str) -> None:
    good, lines = job(Kube(pod(RUNNING), pod(RUNNING), ended(137, message, reason)))

    assert not good
    assert lines[-2:] == [told, "Full log: kubectl logs job/job"]


def test_a_pod_that_does_not_start_says_what_holds_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 100_000, 60))
    monkeypatch.setattr("spindle_cli.following.time.monotonic", lambda: float(next(ticks)))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no memory"}
    unplaced = {**pod({}), "status": {"conditions": [condition]}}

    with pytest.raises(KubeError, match="did not start within 180 s: Unschedulable no memory"):
        job(Kube(unplaced))
    with pytest.raises(KubeError, match="ErrImagePull not found"):
        job(Kube(pod({"waiting": {"reason": "ErrImagePull", "message": "not found"}})))
    with pytest.raises(KubeError, match="it has no pod yet"):
        job(Kube(None))


def test_a_job_that_is_deleted_meanwhile_ends_it() -> None:
    with pytest.raises(KubeError, match="the Job was deleted"):
        job(Kube(pod(RUNNING), pod(RUNNING), None))


def test_a_proposal_is_told_whenever_something_has_changed() -> None:
    told = (
        {"phase": "Approved", "message": "It waits for its turn."},
        {"phase": "Executing", "progress": "0/2", "movedBytes": 0},
        {"phase": "Executing", "progress": "0/2", "movedBytes": 0},
        {"phase": "Executing", "progress": "1/2", "movedBytes": 3000, "eta": "2026-09-21T15:00:00Z"},
        {"phase": "Done", "progress": "2/2", "movedBytes": 4000, "message": "2 moves done."},
    )

    assert proposal(Kube(told=told)) == (
        True,
        [
            "Approved. It waits for its turn.",
            "Executing, 0/2 moves, 0 B of 4.0 kB",
            "Executing, 1/2 moves, 3.0 kB of 4.0 kB, until 2026-09-21T15:00:00Z",
            "Done, 2/2 moves, 4.0 kB of 4.0 kB. 2 moves done.",
        ],
    )


@pytest.mark.parametrize("phase", ["Stopped", "Expired", "Superseded", "Failed"])
def test_one_that_ends_otherwise_is_no_success(phase: str) -> None:
    good, lines = proposal(Kube(told=[{"phase": phase, "message": "Why."}]))

    assert not good
    assert lines == [f"{phase}. Why."]


def test_after_the_time_out_it_says_where_to_look() -> None:
    good, lines = proposal(Kube(told=[{}]), timeout=-1.0)

    assert not good
    assert lines[0] == "Proposed"
    assert lines[1].endswith("see: spindle rebalance show demo-1")
