"""The real Prometheus operator runs the chart's PodMonitors and alerts: scrapes, joins with other exporters, dashboards, an alert that arrives."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.alert_watch import Watch, a_disk_waits_for_its_replacement
from e2e.scenarios.disk_slot import Slot
from e2e.scenarios.install import AGENTS, namespace
from e2e.scenarios.lab import CLUSTER, ROOT, SYSTEM, Lab, light, run_client, sample
from e2e.scenarios.machine import Machine
from e2e.scenarios.monitoring import NAMESPACE, Stack, monitoring
from e2e.scenarios.records import CONNECT, RECORDS, write
from e2e.scenarios.stand import Stand
from tools.monitoring.alerts import ALERTS
from tools.monitoring.documented import documented_queries

pytestmark = pytest.mark.e2e

BOARDS: Final = sorted((ROOT / "charts/spindle/dashboards").glob("*.json"))
_QUERIES: Final = documented_queries()
_SOON: Final = 180.0  # the kubelet measures volumes once a minute, and a rate needs two scrapes
# Panels that are empty while a cluster is well, or until a disk has a forecast, and whether the fault of the last scenario fills them.
_MAY_BE_EMPTY: Final = {
    "Waiting": True,
    "Waiting for somebody": True,
    "Disks that are not Active": True,
    "Time until the threshold cordon, with the range of the forecast": False,
    "Growth": False,
    "Not answering for": False,
    "Moves between disks": False,
    "Corrupt segments": False,
    "Paused": False,
    "Agents without enough CPU time": False,
}

_COMMIT: Final = f"""{CONNECT}
from kafka.structs import OffsetAndMetadata
c = KafkaConsumer(group_id="readers", enable_auto_commit=False, **S)
first = TopicPartition("counted", 0)
c.assign([first])
end = c.end_offsets([first])[first]
c.commit({{first: OffsetAndMetadata(end, "", -1), TopicPartition("counted", 1): OffsetAndMetadata(0, "", -1),
          TopicPartition("counted", 2): OffsetAndMetadata(0, "", -1)}})
print("RESULT", end)
"""


@pytest.fixture(scope="module")
def watched(
    installed: Target, stands: Stand, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Stack, Lab]]:
    """The monitoring, and a cluster that was created when it was there."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    stands.close()
    with (
        monitoring(installed, tmp_path_factory.mktemp("monitoring"), "5s") as stack,
        namespace(installed, "monitored") as lab,
    ):
        lab.apply(sample(brokerPools=[light(3)], disks={"automaticShare": 100, "graceSeconds": 30}))
        lab.until_ready(600)
        yield stack, lab


@pytest.fixture
def stack(watched: tuple[Stack, Lab]) -> Stack:
    return watched[0]


@pytest.fixture
def kafka(watched: tuple[Stack, Lab]) -> Lab:
    """The cluster."""
    return watched[1]


def _nothing_is_refused(stack: Stack) -> None:
    assert not any(stack.operator.counts("rejected").values()), stack.operator.tail()


def test_every_target_is_up(stack: Stack, kafka: Lab) -> None:
    nodes = len(kafka.list("nodes"))
    wanted = {
        f"podMonitor/{SYSTEM}/spindle/0": 2,
        f"podMonitor/{AGENTS}/spindle-agent/0": nodes,
        f"podMonitor/{SYSTEM}/spindle-kafka/0": len(kafka.list("pods", "spindle.dev/role")),
        f"podMonitor/{NAMESPACE}/kube-state-metrics/0": 1,
        f"podMonitor/{NAMESPACE}/node-exporter/0": nodes,
        f"serviceMonitor/{NAMESPACE}/kubelet/0": nodes,
    }
    last: list[str] = []

    def up() -> bool:
        targets = stack.prometheus.ask("targets", state="active")["activeTargets"]
        last[:] = [f"{each['scrapeUrl']}: {each['lastError']}" for each in targets if each["health"] != "up"]
        return not last and Counter(each["scrapePool"] for each in targets) == wanted

    try:
        kafka.until("every target is up", up, 240)
    finally:
        print(last)
    _nothing_is_refused(stack)


