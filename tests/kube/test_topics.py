"""KafkaTopics on a real API server: nonsense does not pass, the record comes before the request to Kafka, and a namespace takes nothing along."""

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from spindle.api import names
from spindle.model.actions import CreateTopic, Patch
from spindle.model.events import ReconcilePlan
from spindle.model.freshness import FactsRead
from spindle_operator import act, loop, observe, report
from spindle_operator.kinds import KAFKA_TOPIC
from spindle_operator.kube import Kube
from tests.kube.api import Resources, refusal
from tests.kube.samples import cluster as sample_cluster

pytestmark = pytest.mark.kube


def topic(name: str = "orders", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaTopic",
        "metadata": {"name": name},
        "spec": {"cluster": "demo", **spec},
    }


def test_defaults_are_the_servers(resources: Resources) -> None:
    spec = resources.create(topic())["spec"]
    assert spec == {"cluster": "demo", "deletionPolicy": "Retain", "adopt": False}


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        pytest.param({"partitions": 0}, "spec.partitions", "from 1 to 10000", id="no-partitions"),
        pytest.param({"partitions": 20000}, "spec.partitions", "from 1 to 10000", id="too-many"),
        pytest.param({"replicas": 0}, "spec.replicas", "write for example 3", id="no-replicas"),
        pytest.param({"topicName": "a b"}, "spec.topicName", "write for example orders.v2", id="blank"),
        pytest.param({"topicName": ".."}, "spec.topicName", "write for example orders.v2", id="dots"),
        pytest.param({"topicName": "__offsets"}, "spec.topicName", "choose another name", id="internal"),
        pytest.param(
            {"config": {"Retention": "1"}}, "spec.config", "write for example retention.ms", id="key"
        ),
        pytest.param(
            {"config": {"leader.replication.throttled.replicas": "*"}},
            "spec.config",
            "remove them",
            id="throttled",
        ),
        pytest.param({"deletionPolicy": "Keep"}, "spec.deletionPolicy", "Retain", id="policy"),
    ],
)
def test_nonsense_does_not_pass(shared: Resources, spec: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(ApiException) as caught:
        shared.create(topic(**spec), dry=True)
    causes = refusal(caught.value).causes
    assert field in causes, causes
    assert any(said in message for message in causes[field]), causes


def test_what_cannot_change_and_what_only_grows(resources: Resources) -> None:
    stored = resources.create(topic(topicName="Orders_1", partitions=6))

    def change(**fields: Any) -> dict[str, Any]:
        now = resources.get(topic())
        return {**now, "spec": {**now["spec"], **fields}}

    for field, value in (("cluster", "other"), ("topicName", "Orders_2")):
        with pytest.raises(ApiException) as caught:
            resources.update(change(**{field: value}), dry=True)
        assert "create another KafkaTopic" in refusal(caught.value).message
    bare = change()
    del bare["spec"]["topicName"]
    with pytest.raises(ApiException):
        resources.update(bare, dry=True)

    resources.update(change(partitions=3))  # not created yet: a number that was a mistake can be corrected
    status = {"topicId": "AAAAAAAAAAAAAAAAAAAAAA", "partitions": 3, "topicName": "Orders_1"}
    resources.report({**topic(), "status": status}, names.FIELD_MANAGER)
    with pytest.raises(ApiException) as caught:
        resources.update(change(partitions=2), dry=True)
    assert "write status.partitions or more" in refusal(caught.value).message
    resources.update(change(partitions=4), dry=True)
    resources.update(change(adopt=True, deletionPolicy="Delete", config={"retention.ms": "5"}))
    assert resources.get(stored)["spec"]["config"] == {"retention.ms": "5"}


class Sent:
    """What Kafka is asked, and what the KafkaTopic says at that moment."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.annotations: list[dict[str, str]] = []

    async def carry_out(self, _: Any) -> None:
        self.annotations.append(self._resources.get(topic())["metadata"].get("annotations") or {})


def creation(stored: dict[str, Any], version: str | None = None) -> CreateTopic:
    body = {
        "metadata": {
            "annotations": {names.ANN_CREATING: "mark"},
            "finalizers": [names.FINALIZER_TOPIC],
        }
    }
    meta = stored["metadata"]
    record = Patch(
        kind="KafkaTopic",
        name=meta["name"],
        uid=meta["uid"],
        resource_version=version or meta["resourceVersion"],
        body=body,
        alone=True,
    )
    return CreateTopic(topic="orders", assignments=((0,),), configs={}, record=record)


@pytest.fixture
def actor_of(kube: Kube, namespace: str) -> Callable[[Sent], act.Actor]:
    """An actor with Kafka left out."""

    def make(sent: Sent) -> act.Actor:
        cluster = sample_cluster()
        cluster["metadata"] |= {"namespace": namespace, "uid": "u"}
        look = FactsRead(listed=True, at=float("inf"))
        return act.Actor(kube, cluster, sent, lambda: True, look=look)  # type: ignore[arg-type]

    return make


async def test_the_record_is_written_before_kafka_is_asked(
    kube: Kube, resources: Resources, actor_of: Callable[[Sent], act.Actor]
) -> None:
    stored, sent = resources.create(topic()), Sent(resources)
    actor = actor_of(sent)
    (result,) = await actor.run([creation(stored)])
    assert result.outcome == act.DONE
    assert sent.annotations == [{names.ANN_CREATING: "mark"}]
    assert resources.get(topic())["metadata"]["finalizers"] == [names.FINALIZER_TOPIC]

    # What is known of the topic by then can be told in the same pass.
    plan = ReconcilePlan(topic_statuses={"orders": {"topicName": "orders"}})
    parent = {**sample_cluster(), "status": {}}
    assert (await report.report(kube, parent, (), plan, topics=(stored,))).done == 0
    now = loop._at_version(stored, actor.version)
    assert (await report.report(kube, parent, (), plan, topics=(now,))).done == 1
    assert resources.get(stored)["status"]["topicName"] == "orders"


async def test_nothing_is_created_for_a_topic_that_changed_meanwhile(
    resources: Resources, actor_of: Callable[[Sent], act.Actor]
) -> None:
    stored, sent = resources.create(topic()), Sent(resources)
    version = stored["metadata"]["resourceVersion"]
    resources.update({**stored, "spec": {**stored["spec"], "partitions": 2}})
    results = await actor_of(sent).run([creation(stored, version)])
    assert [each.outcome for each in results] == [act.CONFLICT]
    assert not sent.annotations


async def test_a_namespace_that_is_being_deleted_is_told_from_one_that_is_not(
    kube: Kube, api_client: client.ApiClient, resources: Resources, namespace: str
) -> None:
    made = topic()
    made["metadata"]["finalizers"] = [names.FINALIZER_TOPIC]
    stored = resources.create(made)
    objects = client.CustomObjectsApi(api_client)
    objects.delete_namespaced_custom_object(names.GROUP, names.VERSION, namespace, "kafkatopics", "orders")
    going = [resources.get(stored)]
    assert await observe._namespace_ends(kube, namespace, going) is False
    assert await observe._namespace_ends(kube, namespace, [stored]) is None, "nobody asks without a reason"
    client.CoreV1Api(api_client).delete_namespace(namespace)
    assert await observe._namespace_ends(kube, namespace, going) is True
    assert await observe._namespace_ends(kube, "no-such", going) is None
    patched: dict[str, Any] = {"metadata": {"finalizers": []}}
    await kube.patch(KAFKA_TOPIC, namespace, "orders", patched)


async def test_the_status_fits_its_schema(kube: Kube, resources: Resources) -> None:
    """Strictly: a field that the definition does not know would be dropped, and written again in each pass."""
    stored = resources.create(topic())
    status = {
        "observedGeneration": 1,
        "topicName": "orders",
        "topicId": "AAAAAAAAAAAAAAAAAAAAAA",
        "partitions": 3,
        "replicas": 2,
        "racks": [{"name": "", "replicas": 6, "leaders": 3}],
        "outOfPlace": 0,
        "bytes": 123456789012,
        "config": ["retention.ms"],
        "drift": [{"key": "retention.ms", "wanted": "1"}],
        "held": ["retention.ms"],
        "conditions": [
            {
                "type": kind,
                "status": value,
                "reason": "SpecApplied",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
            for kind, value in (("Ready", "True"), ("Stalled", "False"))
        ],
    }
    parent = {**sample_cluster(), "status": {}}
    plan = ReconcilePlan(topic_statuses={"orders": status})
    written = await report.report(kube, parent, (), plan, topics=(stored,))
    assert written.done == 1
    assert resources.get(stored)["status"] == status
