from collections.abc import Mapping
from typing import Any

import pytest

from spindle_operator import handlers
from spindle_operator.handlers import Digests, Weight, cluster_of, wake
from spindle_operator.kinds import KAFKA_BROKER, KAFKA_CLUSTER, NODE, POD, SECRET, Kind
from spindle_operator.loop import Loops


class Recorder(Loops):
    def __init__(self) -> None:
        self.agent_namespace = "agents"
        self.calls: list[tuple[str, ...]] = []

    def seen(self, namespace: str, name: str) -> None:
        self.calls.append(("seen", namespace, name))

    def wake(self, namespace: str, name: str, *, urgent: bool = False) -> None:
        self.calls.append(("urgent" if urgent else "wake", namespace, name))

    def happened(self, kind: Kind, obj: Mapping[str, Any]) -> None:
        """Which versions exist is tested with the cache."""

    def wake_all(self) -> None:
        self.calls.append(("all",))


def obj(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "1"}, **more}


@pytest.mark.parametrize(
    ("kind", "body", "calls"),
    [
        pytest.param(KAFKA_CLUSTER, obj(), [("seen", "ns", "x")], id="cluster"),
        pytest.param(
            KAFKA_BROKER, obj(spec={"cluster": "demo"}), [("wake", "ns", "demo")], id="broker, by its spec"
        ),
        pytest.param(POD, obj(), [], id="pod without a label"),
        pytest.param(
            SECRET,
            {
                "metadata": {
                    "name": "ns.demo.spindle-agent",
                    "namespace": "agents",
                    "labels": {"spindle.dev/cluster": "demo", "spindle.dev/namespace": "ns"},
                }
            },
            [("wake", "ns", "demo")],
            id="what stands in another namespace",
        ),
        pytest.param(
            POD,
            {
                "metadata": {
                    "name": "x",
                    "namespace": "tenant",
                    "labels": {"spindle.dev/cluster": "demo", "spindle.dev/namespace": "ns"},
                }
            },
            [("wake", "tenant", "demo")],
            id="anybody's label wakes no cluster of another namespace",
        ),
        pytest.param(NODE, {"metadata": {"name": "n", "uid": "u"}}, [("all",)], id="node"),
    ],
)
def test_whom_an_event_wakes(kind: Any, body: Any, calls: Any) -> None:
    loops = Recorder()
    wake(loops, kind, body)
    assert loops.calls == calls


def test_a_label_names_the_cluster() -> None:
    body = obj()
    body["metadata"]["labels"] = {"spindle.dev/cluster": "demo"}
    assert cluster_of(body) == "demo"


def node(ready: str = "True", beat: str = "1", zone: str = "a") -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": beat, "labels": {"zone": zone}},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": beat}],
            "images": [beat],
        },
    }


def broker(
    *,
    state: str = "Running",
    stopped: bool = False,
    moved: str = "Copying",
    copied: int = 1,
    rate: int = 9,
    **disk: Any,
) -> dict[str, Any]:
    seen = {"name": "disk0", "verdict": "Healthy", "message": "10 s", "fsUuid": "f-1", "usedBytes": 1, **disk}
    move = {"topic": "t", "partition": 0, "fromDir": "/a", "toDir": "/b", "state": moved, "copied": copied}
    return obj(
        spec={"cluster": "demo", "maintenance": {"stopped": stopped}},
        status={
            "state": state,
            "observed": {
                "node": "n1",
                "disks": [seen],
                "moves": [move],
                "throttle": {"wantedBytesPerSecond": rate},
            },
        },
    )


NOISE, NEWS, ALARM = Weight.NOISE, Weight.CHANGE, Weight.ALARM


@pytest.mark.parametrize(
    ("kind", "before", "after", "weight"),
    [
        pytest.param(NODE, node(), node(beat="2"), NOISE, id="a node's heartbeat"),
        pytest.param(NODE, node(), node(ready="False"), NEWS, id="a node fails"),
        pytest.param(NODE, node(), node(zone="b"), NEWS, id="a node moves"),
        pytest.param(KAFKA_CLUSTER, obj(status={"a": 1}), obj(status={"a": 2}), NOISE, id="our own status"),
        pytest.param(KAFKA_CLUSTER, obj(spec={"a": 1}), obj(spec={"a": 2}), NEWS, id="the user's wish"),
        pytest.param(
            POD, obj(status={"phase": "Pending"}), obj(status={"phase": "Running"}), NEWS, id="a pod runs"
        ),
        pytest.param(KAFKA_BROKER, broker(), broker(state="Degraded"), NOISE, id="our words of a broker"),
        pytest.param(KAFKA_BROKER, broker(), broker(usedBytes=2), NOISE, id="a disk fills"),
        pytest.param(
            KAFKA_BROKER, broker(), broker(message="11 s"), NOISE, id="the same verdict, in numbers"
        ),
        pytest.param(KAFKA_BROKER, broker(), broker(copied=2), NOISE, id="a copy gets on"),
        pytest.param(KAFKA_BROKER, broker(), broker(rate=8), NEWS, id="an agent wants another throttle"),
        pytest.param(KAFKA_BROKER, broker(), broker(moved="Done"), NEWS, id="a copy is done"),
        pytest.param(KAFKA_BROKER, broker(), broker(stopped=True), NEWS, id="a person stops a broker"),
        pytest.param(KAFKA_BROKER, broker(), broker(verdict="Failed"), ALARM, id="a disk dies"),
        pytest.param(KAFKA_BROKER, broker(), broker(fsUuid="f-2"), ALARM, id="another disk in the slot"),
        pytest.param(
            KAFKA_BROKER, obj(spec={}), obj(spec={}, status={"state": "Running"}), NOISE, id="no agent"
        ),
    ],
)
def test_what_is_news(kind: Any, before: Any, after: Any, weight: Weight) -> None:
    digests = Digests()
    assert digests.classify(kind, "ADDED", before) is NEWS
    assert digests.classify(kind, "MODIFIED", after) is weight
    assert digests.classify(kind, "MODIFIED", after) is NOISE


def test_a_deletion_is_news_and_is_forgotten() -> None:
    digests = Digests()
    assert digests.classify(POD, None, obj()) is NEWS
    assert digests.classify(POD, "DELETED", obj()) is NEWS
    assert digests.classify(POD, "ADDED", obj()) is NEWS


def test_kopf_writes_nothing_and_watches_by_label() -> None:
    settings = handlers.settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.watching.server_timeout == 300
    assert settings.watching.inactivity_timeout == 70
    assert set(settings.watching.label_selectors.values()) == {"spindle.dev/cluster"}
