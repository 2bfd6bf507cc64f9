"""A Prometheus that scenarios ask, and Debian's Prometheus next to the testbed: it finds pods by their annotations and evaluates the chart's alerts."""

import json
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.cluster.build import ensure_helm, ensure_prometheus
from e2e.cluster.testbed import Testbed
from e2e.scenarios.lab import ROOT, SYSTEM, Lab, LabError

_ADDRESS: Final = "127.0.0.1:9099"  # in the network of the control plane
_ASK: Final = """
import sys, urllib.error, urllib.request
try:
    answer = urllib.request.urlopen(sys.argv[1], timeout=20)
except urllib.error.HTTPError as error:
    answer = error  # its body says what is wrong
sys.stdout.write(answer.read().decode())
"""
_EVERY: Final = "2s"


def fetch(testbed: Testbed, address: str, path: str, **parameters: str) -> Any:
    """The parsed answer of an HTTP server to which pods have access.

    Raises:
        LabError: it does not answer, or not with JSON.
    """
    url = f"http://{address}{path}?{urllib.parse.urlencode(parameters)}"
    command = testbed.inside(sys.executable, "-c", _ASK, url)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise LabError(f"{url}: {done.stdout[-500:]}{done.stderr[-500:]}") from error


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus.

    Attributes:
        address: its host and port, in the network of the control plane.
    """

    testbed: Testbed
    address: str = _ADDRESS

    def ask(self, what: str, **parameters: str) -> Any:
        """The data of an answer of its API.

        Raises:
            LabError: it does not answer, or refuses the question; with its reason.
        """
        answer = fetch(self.testbed, self.address, f"/api/v1/{what}", **parameters)
        if answer["status"] != "success":
            raise LabError(f"{parameters}: {answer.get('error')}")
        return answer["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query: ``metric`` has the labels, ``value`` the time and the value.

        Raises:
            LabError: it does not answer, or the query is wrong.
        """
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def firing(self, alert: str, namespace: str = "") -> list[dict[str, str]]:
        """The labels of an alert's firing instances, of the clusters in a namespace or of all."""
        where = f', namespace="{namespace}"' if namespace else ""
        found = self.query(f'ALERTS{{alertname="{alert}", alertstate="firing"{where}}}')
        return [each["metric"] for each in found]

    def ever_fired(self, seconds: float) -> set[str]:
        """The alerts that fired within the last seconds."""
        expression = f'max_over_time(ALERTS{{alertstate="firing"}}[{int(seconds)}s])'
        return {each["metric"]["alertname"] for each in self.query(expression)}


@contextmanager
def prometheus(lab: Lab, testbed: Testbed, folder: Path, lasts: str = "") -> Iterator[Prometheus]:
    """Run Prometheus until the block ends.

    Args:
        lab: the cluster's namespace.
        testbed: on which it runs.
        folder: for its files.
        lasts: how long expressions must hold before an alert fires; empty for the chart's own times.
    """
    (folder / "rules.yaml").write_text(yaml.safe_dump(_rules(lasts)))
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump(_config()))
    program = ensure_prometheus() / "prometheus"
    options = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={_ADDRESS}",
        "--log.level=warn",
    )
    listing = _Targets(lab, folder / "targets.json")
    listing.start()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(testbed.inside(program, *options), stdout=log, stderr=log)
        try:
            made = Prometheus(testbed)
            lab.until("Prometheus has scraped the operator", lambda: made.query("spindle_leader == 1"), 60)
            yield made
        finally:
            process.terminate()
            process.wait(30)
            listing.stop()


def _rules(lasts: str) -> Mapping[str, Any]:
    command = [str(ensure_helm()), "template", "spindle", "charts/spindle", "--namespace", SYSTEM]
    values = ["--set=metrics.rules.enabled=true", *([f"--set=metrics.rules.for={lasts}"] if lasts else [])]
    shown = ["--show-only", "templates/prometheusrule.yaml"]
    done = subprocess.run([*command, *values, *shown], cwd=ROOT, capture_output=True, text=True, check=True)
    spec: Mapping[str, Any] = yaml.safe_load(done.stdout)["spec"]
    return spec


def _config() -> dict[str, Any]:
    """A scrape job like the usual one for annotated pods. Debian's Prometheus has no service discovery of Kubernetes, so `_Targets` does its part."""
    job = {
        "job_name": "pods",
        "honor_labels": True,
        "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": _EVERY}],
    }
    return {
        "global": {"scrape_interval": _EVERY, "scrape_timeout": _EVERY, "evaluation_interval": _EVERY},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [job],
    }


class _Targets(threading.Thread):
    """Keeps the list of annotated pods up to date."""

    def __init__(self, lab: Lab, file: Path) -> None:
        super().__init__(name="targets", daemon=True)
        self._lab, self._file = lab, file
        self._stop_now = threading.Event()

    def run(self) -> None:
        """List them every few seconds."""
        while not self._stop_now.is_set():
            try:
                pods = json.loads(self._lab.kubectl("get", "pods", "--all-namespaces", "-o", "json"))["items"]
            except (LabError, subprocess.TimeoutExpired):
                pods = None  # the API server does not answer: the list stays as it is
            if pods is not None:
                new = self._file.with_suffix(".new")
                new.write_text(json.dumps(targets(pods)))
                new.rename(self._file)
            self._stop_now.wait(3)

    def stop(self) -> None:
        """End it."""
        self._stop_now.set()
        self.join()


def targets(pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Prometheus' target groups of the pods that carry the annotations and have an address."""
    found = []
    for pod in pods:
        meta, address = pod["metadata"], pod["status"].get("podIP")
        annotations = meta.get("annotations") or {}
        if annotations.get("prometheus.io/scrape") == "true" and address:
            labels = {
                "namespace": meta["namespace"],
                "pod": meta["name"],
                "__metrics_path__": annotations["prometheus.io/path"],
            }
            if cluster := (meta.get("labels") or {}).get("spindle.dev/cluster"):
                labels["kafka_cluster"] = cluster
            found.append({"targets": [f"{address}:{annotations['prometheus.io/port']}"], "labels": labels})
    return found
