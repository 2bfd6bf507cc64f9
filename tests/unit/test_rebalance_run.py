"""A run over a cluster that is made up: what happens between its look and what it publishes."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from spindle.api import names
from spindle.balance.picture import Picture
from spindle_rebalance import look, options
from spindle_rebalance.errors import RunError
from spindle_rebalance.findings import REPLICAS, DiskFinding, Findings, ReadReport
from spindle_rebalance.options import Target
from spindle_rebalance.run import Ranges, Run, Spark
from tests.unit.balance_samples import GB, picture, skewed

TOLD = ["run", "--cluster-namespace=ns", "--cluster=demo", "--bootstrap=h:1", "--tls=/none"]


class Kubernetes:
    """A cluster with one proposal, which is older than what would be proposed now."""

    def __init__(self, approved: str | None) -> None:
        self.spec = {"cluster": "demo", "approved": approved}
        self.written: list[str] = []

    def cluster(self, namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace, "uid": "u"}}

    def rebalances(self, namespace: str, cluster: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": "older"}, "spec": self.spec, "status": {"phase": "Proposed"}}]

    def rebalance(self, namespace: str, name: str) -> None:
        return None

    def apply_rebalance(self, namespace: str, body: dict[str, Any]) -> None:
        self.written.append(body["metadata"]["name"])


@pytest.mark.parametrize(
    ("approved", "reason", "written"),
    [
        pytest.param(None, "Proposed", 1, id="nobody approved"),
        pytest.param("hash", "ProposalUnderWay", 0, id="a person approved meanwhile"),
    ],
)
def test_what_is_approved_while_a_run_plans_stands(
    approved: str | None, reason: str, written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube: Any = Kubernetes(approved)
    taken = skewed()
    assert not taken.under_way  # when it was looked

    def take(*_: Any) -> Picture:
        return taken

    monkeypatch.setattr(look, "take", take)
    chosen = options.parse([*TOLD, f"--report={tmp_path}"])
    (found,) = Run(chosen, Spark(lambda *_: {}, _never), lambda: kube).all()

    assert (found.reason, len(kube.written)) == (reason, written), found
    assert reason in (tmp_path / "ns.demo.html").read_text()


def test_a_run_that_looked_twice_is_made_again_on_the_same_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which samples of replicas count goes by the time of the first look; on record is the second one, which is planned on."""
    logs = [("orders", 0, GB), (names.TOPIC_SAMPLES, 0, GB)]
    base, now, studied = picture({(broker, 0): logs for broker in range(3)}), 1000.0, list[Any]()

    def clock() -> float:
        nonlocal now
        now += 100  # reading takes long
        return now

    def take(*given: Any) -> Picture:
        return replace(base, at_ms=given[-1])

    def study(_: Target, ranges: Ranges, seen: Picture) -> Findings:
        studied.append((ranges, seen.at_ms))
        return Findings((), REPLICAS.empty_table(), ReadReport(0, 0, (), ranges))

    monkeypatch.setattr(look, "take", take)
    spark, kube = Spark(lambda *_: {0: (3, 9)}, study), lambda: cast("Any", None)
    Run(options.parse([*TOLD, "--dry-run", f"--record={tmp_path / 'a'}"]), spark, kube, clock).all()
    again = options.parse([*TOLD, f"--replay={tmp_path / 'a'}", f"--record={tmp_path / 'b'}"])
    Run(again, spark, kube, clock).all()

    assert len(studied) == 2
    assert studied[0] == studied[1]
    folders = [tmp_path / each / "ns.demo" for each in ("a", "b")]
    assert look.read(folders[0]).at_ms != studied[0][1]  # it did look twice
    for name in (look.LOOK, look.OFFSETS):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ((0.0, 660.0), "No forecast of when disks will be full: too little history yet (11 min)."),
        ((660.0, 1e5), ""),
    ],
)
def test_a_run_says_that_there_is_too_little_history_for_any_forecast(
    seconds: tuple[float, ...], told: str, tmp_path: Path
) -> None:
    logs = [("orders", 0, GB), (names.TOPIC_SAMPLES, 0, GB)]
    look.write(tmp_path / "ns.demo", picture({(broker, 0): logs for broker in range(3)}))
    look.write_offsets(tmp_path / "ns.demo", {0: (0, 9)}, 0)
    disks = tuple(
        DiskFinding(0, f"/d{k}", f"disk{k}", "ssd", GB, 1, each, 1.0, (1.0, 2.0, 3.0), None, None)
        for k, each in enumerate(seconds)
    )
    found = Findings(disks, REPLICAS.empty_table(), ReadReport(9, 9, (), {0: (0, 9)}))
    chosen = options.parse([*TOLD, f"--replay={tmp_path}"])
    kube = cast("Any", None)
    (outcome,) = Run(chosen, Spark(lambda *_: {0: (0, 9)}, lambda *_: found), lambda: kube).all()

    assert not outcome.failed, outcome.message
    assert ("too little history" in outcome.message) == bool(told)
    assert told in outcome.message


@pytest.mark.parametrize("broken", ["[]", "{}", '{"atMs": 1, "ranges": {"0": 7}}', "no JSON"])
def test_offsets_that_are_not_whole_are_refused(broken: str, tmp_path: Path) -> None:
    (tmp_path / look.OFFSETS).write_text(broken)
    with pytest.raises(RunError, match=r"offsets\.json"):
        look.read_offsets(tmp_path)


def _never(*_: Any) -> Any:
    raise AssertionError("there are no samples to study")
