"""``spindle rebalance``: what is shown of a proposal, and what can be done with it."""

import itertools
import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from spindle.api.rebalance import KafkaRebalance
from spindle_cli import main, proposals, terminal
from spindle_cli.kube import Kube, KubeError, NotFoundError
from tests.unit.proposal_samples import D0, D1, HASH, move, rebalance

RUNNER = CliRunner()
MOVES = (
    move(0, (0, D0), (2, D1), size=3_000_000_000, reason="disk0 of broker 0 is over its band"),
    move(1, (1, D0), (1, D1), size=500),
)


JOB: Final = {
    "metadata": {"name": "demo-rebalance", "namespace": "kafka", "uid": "u-9"},
    "spec": {
        "jobTemplate": {
            "metadata": {"labels": {"spindle.dev/cluster": "demo"}},
            "spec": {"backoffLimit": 0},
        }
    },
}


class FakeKube:
    """A namespace with these proposals and this CronJob."""

    namespace = "kafka"

    def __init__(self, *raw: dict[str, Any], job: dict[str, Any] | None = None) -> None:
        self.proposals = {each["metadata"]["name"]: each for each in raw}
        self.job = job
        self.observed = [1]  # generations, one for each look; the last one stays
        self.changed: list[tuple[str, str, dict[str, Any]]] = []
        self.created: list[dict[str, Any]] = []

    def rebalances(self, cluster: str | None = None) -> list[KafkaRebalance]:
        return [KafkaRebalance.parse(each) for each in self.proposals.values()]

    def rebalance(self, name: str) -> KafkaRebalance:
        if name not in self.proposals:
            raise NotFoundError(f"there is no KafkaRebalance {name} in namespace kafka")
        return KafkaRebalance.parse(self.proposals[name])

    def change_rebalance(self, name: str, version: str, spec: dict[str, Any]) -> None:
        self.changed.append((name, version, spec))

    def raw(self, kind: str, name: str) -> dict[str, Any]:
        seen = self.observed.pop(0) if len(self.observed) > 1 else self.observed[0]
        return {"metadata": {"name": name, "generation": 1}, "status": {"observedGeneration": seen}}

    def cron_job(self, name: str) -> dict[str, Any]:
        if self.job is None:
            raise NotFoundError(f"there is no CronJob {name} in namespace kafka")
        return self.job

    def create_job(self, manifest: dict[str, Any]) -> None:
        self.created.append(manifest)

    def one_cluster(self, name: str | None) -> str:
        return name or "demo"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(kube: FakeKube, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(Kube, "connect", lambda namespace=None: kube)
        monkeypatch.setattr(terminal, "console", Console(width=160, highlight=False))
        result = RUNNER.invoke(main.app, ["rebalance", *arguments])
        return result.exit_code, result.output

    return run


def test_the_list_has_a_line_for_each(told: Any) -> None:
    status = {
        "phase": "Executing",
        "progress": "1/2",
        "eta": "2026-09-21T15:00:00Z",
        "message": "1 move done.",
    }
    code, text = told(FakeKube(rebalance(*MOVES), rebalance(*MOVES, name="demo-2", status=status)), "list")

    assert code == 0
    first, second = text.splitlines()[1:3]
    assert first.split()[:6] == ["demo-1", "demo", "Proposed", "0/2", "3.0", "GB"]
    assert second.split()[:4] == ["demo-2", "demo", "Executing", "1/2"]
    assert "2026-09-21T15:00:00Z" in second


def test_a_page_says_what_it_costs_what_it_is_good_for_and_why(told: Any) -> None:
    gain = {"fullestPercentBefore": 91, "fullestPercentAfter": 70}
    code, text = told(FakeKube(rebalance(*MOVES, gain=gain)), "show", "demo-1", "--moves=1")

    assert code == 0
    assert "1 moves between brokers, 3.0 GB; 1 between disks, 500 B" in text
    assert "fullest disk, %: 91 → 70" in text
    assert "0:disk0" in text
    assert "2:disk1" in text
    assert "is over its band" in text
    assert "1 smaller move not shown" in text
    assert "spindle rebalance approve demo-1" in text
    assert HASH in text


def test_a_page_says_what_has_become_of_each_move(told: Any) -> None:
    dropped = [{"topic": "t", "partition": 1, "reason": "ReplicaSizeChanged", "message": "t-1 has grown."}]
    status = {"phase": "Done", "outcomes": "+-", "dropped": dropped, "progress": "1/2"}
    _, text = told(FakeKube(rebalance(*MOVES, status=status)), "show", "demo-1")

    assert "left out" in text
    assert "ReplicaSizeChanged: t-1 has grown." in text
    assert "approve" not in text


def test_a_page_says_how_long_it_took(told: Any) -> None:
    begun = {
        "phase": "Done",
        "progress": "2/2",
        "movedBytes": 3_000_000_500,
        "startedAt": "2026-09-21T14:00:00Z",
    }
    _, text = told(
        FakeKube(rebalance(*MOVES, status={**begun, "endedAt": "2026-09-21T14:01:15Z"})), "show", "demo-1"
    )

    assert "ended 2026-09-21T14:01:15Z after 75 s; 2/2 moves, 3.0 GB moved" in text


def test_approving_says_the_hash_that_was_looked_at(told: Any) -> None:
    kube = FakeKube(rebalance(*MOVES))

    assert told(kube, "approve", "demo-1", "--hash", HASH)[0] == 0
    assert kube.changed == [("demo-1", "1", {"approved": HASH})]
    code, text = told(kube, "approve", "demo-1", "--hash", "f" * 16)
    assert code == 1
    assert "review it again" in text
    assert len(kube.changed) == 1


@pytest.mark.parametrize("what", ["approve", "stop"])
def test_what_is_over_cannot_be_changed(told: Any, what: str) -> None:
    kube = FakeKube(rebalance(*MOVES, status={"phase": "Expired"}))
    code, text = told(kube, what, "demo-1")

    assert code == 1
    assert "has ended (Expired)" in text
    assert kube.changed == []


def test_stopping_needs_no_version(told: Any) -> None:
    kube = FakeKube(rebalance(*MOVES, status={"phase": "Executing"}))

    assert told(kube, "stop", "demo-1")[0] == 0
    assert kube.changed == [("demo-1", "", {"stop": True})]


def test_a_run_is_the_cron_jobs_job_and_counted_with_its_others(told: Any) -> None:
    kube = FakeKube(job=JOB)

    assert told(kube, "run")[0] == 0
    (made,) = kube.created
    assert made["spec"] == {"backoffLimit": 0}
    assert made["metadata"]["labels"] == {"spindle.dev/cluster": "demo"}
    assert made["metadata"]["annotations"] == {"cronjob.kubernetes.io/instantiate": "manual"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u-9"


def test_without_a_job_it_says_what_is_missing(told: Any) -> None:
    code, text = told(FakeKube(), "run")

    assert code == 1
    assert "rebalance.image" in text


def test_a_run_right_after_a_change_waits_for_the_operator(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CronJob still has the former settings: executors that were just switched off, for example."""
    naps: list[float] = []
    monkeypatch.setattr(proposals, "pause", naps.append)
    kube = FakeKube(job=JOB)
    kube.observed = [0, 0, 1]

    code, text = told(kube, "run")
    assert (code, text.count("Waiting until the operator has read the last change")) == (0, 1)
    assert len(naps) == 2
    assert len(kube.created) == 1


def test_a_run_is_refused_while_no_operator_reads_the_change(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = itertools.count(step=20.0)
    monkeypatch.setattr(proposals, "pause", lambda _: None)
    monkeypatch.setattr("spindle_cli.proposals.time.monotonic", lambda: next(now))
    kube = FakeKube(job=JOB)
    kube.observed = [0]
    code, text = told(kube, "run")

    assert code == 1
    assert "spindle doctor" in text
    assert "kubectl create job --from=cronjob/demo-rebalance" in text
    assert kube.created == []


def test_the_longest_name_still_fits() -> None:
    source = {
        "metadata": {"name": "c" * 40 + "-rebalance", "namespace": "kafka", "uid": "u"},
        "spec": {"jobTemplate": {"spec": {}}},
    }

    assert len(proposals.job_from(source, datetime(2026, 9, 21, 3, 0, tzinfo=UTC))["metadata"]["name"]) <= 63


def test_another_name_is_told(told: Any) -> None:
    code, text = told(FakeKube(), "show", "nobody")

    assert code == 1
    assert "there is no KafkaRebalance nobody" in text
    assert issubclass(NotFoundError, KubeError)


def test_proposals_are_for_programs_as_well(told: Any) -> None:
    kube = FakeKube(rebalance(*MOVES), rebalance(*MOVES, name="demo-2"))

    listed = json.loads(told(kube, "list", "-o", "json")[1])["proposals"]
    shown = yaml.safe_load(told(kube, "show", "demo-2", "-o", "yaml")[1])

    assert [each["metadata"]["name"] for each in listed][-1] == "demo-2"
    assert len(shown["spec"]["moves"]) == len(MOVES)
