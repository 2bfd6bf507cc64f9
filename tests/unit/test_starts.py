"""How a start goes, as far as it can be told, and what waits for it."""

import pytest

from spindle.model.actions import Evict
from spindle.model.start_progress import Start, grace_seconds, read_start, seconds_left
from spindle.model.times import stamp
from spindle.rollout.starts import unfinished
from tests.model.dynamic_config import starting
from tests.model.world import World

BEFORE = """\
# TYPE kafka_log_LogManager_remainingLogsToRecover gauge
kafka_log_LogManager_remainingLogsToRecover{dir="\\"/d/disk0/log\\""} 3.0
kafka_log_LogManager_remainingLogsToRecover{dir="\\"/d/disk1/log\\""} 1.2E1
kafka_log_LogManager_remainingSegmentsToRecover{dir="\\"/d/disk0/log\\"",threadNum="0"} 7.0
spindle_start{kind="Dirty"} 1.0
"""
LOADING = BEFORE.replace("LogManager_remainingLogsToRecover", "logmanager_remaininglogstorecover").replace(
    "LogManager_remainingSegmentsToRecover", "logmanager_remainingsegmentstorecover"
)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        pytest.param(LOADING, Start("Dirty", 15, 7), id="loading"),
        pytest.param(BEFORE, Start("Dirty", 15, 7), id="loading, names of earlier versions"),
        pytest.param('spindle_start{kind="Clean"} 1.0\n', Start("Clean"), id="over"),
        pytest.param('spindle_start{kind="Odd"} 1.0\n', Start(), id="a kind that is not known"),
        pytest.param("<html>", Start(), id="no metrics"),
    ],
)
def test_what_the_metrics_tell(text: str, start: Start) -> None:
    assert read_start(text) == start


def test_time_left_follows_the_pace_so_far() -> None:
    assert seconds_left(100.0, 50, 110.0, 25) == 10.0
    assert seconds_left(100.0, 50, 110.0, 50) is None
    assert seconds_left(100.0, 50, 100.0, 10) is None
    assert seconds_left(100.0, 10**9, 86500.0, 10**9 - 1) is None, "longer than a time can be written"


def test_the_grace_grows_with_what_there_is_to_close() -> None:
    assert grace_seconds(0, 0) == 330
    assert grace_seconds(4000, 0) == 540
    assert 480 <= grace_seconds(0, 10**13) <= 510
    assert grace_seconds(10**6, 10**13) == 3600


def start_of(world: World) -> dict[str, object]:
    return dict(world.get("KafkaBroker", "demo-broker-0")["status"].get("start") or {})


def test_a_start_is_told_while_it_lasts_and_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.of()
    told = starting(world, monkeypatch)
    world.settle()
    assert start_of(world)["reason"] == "PodCreated"
    assert isinstance(start_of(world)["seconds"], int)

    pod = world.get("Pod", "demo-broker-0")
    entry = pod["status"]["containerStatuses"][0]
    entry |= {"restartCount": 1, "state": {"running": {"startedAt": stamp(world.now)}}}
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"
    world.put(pod)
    told[0] = Start("Dirty", 40, 9)
    world.reconcile()
    world.now += 60
    told[0] = Start("Dirty", 10, 2)
    world.reconcile()
    start = start_of(world)
    assert (start["kind"], start["reason"]) == ("Dirty", "ContainerRestarted")
    assert (start["logs"], start["logsLeft"], start["segmentsLeft"]) == (40, 10, 2)
    assert start["readyBy"] == stamp(world.now + 20)
    assert "seconds" not in start
    message = world.get("KafkaBroker", "demo-broker-0")["status"]["message"]
    assert message.startswith("Kafka recovers its logs: 10 of 40 left")

    told[0] = Start("Dirty")
    pod = world.get("Pod", "demo-broker-0")
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition |= {"status": "True", "lastTransitionTime": stamp(world.now)}
    world.reconcile()
    over = start_of(world)
    assert over["kind"] == "Dirty"
    assert over["seconds"] == 60
    assert "logsLeft" not in over


@pytest.mark.parametrize(
    ("start", "ready", "asked"),
    [
        pytest.param({}, False, True, id="new"),
        pytest.param({"at": "before", "seconds": 5}, True, True, id="of the process before"),
        pytest.param({"at": "now", "kind": "Dirty"}, False, True, id="not ready"),
        pytest.param({"at": "now"}, True, True, id="of no known kind"),
        pytest.param({"at": "now", "kind": "Dirty"}, True, False, id="without a disk, never in sync"),
        pytest.param({"at": "now", "seconds": 5}, True, False, id="over"),
    ],
)
def test_only_brokers_that_start_are_asked(start: dict[str, object], ready: bool, asked: bool) -> None:
    entry = {"name": "kafka", "state": {"running": {"startedAt": "now"}}, "ready": ready}
    pod = {"metadata": {}, "status": {"containerStatuses": [entry]}}
    assert unfinished({"status": {"start": start}}, pod) is asked


def test_a_broker_that_loads_its_logs_is_not_restarted_for_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.of()
    world.settle()
    told = starting(world, monkeypatch)
    told[0] = Start("Dirty", 40, 9)
    world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "3"}
    evicted = []
    for _ in range(30):
        evicted += [a.pod for a in world.reconcile().actions if isinstance(a, Evict)]
        world.breathe()
    assert sorted(evicted) == ["demo-broker-1", "demo-broker-2"]
    assert "LoadingLogs" in {w["reason"] for w in world.cluster["status"]["waiting"]}


def test_time_spent_loading_does_not_stop_a_roll(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.of()
    world.settle()
    told = starting(world, monkeypatch)
    world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "3"}
    for _ in range(6):  # nothing breathes: the successor is not ready
        world.reconcile()
    told[0] = Start("Dirty", 40, 9)
    world.now += 5000
    world.reconcile()
    assert "ProgressDeadlineExceeded" not in {w["reason"] for w in world.cluster["status"]["waiting"]}
    told.clear()
    world.now += 700
    world.reconcile()
    assert "ProgressDeadlineExceeded" in {w["reason"] for w in world.cluster["status"]["waiting"]}
