from typing import Any

import pytest

from spindle_operator import handlers
from spindle_operator.handlers import Digests, cluster_of, wake
from spindle_operator.kinds import KAFKA_BROKER, KAFKA_CLUSTER, NODE, POD
from spindle_operator.loop import Loops


class Recorder(Loops):
    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def seen(self, namespace: str, name: str) -> None:
        self.calls.append(("seen", namespace, name))

    def wake(self, namespace: str, name: str) -> None:
        self.calls.append(("wake", namespace, name))

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


@pytest.mark.parametrize(
    ("kind", "before", "after", "news"),
    [
        pytest.param(NODE, node(), node(beat="2"), False, id="a node's heartbeat"),
        pytest.param(NODE, node(), node(ready="False"), True, id="a node fails"),
        pytest.param(NODE, node(), node(zone="b"), True, id="a node moves"),
        pytest.param(KAFKA_CLUSTER, obj(status={"a": 1}), obj(status={"a": 2}), False, id="our own status"),
        pytest.param(KAFKA_CLUSTER, obj(spec={"a": 1}), obj(spec={"a": 2}), True, id="the user's wish"),
        pytest.param(
            POD, obj(status={"phase": "Pending"}), obj(status={"phase": "Running"}), True, id="a pod runs"
        ),
    ],
)
def test_what_is_news(kind: Any, before: Any, after: Any, news: bool) -> None:
    digests = Digests()
    assert digests.is_news(kind, "ADDED", before)
    assert digests.is_news(kind, "MODIFIED", after) is news


def test_a_deletion_is_news_and_is_forgotten() -> None:
    digests = Digests()
    assert digests.is_news(POD, None, obj())
    assert digests.is_news(POD, "DELETED", obj())
    assert digests.is_news(POD, "ADDED", obj())


def test_kopf_writes_nothing_and_watches_by_label() -> None:
    settings = handlers.settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.watching.server_timeout == 300
    assert settings.watching.inactivity_timeout == 70
    assert set(settings.watching.label_selectors.values()) == {"spindle.dev/cluster"}
