"""The Prometheus operator on the testbed, with what it runs, and the exporters that Spindle's metrics are joined with.

The operator is a process on this machine. A Prometheus, an Alertmanager, kube-state-metrics and node_exporters run in pods.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.cluster import versions
from e2e.cluster.images import ensure_monitoring_image
from e2e.cluster.layout import MONITORING_IMAGE
from e2e.cluster.prometheus_operator import (
    SELECTED,
    VALUES,
    PrometheusOperator,
    prometheus,
    prometheus_operator,
)
from e2e.cluster.testbed import Testbed
from e2e.scenarios.install import upgrade
from e2e.scenarios.lab import Lab
from e2e.scenarios.prometheus import Prometheus, fetch

NAMESPACE: Final = "monitoring"
EVERY: Final = "10s"
_NAME: Final = "main"
_BIN: Final = "/usr/bin"
_ALERTMANAGER: Final = "0.25.0"  # Debian's
_KUBELETS: Final = (
    "kube-system",
    "kubelet",
)  # namespace and name of the Service whose endpoints the operator keeps
_NOBODY: Final = {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
_API: Final = "monitoring.coreos.com/v1"
Object = dict[str, Any]


@dataclass(frozen=True)
class Stack:
    """What runs.

    Attributes:
        lab: the namespace of its pods.
        alertmanager: host and port.
    """

    lab: Lab
    testbed: Testbed
    operator: PrometheusOperator
    prometheus: Prometheus
    alertmanager: str

    def arrived(self, alert: str) -> list[dict[str, str]]:
        """Labels of an alert's instances that are active in the Alertmanager."""
        found = fetch(self.testbed, self.alertmanager, "/api/v2/alerts", active="true")
        return [each["labels"] for each in found if each["labels"]["alertname"] == alert]


@contextmanager
def monitoring(testbed: Testbed, folder: Path, lasts: str) -> Iterator[Stack]:
    """Run all of it until the block ends, with Spindle's chart upgraded to be monitored by it; the chart is as before afterwards.

    Args:
        testbed: with Spindle.
        folder: for the operator's log.
        lasts: how long expressions must hold before an alert fires.
    """
    testbed.give(ensure_monitoring_image())
    lab = Lab((str(testbed.kubectl_program()),), testbed.kubeconfig, NAMESPACE)
    log = folder / "prometheus-operator.log"
    kubelets = f"--kubelet-service={_KUBELETS[0]}/{_KUBELETS[1]}"
    with ExitStack() as undo:
        undo.callback(_forget_kubelets, testbed)  # when the operator no longer keeps them
        operator = undo.enter_context(prometheus_operator(testbed.kubectl, testbed.kubeconfig, log, kubelets))
        lab.kubectl("create", "namespace", NAMESPACE)
        undo.callback(_remove, lab)
        lab.apply(*_rights(), *_exporters(), *_servers())
        undo.callback(upgrade, testbed)
        chosen = (f"--set=metrics.podMonitor.interval={EVERY}", f"--set=metrics.rules.for={lasts}")
        upgrade(testbed, *VALUES, *chosen)
        yield _started(lab, testbed, operator)


def _remove(lab: Lab) -> None:
    lab.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(_rights()))
    lab.kubectl("delete", "namespace", NAMESPACE, "--timeout=180s", timeout=190)


def _forget_kubelets(testbed: Testbed) -> None:
    namespace, service = _KUBELETS
    testbed.kubectl("delete", "service,endpoints", service, "--ignore-not-found", f"--namespace={namespace}")


def _started(lab: Lab, testbed: Testbed, operator: PrometheusOperator) -> Stack:
    """Wait until every pod is ready."""
    servers = {kind: f"{kind}-{_NAME}" for kind in ("prometheus", "alertmanager")}
    for kind, name in (
        *(("statefulset", name) for name in servers.values()),
        ("deployment", "kube-state-metrics"),
        ("daemonset", "node-exporter"),
    ):
        lab.until(f"the {kind} {name} is ready", partial(_is_ready, lab, kind, name), 300)
    address = {kind: lab.the("pod", f"{name}-0")["status"]["podIP"] for kind, name in servers.items()}
    asked = Prometheus(testbed, f"{address['prometheus']}:9090")
    return Stack(lab, testbed, operator, asked, f"{address['alertmanager']}:9093")


def _is_ready(lab: Lab, kind: str, name: str) -> bool:
    """Whether all pods of a StatefulSet, Deployment or DaemonSet are ready."""
    status = lab.the(kind, name).get("status") or {}
    on_nodes = kind == "daemonset"
    wanted = int(status.get("desiredNumberScheduled" if on_nodes else "replicas", 0))
    return 0 < wanted == int(status.get("numberReady" if on_nodes else "readyReplicas", 0))


