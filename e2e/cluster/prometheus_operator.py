"""The real Prometheus operator, as a process next to a cluster, with its CustomResourceDefinitions."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from e2e.cluster.apiserver import free_ports
from e2e.cluster.build import ensure_monitoring
from e2e.cluster.layout import MONITORING_IMAGE
from e2e.cluster.procs import Process, spawn
from e2e.cluster.waiting import wait_for

SELECTED: Final = {"release": "prometheus"}  # the label by which `prometheus` selects monitors and rules
# What the chart creates for it, as docs/monitoring.md says.
VALUES: Final = tuple(
    f"--set=metrics.{kind}.{setting}"
    for kind in ("podMonitor", "rules")
    for setting in ("enabled=true", *(f"labels.{key}={value}" for key, value in SELECTED.items()))
)


@dataclass(frozen=True)
class PrometheusOperator:
    """The running operator.

    Attributes:
        port: of its HTTP server, on loopback.
        log: file of its log.
    """

    process: Process
    port: int
    log: Path

    def counts(self, state: str) -> dict[str, int]:
        """By kind of object, how many the Prometheus objects select (state ``selected``), or the operator refuses (``rejected``)."""
        return {
            labels["resource"]: int(value)
            for labels, value in self._samples("prometheus_operator_managed_resources")
            if labels["state"] == state and value
        }

    def ready(self) -> bool:
        """Whether it has read all objects and looks after Prometheus objects."""
        ready = self._samples("prometheus_operator_ready")
        return any(labels["controller"] == "prometheus" and value for labels, value in ready)

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4000:]

    def _samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values of one of its own metrics."""
        return [
            (sample.labels, sample.value)
            for family in text_string_to_metric_families(self._metrics())
            for sample in family.samples
            if sample.name == name
        ]

    def _metrics(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return ""  # it does not serve yet


@contextmanager
def prometheus_operator(
    kubectl: Callable[..., str], kubeconfig: Path, log: Path, *options: str
) -> Iterator[PrometheusOperator]:
    """Install the CustomResourceDefinitions and run the operator until the block ends; both are removed then, with all objects of theirs.

    Args:
        kubectl: runs kubectl as administrator.
        kubeconfig: of an administrator.
        log: file for the operator's log.
        options: additional options of the operator.
    """
    folder = ensure_monitoring()
    crds = ("-f", str(folder / "crds"))
    kubectl("apply", "--server-side", *crds)
    try:
        kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
        (port,) = free_ports(1)
        command: list[str | Path] = [
            folder / "prometheus-operator",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--prometheus-config-reloader={MONITORING_IMAGE}",
            # By default it may use a hundredth of a CPU, and a pod waits for it.
            "--config-reloader-cpu-limit=0",
            *options,
        ]
        process = spawn(command, log, env={"KUBECONFIG": str(kubeconfig)}, dies_with_us=True)
        made = PrometheusOperator(process, port, log)
        try:
            wait_for(
                "the Prometheus operator",
                lambda: not process.alive() or made.ready(),
                seconds=90,
                detail=made.tail,
            )
            if not process.alive():
                raise RuntimeError(f"the Prometheus operator ended at once:\n{made.tail()}")
            yield made
        finally:
            process.stop(grace=20)
    finally:
        kubectl("delete", "--wait=false", *crds)


def prometheus(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A ``Prometheus`` that selects monitors and rules of all namespaces by the label `SELECTED`.

    Args:
        spec: further fields of its spec.
    """
    kinds = ("podMonitor", "serviceMonitor", "rule")
    chosen: Mapping[str, Any] = {
        **{f"{kind}Selector": {"matchLabels": SELECTED} for kind in kinds},
        **{f"{kind}NamespaceSelector": {} for kind in kinds},
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "Prometheus",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, **chosen, **spec},
    }
