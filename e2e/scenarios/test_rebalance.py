"""An unbalanced cluster: agents publish samples, a run of the job creates a proposal, a user approves it, the operator executes it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.browser import browser, shown
from e2e.cluster.layout import REBALANCE_IMAGE
from e2e.scenarios.disk_slot import assert_spread, conclude
from e2e.scenarios.lab import CLUSTER, Lab, names_of, pause
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.moving import assert_nothing_left
from e2e.scenarios.proposing import mates
from e2e.scenarios.stand import Kind, Stand
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_ENGINE: Final = {
    "image": REBALANCE_IMAGE,
    "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"memory": "3Gi"}},
}
_EXECUTORS: Final = {"count": 2, "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}}}
_BUDGET: Final = 2**27  # bytes that one plan may move; slightly less balances the cluster
_REPORTS: Final = "SPINDLE_REPORTS"  # a folder where reports are kept after the run
_OVER: Final = ("Done", "Stopped", "Expired", "Superseded", "Failed")


def four(**engine: Any) -> Kind:
    """Four brokers on three racks: two of them are interchangeable. Small disks, so that real data is a large part of one.

    XFS preallocates space for growing files: on disks this small as much as the data, and for minutes.
    """
    config = {"log.segment.bytes": "8388608", "log.index.size.max.bytes": "1048576"}
    rebalance = {
        "samples": {"enabled": True, "intervalSeconds": 30},
        "engine": {**_ENGINE, **engine},
        "maxBytes": str(_BUDGET),
        "maxDurationMinutes": 30,
    }
    return Kind(4, "ext4", size="512Mi", config=config, rebalance=rebalance)


LOCAL: Final = four()
PODS: Final = four(executors=_EXECUTORS)


def skew(lab: Lab, running: Load) -> tuple[int, int]:
    """Move every replica off one broker, each to the other broker in its rack; returns the one with the replicas, and the empty one."""
    stays, leaves = mates(lab)
    for name, (_, _, replicas) in running.partitions().items():
        topic, _, partition = name.rpartition("-")
        if leaves in replicas:
            running.reassign(topic, int(partition), [stays if b == leaves else b for b in replicas])
    lab.until(
        "one broker is empty and the replicas are in sync",
        lambda: all(
            leaves not in replicas and len(isr) == len(replicas) == 3
            for _, isr, replicas in running.partitions().values()
        ),
        300,
    )
    return stays, leaves


def begin_run(lab: Lab) -> str:
    """Request a run of the job as a user does; returns the name of its Job."""
    before = names_of(lab.list("jobs"))
    print(lab.spindle("rebalance", "run", "-n", lab.namespace, "-c", CLUSTER))
    lab.until("a Job", lambda: names_of(lab.list("jobs")) - before, 60)
    (name,) = names_of(lab.list("jobs")) - before
    return name


def end_of_run(lab: Lab, name: str, executors: int, *, replaced: bool = False) -> Mapping[str, Any]:
    """Wait for a run's end; returns the condition that reports it.

    The run must have read samples, and used this many executor pods, which are gone then. If its driver was stopped for long it may have used more:
    Spark replaces executors from which it has not heard for two minutes.
    """
    helped: set[str] = set()

    def ended() -> bool:
        helped.update(names_of(lab.list("pods", "spark-role=executor")))
        status = lab.the("job", name).get("status") or {}
        return bool(status.get("succeeded") or status.get("failed"))

    took = lab.until("the run has ended", ended, 400)
    print(f"the run took {took:.0f} s; its log:")
    log = lab.kubectl("logs", f"job/{name}", check=False)
    print(log)
    assert re.search(r'"step": "history".*"records": [1-9]', log), "it has read no samples"
    assert len(helped) == executors or (replaced and len(helped) > executors), helped
    lab.until("its executors are gone", lambda: not lab.list("pods", "spark-role=executor"), 60)
    lab.until("the run is reported", lambda: name in lab.condition("RebalanceRuns").get("message", ""), 60)
    return lab.condition("RebalanceRuns")


def phase(lab: Lab, name: str) -> str:
    """Of a proposal."""
    return str((lab.the("kafkarebalance", name).get("status") or {}).get("phase", ""))


def open_proposal(lab: Lab) -> dict[str, Any]:
    """The one that has not ended."""
    (found,) = [
        each for each in lab.list("kafkarebalances") if (each.get("status") or {}).get("phase") not in _OVER
    ]
    return found


def spread(running: Load) -> dict[int, int]:
    """Broker → bytes of the load's topics."""
    found: dict[int, int] = {}
    for replica in running.placement():
        found[replica.broker] = found.get(replica.broker, 0) + replica.bytes
    return found