def _rights() -> list[Object]:
    """What Prometheus and kube-state-metrics may read; not in a namespace."""
    reads = ["get", "list", "watch"]
    rights = {
        "prometheus": [
            {"apiGroups": [""], "resources": ["nodes", "nodes/metrics", "services", "endpoints", "pods"], "verbs": reads},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": reads},
        ],
        "kube-state-metrics": [
            {"apiGroups": [""], "resources": ["pods", "persistentvolumeclaims", "persistentvolumes"], "verbs": reads},
        ],
    }  # fmt: skip
    found: list[Object] = []
    for name, rules in rights.items():
        meta = {"name": f"{NAMESPACE}-{name}"}
        account = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **meta}
        kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": meta}
        found += [
            {**kind, "kind": "ClusterRole", "rules": rules},
            {**kind, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account]},
        ]
    return found


def _servers() -> list[Object]:
    """The Prometheus and the Alertmanager, as objects of the operator."""
    common = {"image": MONITORING_IMAGE, "replicas": 1, "securityContext": _NOBODY}
    made = prometheus(
        _NAME,
        NAMESPACE,
        **common,
        version=versions.PROMETHEUS,
        containers=[{"name": "prometheus", "command": [f"{_BIN}/prometheus"]}],
        serviceAccountName="prometheus",
        scrapeInterval=EVERY,
        evaluationInterval="5s",
        resources=_needs("200Mi"),
        alerting={
            "alertmanagers": [{"namespace": NAMESPACE, "name": "alertmanager-operated", "port": "web"}]
        },
    )
    alertmanager = {
        "apiVersion": _API,
        "kind": "Alertmanager",
        "metadata": {"name": _NAME},
        "spec": {
            **common,
            "version": _ALERTMANAGER,
            "containers": [{"name": "alertmanager", "command": [f"{_BIN}/prometheus-alertmanager"]}],
            "resources": _needs("50Mi"),
        },
    }
    return [_account("prometheus"), made, alertmanager]


def _exporters() -> list[Object]:
    """kube-state-metrics, a node_exporter on each node, and what tells Prometheus of them and of the kubelets."""
    state = ["--resources=pods,persistentvolumeclaims,persistentvolumes"]
    node = [
        "--path.procfs=/host/proc",
        "--path.sysfs=/host/sys",
        "--path.rootfs=/host",
        "--collector.disable-defaults",
        "--collector.diskstats",
        # The disks of the testbed are loop devices, which are left out by default; and Debian's program leaves out /mnt.
        r"--collector.diskstats.device-exclude=^(ram|fd)\d+$",
        "--collector.filesystem",
        "--collector.filesystem.mount-points-exclude=^/(dev|proc|run|sys)($|/)",
        "--web.listen-address=:8080",
    ]
    root = {"name": "root", "mountPath": "/host", "readOnly": True, "mountPropagation": "HostToContainer"}
    on_node = _pods("node-exporter", _container("prometheus-node-exporter", node) | {"volumeMounts": [root]})
    on_node["template"]["spec"] |= {
        "hostPID": True,
        "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
    }
    of_state = _pods("kube-state-metrics", _container("kube-state-metrics", state))
    of_state["template"]["spec"] |= {
        "serviceAccountName": "kube-state-metrics",
        "securityContext": _NOBODY,
    }
    named = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
    return [
        _account("kube-state-metrics"),
        {"apiVersion": "apps/v1", "kind": "Deployment", **_named("kube-state-metrics"), "spec": of_state},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", **_named("node-exporter"), "spec": on_node},
        _monitor("kube-state-metrics", honorLabels=True),
        _monitor("node-exporter", relabelings=[named]),
        _kubelets(),
    ]


def _kubelets() -> Object:
    """The kubelets, by the Service that the operator keeps for them."""
    namespace, service = _KUBELETS
    endpoint = {
        "port": "https-metrics",
        "scheme": "https",
        "interval": EVERY,
        "honorLabels": True,
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": {"insecureSkipVerify": True},
    }
    spec = {
        "namespaceSelector": {"matchNames": [namespace]},
        "selector": {"matchLabels": {"app.kubernetes.io/name": service}},
        "endpoints": [endpoint],
    }
    return {"apiVersion": _API, "kind": "ServiceMonitor", **_named(service), "spec": spec}


def _monitor(name: str, **endpoint: Any) -> Object:
    """A PodMonitor of the pods of this name."""
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "podMetricsEndpoints": [{"port": "http", "interval": EVERY, **endpoint}],
    }
    return {"apiVersion": _API, "kind": "PodMonitor", **_named(name), "spec": spec}


def _pods(name: str, container: Mapping[str, Any]) -> Object:
    """Spec of a Deployment or DaemonSet with one container."""
    labels = {"app": name}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 5}
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


def _container(program: str, arguments: list[str]) -> Object:
    return {
        "name": "main",
        "image": MONITORING_IMAGE,
        "command": [f"{_BIN}/{program}", *arguments],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": _needs("30Mi"),
    }


def _needs(memory: str) -> Object:
    return {"requests": {"cpu": "10m", "memory": memory}}


def _account(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", **_named(name)}


def _named(name: str) -> Object:
    return {"metadata": {"name": name, "labels": SELECTED}}
