"""How many KafkaTopics are as their specs say: in the KafkaCluster's status, in the metrics, and in ``spindle status``."""

from datetime import UTC, datetime
from io import StringIO

from rich.console import Console

from spindle.metrics import table
from spindle.metrics.cluster import cluster_samples
from spindle.reconcile.plan import plan
from spindle_cli import overview
from spindle_cli.kube import ClusterView
from tests.model.failing import Failing
from tests.unit.test_topics import cluster, running, topic


def samples(world: Failing) -> dict[str, float]:
    seen = world.snapshot()
    found = cluster_samples(seen, plan(seen, world.now))
    return {each.labels[-1]: each.value for each in found if each.metric is table.TOPICS}


def shown(world: Failing) -> str:
    console = Console(width=200, record=True, file=StringIO())
    console.print(overview.overview(ClusterView(world.cluster, (), ()), datetime.now(UTC)))
    return console.export_text()


def test_ready_stalled_and_waiting_ones_are_counted() -> None:
    world = running(
        topic(), topic("second"), topic("bad", config={"retention.msx": "1"}), topic("wide", replicas=5)
    )
    assert world.cluster["status"]["topics"] == {"total": 4, "ready": 2, "summary": "2/4"}
    assert samples(world) == {"ready": 2, "stalled": 1, "waiting": 1}
    assert "Topics: 4 managed, 2 not ready" in shown(world)
    # While paused nothing is decided: what their statuses say counts.
    world.cluster["spec"]["paused"] = True
    world.reconcile()
    assert world.cluster["status"]["topics"]["summary"] == "2/4"
    # What cannot be listed is unknown.
    world.unknown = frozenset({"kafkatopics"})
    world.reconcile()
    assert world.cluster["status"]["topics"]["summary"] == "2/4"
    assert samples(world) == {}


def test_without_any_nothing_is_told() -> None:
    world = cluster()
    made = world.reconcile()
    assert "topics" not in made.status
    assert samples(world) == {}
    assert "Topics:" not in shown(world)
    world.put(topic())
    world.settle()
    assert "Topics: 1 managed\n" in "".join(line.rstrip() + "\n" for line in shown(world).splitlines())
