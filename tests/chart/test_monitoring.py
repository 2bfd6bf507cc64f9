"""How Prometheus finds the operator, the agents and Kafka."""

from typing import Any

import pytest

from spindle.api import names
from spindle.manifests.pods import broker_pod
from tests.chart.conftest import Render
from tests.unit.test_manifests_pods import BROKER, CLUSTER

SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/path": "/metrics"}


def monitors(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {made["metadata"]["name"]: made for made in objects if made["kind"] == "PodMonitor"}


def annotations(objects: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Of the operator's pods and of the agents'."""
    return [
        made["spec"]["template"]["metadata"].get("annotations") or {}
        for kind in ("Deployment", "DaemonSet")
        for made in objects
        if made["kind"] == kind
    ]


def test_without_the_prometheus_operator_annotations_say_where_metrics_are(render: Render) -> None:
    objects = render()
    assert annotations(objects) == [SCRAPED, SCRAPED]
    assert monitors(objects) == {}
    for made in objects:
        if made["kind"] in ("Deployment", "DaemonSet"):
            (container,) = made["spec"]["template"]["spec"]["containers"]
            assert str(container["ports"][0]["containerPort"]) == SCRAPED["prometheus.io/port"]


def test_an_annotation_of_the_values_wins(render: Render) -> None:
    values = ("podAnnotations.prometheus\\.io/scrape=no", "agent.podAnnotations.note=x")
    operator, agent = annotations(render(*values))
    assert operator["prometheus.io/scrape"] == "no"
    assert agent == {**SCRAPED, "note": "x"}


def test_with_pod_monitors_nothing_is_read_twice(render: Render) -> None:
    objects = render("metrics.podMonitor.enabled=true")
    assert annotations(objects) == [{}, {}]
    assert set(monitors(objects)) == {"spindle", "spindle-agent", "spindle-kafka"}
    for name in ("spindle", "spindle-agent"):
        (endpoint,) = monitors(objects)[name]["spec"]["podMetricsEndpoints"]
        # A metric's namespace and pod are those of what it is about.
        assert endpoint["honorLabels"] is True


@pytest.mark.parametrize(
    ("values", "selected"),
    [
        pytest.param((), {"matchNames": ["system"]}, id="its own namespace"),
        pytest.param(("watch.namespaces={a,b}",), {"matchNames": ["a", "b"]}, id="some namespaces"),
        pytest.param(("watch.all=true",), {"any": True}, id="all namespaces"),
    ],
)
def test_kafka_is_read_where_it_is_managed(
    render: Render, values: tuple[str, ...], selected: dict[str, Any]
) -> None:
    monitor = monitors(render("metrics.podMonitor.enabled=true", *values))["spindle-kafka"]
    assert monitor["metadata"]["namespace"] == "system"
    assert monitor["spec"]["namespaceSelector"] == selected


def test_the_monitor_of_kafka_fits_its_pods(render: Render) -> None:
    spec = monitors(render("metrics.podMonitor.enabled=true"))["spindle-kafka"]["spec"]
    there, roles = spec["selector"]["matchExpressions"]
    (endpoint,) = spec["podMetricsEndpoints"]
    assert there == {"key": names.LABEL_CLUSTER, "operator": "Exists"}
    assert roles["key"] == names.LABEL_ROLE
    assert set(roles["values"]) == {names.ROLE_BROKER, names.ROLE_CONTROLLER}
    assert endpoint["port"] in _ports()
    sources = [source for rule in endpoint["relabelings"] for source in rule["sourceLabels"]]
    for label in (names.LABEL_CLUSTER, names.LABEL_ROLE):
        assert f"__meta_kubernetes_pod_label_{label.replace('.', '_').replace('/', '_')}" in sources


def _ports() -> set[str]:
    """The names of a broker's ports."""
    made = broker_pod(CLUSTER, BROKER)
    assert made["metadata"]["labels"][names.LABEL_ROLE] == names.ROLE_BROKER
    return {port["name"] for port in made["spec"]["containers"][0]["ports"]}