def look_at(page: str, folder: Path, name: str) -> None:
    """The report requests nothing from the network; it and a screenshot of it are kept for inspection."""
    assert page.startswith("<!doctype html>")
    assert "://" not in page, "the report requests something from the network"
    kept = Path(os.environ.get(_REPORTS, folder)) / name
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "report.html").write_text(page)
    print(f"report kept for inspection: {kept}")
    if program := browser():
        dom, asked = shown(program, page, kept)
        assert asked == []
        assert "<svg" in dom


@pytest.mark.usefixtures("job_image")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(LOCAL, id="local", marks=pytest.mark.capability), pytest.param(PODS, id="executors")],
)
def test_a_skewed_cluster_is_balanced(
    stand: Stand, spindle_image: str, tmp_path: Path, request: pytest.FixtureRequest, kind: Kind
) -> None:
    lab = stand.get(kind)
    # The source of a move is deleted at once, not after a minute: until then it would count as used.
    topic = Topic("skewed", partitions=12, config=("file.delete.delay.ms=1000",))
    with Timeline(lab) as timeline, load(lab, spindle_image, topic, fill=150) as running:
        full, empty = skew(lab, running)
        before = spread(running)
        timeline.mark(f"broker {empty} is empty")
        told = end_of_run(lab, begin_run(lab), 2 if kind == PODS else 0)
        assert told["status"] == "True", told
        proposal = open_proposal(lab)
        name = proposal["metadata"]["name"]
        print(lab.spindle("rebalance", "show", name, "-n", lab.namespace))
        page = lab.spindle("rebalance", "report", "-n", lab.namespace, "-c", CLUSTER)
        look_at(page, tmp_path, request.node.callspec.id)
        assert any(move["toBroker"] == empty for move in proposal["spec"]["moves"])
        assert sum(move["bytes"] for move in proposal["spec"]["moves"]) <= _BUDGET
        lab.until("it is proposed", lambda: phase(lab, name) == "Proposed", 60)
        began = timeline.mark("approved")
        lab.spindle("rebalance", "approve", name, "-n", lab.namespace)
        lab.until("it has ended", lambda: phase(lab, name) in _OVER, 400)
        timeline.mark(f"it is {phase(lab, name)}")
        assert phase(lab, name) == "Done", lab.the("kafkarebalance", name)["status"]
        after = spread(running)
        print(f"bytes by broker: {before}, then {after}")
        # The other two are alone in their racks: they have a replica of everything before and after.
        both = after.get(full, 0) + after.get(empty, 0)
        assert after.get(full, 0) < before[full]
        assert max(after.get(full, 0), after.get(empty, 0)) < 0.8 * both
        assert_spread(running)
        assert_nothing_left(running)
        conclude(running, timeline, began)


@pytest.mark.usefixtures("job_image")
def test_executors_propose_what_one_pod_proposes(stand: Stand, spindle_image: str) -> None:
    """The same samples and the same bytes, with Spark in executor pods and in the driver's pod."""
    lab = stand.get(PODS)
    with load(lab, spindle_image, Topic("alike", partitions=12), fill=150, keep=True) as running:
        skew(lab, running)
        running.finish()
    pause(90)  # three samples of each broker
    lab.patch("kafkacluster", CLUSTER, {"spec": {"rebalance": {"samples": {"enabled": False}}}})
    pause(60)  # the agents have read that

    def proposed(executors: int) -> list[Mapping[str, Any]]:
        assert end_of_run(lab, begin_run(lab), executors)["status"] == "True"
        return list(open_proposal(lab)["spec"]["moves"])

    in_pods = proposed(2)
    lab.patch("kafkacluster", CLUSTER, {"spec": {"rebalance": {"engine": {"executors": None}}}})
    assert in_pods
    assert proposed(0) == in_pods