def test_metrics_keep_their_labels(stack: Stack, kafka: Lab) -> None:
    disks = _disks(kafka)
    kafka.until("each disk has a series", lambda: set(map(_disk, _infos(stack, kafka))) == disks, _SOON)
    for info in _infos(stack, kafka):
        broker = kafka.the("kafkabroker", info["broker"])
        assert (info["namespace"], info["kafka_cluster"]) == (kafka.namespace, CLUSTER)
        assert (info["node"], info["rack"]) == (broker["spec"]["node"], broker["spec"]["rack"])
        assert info["pod"] == info["broker"]  # not the pod that exports it
    # A label that Prometheus renames is one that the job does not keep.
    renamed = '{__name__=~"(spindle|kafka)_.+", exported_namespace!=""}'
    assert stack.prometheus.query(renamed) == []
    assert stack.prometheus.query(renamed.replace("exported_namespace", "exported_pod")) == []
    brokers = {broker for broker, _ in disks}
    # Those of the agents, and Kafka's own.
    for metric in ("spindle_agent_disk_verdict", "kafka_server_replicamanager_leadercount"):
        kafka.until(f"{metric} of each broker", partial(_is_of, stack, metric, brokers), _SOON)
        assert _label(stack, metric, "namespace") == {kafka.namespace}
        assert _label(stack, metric, "kafka_cluster") == {CLUSTER}
    # A controller is no broker.
    active = f'kafka_controller_kafkacontroller_activecontrollercount{{namespace="{kafka.namespace}"}} == 1'
    kafka.until("a controller leads", lambda: _label(stack, active, "pod"), _SOON)
    assert _label(stack, active, "broker") == {""}


def _label(stack: Stack, expression: str, label: str) -> set[str]:
    """The values of a label of a query's series; an empty one where it is missing."""
    return {each["metric"].get(label, "") for each in stack.prometheus.query(expression)}


def _is_of(stack: Stack, metric: str, brokers: set[str]) -> bool:
    return _label(stack, metric, "broker") == brokers


def _disks(kafka: Lab) -> set[tuple[str, str]]:
    """Broker and name of each disk."""
    brokers = kafka.list("kafkabrokers")
    return {(each["metadata"]["name"], disk["name"]) for each in brokers for disk in each["spec"]["disks"]}


def _disk(labels: dict[str, str]) -> tuple[str, str]:
    return labels["broker"], labels["disk"]


def _infos(stack: Stack, kafka: Lab) -> list[dict[str, str]]:
    found = stack.prometheus.query(f'spindle_disk_info{{namespace="{kafka.namespace}"}}')
    return [each["metric"] for each in found]


@pytest.mark.parametrize("question", _QUERIES)
def test_a_query_of_the_documentation_has_an_answer_for_each_disk(
    stack: Stack, kafka: Lab, question: str
) -> None:
    query = _QUERIES[question]
    if "spindle_disk_info" not in query:
        kafka.until(question, lambda: stack.prometheus.query(query), _SOON)
        return
    disks = _disks(kafka)
    found: list[dict[str, Any]] = []

    def answered() -> bool:
        found[:] = stack.prometheus.query(query)
        return {_disk(each["metric"]) for each in found} == disks

    kafka.until(question, answered, _SOON)
    print(question, "\n".join(f"{each['metric']} {each['value'][1]}" for each in found), sep="\n")
    assert len(found) == len(disks)


