"""The real Prometheus operator accepts the chart's PodMonitors and alerts, and makes of them the scrape jobs that the metrics need."""

import base64
import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.build import ensure_discovering_prometheus, ensure_helm
from e2e.cluster.prometheus_operator import (
    SELECTED,
    VALUES,
    PrometheusOperator,
    prometheus,
    prometheus_operator,
)
from e2e.cluster.waiting import wait_for
from spindle.api import names
from tests.kube.conftest import ROOT
from tools.monitoring.alerts import ALERTS

pytestmark = [pytest.mark.kube, pytest.mark.slow]

SYSTEM: Final = "spindle-system"
NAME: Final = "main"
REFUSED: Final = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "PodMonitor",
    "metadata": {"name": "refused", "namespace": SYSTEM, "labels": SELECTED},
    "spec": {
        "selector": {},
        # A replacement without a target: what the API server takes and the operator refuses.
        "podMetricsEndpoints": [{"port": "http", "relabelings": [{"action": "replace", "regex": "(.+)"}]}],
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """An API server of its own: the operator reads objects of all namespaces."""
    with ApiServer() as fresh:
        yield fresh


@pytest.fixture(scope="module")
def operator(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusOperator]:
    """The operator, with a Prometheus, the chart's objects for it, and one that it must refuse."""
    log = tmp_path_factory.mktemp("operator") / "log"
    chart = str(ROOT / "charts/spindle")
    command = [str(ensure_helm()), "template", "spindle", chart, f"--namespace={SYSTEM}"]
    options = ["--set=watch.all=true", "--set=metrics.podMonitor.interval=45s", *VALUES]
    shown = [f"--show-only=templates/{name}.yaml" for name in ("podmonitor", "prometheusrule")]
    rendered = subprocess.run([*command, *options, *shown], capture_output=True, text=True, check=True)
    for namespace in (SYSTEM, "spindle-agents"):
        server.kubectl("create", "namespace", namespace)
    with prometheus_operator(server.kubectl, server.kubeconfig, log) as running:
        server.kubectl("apply", "-f", "-", stdin=rendered.stdout)
        server.kubectl("apply", "-f", "-", stdin=json.dumps(REFUSED))
        server.kubectl("apply", "-f", "-", stdin=json.dumps(prometheus(NAME, SYSTEM)))
        wait_for(
            "the configuration of Prometheus",
            lambda: running.counts("selected").get("PodMonitor") == 4 and read(server, "statefulsets"),
            seconds=60,
            detail=running.tail,
        )
        yield running


def read(server: ApiServer, kind: str, *options: str) -> list[dict[str, Any]]:
    return list(json.loads(server.kubectl("-n", SYSTEM, "get", kind, *options, "-o", "json"))["items"])


@pytest.fixture(scope="module")
def text(server: ApiServer, operator: PrometheusOperator) -> str:
    """The configuration file that the operator wrote."""
    secret = json.loads(server.kubectl("-n", SYSTEM, "get", "secret", f"prometheus-{NAME}", "-o", "json"))
    return gzip.decompress(base64.b64decode(secret["data"]["prometheus.yaml.gz"])).decode()


@pytest.fixture(scope="module")
def jobs(text: str) -> dict[str, dict[str, Any]]:
    return {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}


@pytest.fixture(scope="module")
def rules(server: ApiServer, operator: PrometheusOperator) -> list[str]:
    """The rule files that the operator wrote."""
    maps = read(server, "configmaps", f"--selector=prometheus-name={NAME}")
    return [content for found in maps for content in found["data"].values()]


def test_only_what_is_wrong_is_refused(server: ApiServer, operator: PrometheusOperator) -> None:
    assert operator.counts("selected") == {"PodMonitor": 4, "PrometheusRule": 1}
    assert operator.counts("rejected") == {"PodMonitor": 1}
    warnings = read(server, "events", "--field-selector=type=Warning")
    assert {(each["involvedObject"]["name"], each["reason"]) for each in warnings} == {
        ("refused", "InvalidConfiguration")
    }


def test_each_monitor_is_a_job_that_keeps_the_labels_of_metrics(jobs: dict[str, dict[str, Any]]) -> None:
    system, agents, kafka = (
        f"podMonitor/{SYSTEM}/spindle/0",
        "podMonitor/spindle-agents/spindle-agent/0",
        f"podMonitor/{SYSTEM}/spindle-kafka/0",
    )
    assert set(jobs) == {system, agents, kafka}
    for name, job in jobs.items():
        # namespace and pod of Spindle's metrics are those of the KafkaCluster and the broker. Kafka's own metrics have neither.
        assert job.get("honor_labels", False) is (name != kafka)
        assert job["metrics_path"] == "/metrics"
        assert job["scrape_interval"] == "45s"
    assert discovered(jobs[system]) == [SYSTEM]
    assert discovered(jobs[agents]) == ["spindle-agents"]
    assert discovered(jobs[kafka]) == []  # all namespaces


def discovered(job: dict[str, Any]) -> list[str]:
    """The namespaces in which a job looks for pods; none for all."""
    (search,) = job["kubernetes_sd_configs"]
    assert search["role"] == "pod"
    return list((search.get("namespaces") or {}).get("names") or ())


def test_the_job_of_kafka_labels_its_metrics(jobs: dict[str, dict[str, Any]]) -> None:
    relabelings = jobs[f"podMonitor/{SYSTEM}/spindle-kafka/0"]["relabel_configs"]
    targets = {each["target_label"]: each for each in relabelings if "target_label" in each}
    label = f"__meta_kubernetes_pod_label_{names.LABEL_CLUSTER.replace('.', '_').replace('/', '_')}"
    assert targets["kafka_cluster"]["source_labels"] == [label]
    assert targets["broker"]["regex"] == "broker;(.+)"
    kept = [each for each in relabelings if each.get("action") == "keep"]
    assert {
        "source_labels": ["__meta_kubernetes_pod_container_port_name"],
        "regex": "metrics",
        "action": "keep",
    } in kept
    (roles,) = (each for each in kept if any("spindle_dev_role" in name for name in each["source_labels"]))
    assert "broker|controller" in roles["regex"]


def test_prometheus_takes_the_configuration(text: str, rules: list[str], tmp_path: Path) -> None:
    promtool = ensure_discovering_prometheus() / "promtool"
    config = tmp_path / "prometheus.yaml"
    config.write_text(text)
    # Without a look at files: it names the token of a pod's service account.
    check(promtool, "config", "--syntax-only", config)
    for number, content in enumerate(rules):
        file = tmp_path / f"rules{number}.yaml"
        file.write_text(content)
        check(promtool, "rules", file)


def check(promtool: Path, *what: str | Path) -> None:
    done = subprocess.run([promtool, "check", *what], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_reaches_prometheus_unchanged(server: ApiServer, rules: list[str]) -> None:
    """The operator adds no condition: an alert is about KafkaClusters of all namespaces."""
    (ours,) = read(server, "prometheusrules")
    groups = [group for content in rules for group in yaml.safe_load(content)["groups"]]
    assert expressions(groups) == expressions(ours["spec"]["groups"])
    assert len(expressions(groups)) == len(ALERTS)


def expressions(groups: list[dict[str, Any]]) -> dict[str, str]:
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}