def test_topics_and_consumer_groups_have_metrics(stack: Stack, kafka: Lab, spindle_image: str) -> None:
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kafka.list("pods", "spindle.dev/role")}
    kafka.patch(
        "kafkacluster",
        CLUSTER,
        {"spec": {"metrics": {"topics": ["counted"], "consumerLag": {"enabled": True}}}},
    )
    write(kafka, spindle_image, "counted")
    committed = run_client(kafka, "committer", spindle_image, _COMMIT).split("RESULT ", 1)[1].split()[0]
    of_topic = f'{{namespace="{kafka.namespace}",kafka_cluster="{CLUSTER}",topic="counted"}}'

    def total(metric: str) -> float:
        return sum(float(each["value"][1]) for each in stack.prometheus.query(metric + of_topic))

    kafka.until(
        "the group's lag", lambda: total("kafka_consumergroup_lag") == RECORDS - int(committed), _SOON
    )
    # The kubelet updates a pod's files within about two minutes.
    kafka.until("the topic's bytes", lambda: total("spindle_topic_replica_bytes") > 0, _SOON)
    messages = "kafka_server_brokertopicmetrics_messagesin_total"
    kafka.until(f"{messages} of the topic", lambda: total(messages) == RECORDS, _SOON)
    now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kafka.list("pods", "spindle.dev/role")}
    assert now == pods  # nothing restarted


def _expressions(board: dict[str, Any], kafka: Lab) -> list[tuple[str, str]]:
    """Title of the panel, and expression, with the variables of the dashboard as Grafana fills them in."""
    variables = {
        "$__rate_interval": "1m",
        "$namespace": kafka.namespace,
        "$kafka_cluster": CLUSTER,
    }
    found = []
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in variables.items():
                expression = expression.replace(name, value)
            found.append((panel["title"], expression))
    return found


@pytest.mark.parametrize("file", [pytest.param(file, id=file.stem) for file in BOARDS])
def test_every_panel_of_a_dashboard_shows_series(stack: Stack, kafka: Lab, file: Path) -> None:
    for title, expression in _expressions(json.loads(file.read_text()), kafka):
        if title in _MAY_BE_EMPTY:
            stack.prometheus.query(expression)  # an error would be raised
        else:
            kafka.until(f"{title}: {expression}", partial(stack.prometheus.query, expression), _SOON)


def test_every_alert_is_evaluated(stack: Stack, kafka: Lab) -> None:
    def rules() -> dict[str, dict[str, Any]]:
        groups = stack.prometheus.ask("rules", type="alert")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    names = {alert.name for alert in ALERTS}

    def evaluated() -> bool:
        found = rules()
        return set(found) == names and all(rule["health"] != "unknown" for rule in found.values())

    kafka.until("each alert is evaluated", evaluated, _SOON)
    found = rules()
    assert {name: rule.get("lastError") for name, rule in found.items() if rule["health"] != "ok"} == {}
    assert {rule["duration"] for rule in found.values()} == {5}  # the chart's metrics.rules.for


def test_an_alert_arrives_at_the_alertmanager_and_resolves(
    stack: Stack, kafka: Lab, machine: Machine
) -> None:
    alert = "SpindleWaitingTooLong"

    def arrived(slot: Slot) -> list[dict[str, str]]:
        named = (slot.owner, slot.disk, kafka.namespace)
        found = stack.arrived(alert)
        return [each for each in found if (each.get("broker"), each.get("disk"), each["namespace"]) == named]

    def meanwhile(slot: Slot) -> None:
        kafka.until("the alert is in the Alertmanager", lambda: arrived(slot), 90)
        for labels in arrived(slot):
            assert (labels["kafka_cluster"], labels["node"]) == (CLUSTER, slot.node())
        for file in BOARDS:
            for title, expression in _expressions(json.loads(file.read_text()), kafka):
                if _MAY_BE_EMPTY.get(title):
                    assert stack.prometheus.query(expression), title

    a_disk_waits_for_its_replacement(Watch(kafka, stack.prometheus), machine, meanwhile)
    kafka.until(
        "it is resolved in the Alertmanager",
        lambda: not any(each["namespace"] == kafka.namespace for each in stack.arrived(alert)),
        120,
    )
    _nothing_is_refused(stack)
