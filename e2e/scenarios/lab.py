"""Helpers of scenarios: kubectl on a real cluster, waits with useful failure messages, and Spindle's command line."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
CLUSTER: Final = "demo"
SYSTEM: Final = "spindle-system"
SAMPLE: Final = ROOT / "examples" / "quickstart.yaml"
_FETCHING: Final = (
    'exec 3<>"/dev/tcp/$(hostname -i)/9404"; printf "GET /metrics HTTP/1.0\\r\\n\\r\\n" >&3; '
    "grep -E '^kafka_server_replica[a-z]*manager_[a-z]*(count|lag|partitions|rate)' <&3"
)


class LabError(AssertionError):
    """A condition was not met in time; with the state of the cluster."""


@dataclass(frozen=True)
class Lab:
    """One namespace of a real cluster.

    Attributes:
        kubectl_command: the program and its first arguments.
        kubeconfig: None for the environment's.
    """

    kubectl_command: tuple[str, ...]
    kubeconfig: Path | None
    namespace: str
    told: list[str] = field(default_factory=list)

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True, timeout: float = 60) -> str:
        """Run kubectl in the scenario's namespace and return its output."""
        done = subprocess.run(
            [*self.kubectl_command, "--namespace", self.namespace, *args],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise LabError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout if check else done.stdout + done.stderr

    def environment(self) -> dict[str, str]:
        """Environment for programs that find the cluster by KUBECONFIG."""
        return dict(os.environ) | ({"KUBECONFIG": str(self.kubeconfig)} if self.kubeconfig else {})

    def spindle(self, *args: str, timeout: float = 300) -> str:
        """Run Spindle's command line as a user would."""
        done = subprocess.run(
            [sys.executable, "-m", "spindle_cli.main", *args],
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise LabError(f"spindle {' '.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """One object; None if there is none."""
        text = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def the(self, kind: str, name: str) -> dict[str, Any]:
        """One object that must exist."""
        found = self.get(kind, name)
        if found is None:
            raise LabError(f"there is no {kind} {name}")
        return found

    def list(self, kind: str, selector: str | None = None) -> list[dict[str, Any]]:
        """All objects of a kind."""
        chosen = ("-l", selector) if selector else ()
        return list(json.loads(self.kubectl("get", kind, "-o", "json", *chosen))["items"])

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects as a user does."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def patch(self, kind: str, name: str, body: Mapping[str, Any]) -> None:
        """Merge-patch an object."""
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(body))

    def apply_status(self, kind: str, name: str, status: Mapping[str, Any]) -> None:
        """Merge-patch an object's status, in place of the program that writes it."""
        body = json.dumps({"status": status})
        self.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", body)

    def until(self, what: str, holds: Callable[[], Any], seconds: float = 120) -> float:
        """Wait until a condition holds; returns how many seconds it took.

        Raises:
            LabError: it did not hold in time; with the state of the cluster.
        """
        began = time.monotonic()
        last: Exception | None = None
        while time.monotonic() - began < seconds:
            try:
                if holds():
                    return time.monotonic() - began
            except (LabError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
                last = error
            pause(1.0)
        raise LabError(f"not within {seconds:.0f} s: {what} (last error: {last})\n{self.situation()}")

    def situation(self) -> str:
        """State of the cluster, for a failure's message."""
        cluster = self.get("kafkacluster", CLUSTER) or {}
        parts = [
            json.dumps(
                {k: v for k, v in (cluster.get("status") or {}).items() if k != "conditions"}, indent=1
            ),
            self.kubectl("get", "kafkabrokers,pods,pvc", "-o", "wide", check=False),
            self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False)[-4000:],
            self._not_ready(),
            self._operators(),
        ]
        return "\n".join(parts)

    def _not_ready(self) -> str:
        """Of each pod that is not ready: its conditions, the output of its readiness probe, its fetcher metrics, the end of its log."""
        parts = []
        for pod in self.list("pods", "spindle.dev/role"):
            conditions = pod["status"].get("conditions", ())
            if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                continue
            name = pod["metadata"]["name"]
            probe = pod["spec"]["containers"][0]["readinessProbe"]["exec"]["command"]
            parts += [
                f"{name}: {json.dumps(conditions)}",
                self.kubectl("exec", name, "-c", "kafka", "--", *probe, check=False),
                self.kubectl("exec", name, "-c", "kafka", "--", "bash", "-c", _FETCHING, check=False),
                self.kubectl("logs", name, "-c", "kafka", "--tail=60", check=False),
            ]
        return "\n".join(parts)

    def _operators(self) -> str:
        """Spindle's own pods, and the end of the operators' logs, including restarted containers."""
        operators = ("logs", "--all-pods", "--prefix", "--tail=30", "-n", SYSTEM, "deployment/spindle")
        parts = (
            self.kubectl(
                "get", "pods", "-A", "-l", "app.kubernetes.io/name=spindle", "-o", "wide", check=False
            ),
            self.kubectl(*operators, check=False),
            self.kubectl(*operators, "--previous", check=False),
        )
        return "\n".join(parts)

    # -- the KafkaCluster ------------------------------------------------------------------------------------------

    def cluster(self) -> dict[str, Any]:
        """The KafkaCluster."""
        return self.the("kafkacluster", CLUSTER)

    def status(self) -> dict[str, Any]:
        """Its status."""
        return self.cluster().get("status") or {}

    def condition(self, kind: str) -> dict[str, Any]:
        """One of its conditions; empty if there is none yet."""
        return next((c for c in self.status().get("conditions", ()) if c["type"] == kind), {})

    def waits(self) -> dict[str, dict[str, Any]]:
        """``status.waiting`` by reason."""
        return {wait["reason"]: wait for wait in self.status().get("waiting", ())}

    def until_ready(self, seconds: float = 360) -> float:
        """Wait until the KafkaCluster is ready and its current generation is in effect."""

        def ready() -> bool:
            cluster = self.cluster()
            status = cluster.get("status") or {}
            conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
            return (
                status.get("observedGeneration") == cluster["metadata"]["generation"]
                and conditions.get("Ready") == "True"
                and conditions.get("Reconciling") == "False"
            )

        return self.until("the KafkaCluster is ready", ready, seconds)

    def until_available(self, seconds: float = 360) -> float:
        """Wait until every partition of the KafkaCluster has a leader and enough in-sync replicas; brokers may still restart one by one."""
        return self.until(
            "the KafkaCluster is available",
            lambda: self.condition("Available").get("status") == "True",
            seconds,
        )

    def until_waiting(self, reason: str, seconds: float = 90) -> dict[str, Any]:
        """Wait until an entry of ``status.waiting`` has this reason; returns the entry."""
        self.until(f"an entry {reason} in status.waiting", lambda: reason in self.waits(), seconds)
        return self.waits()[reason]


def sample(**spec: Any) -> dict[str, Any]:
    """The twelve-line sample, with fields of its spec replaced."""
    cluster = dict(yaml.safe_load(SAMPLE.read_text()))
    cluster["spec"] = {**cluster["spec"], **spec}
    return cluster


def light(replicas: int) -> dict[str, Any]:
    """The sample's pool with this many brokers, each with small CPU requests for a small machine."""
    pool = dict(sample()["spec"]["brokerPools"][0])
    return pool | {"replicas": replicas, "jvm": {"heap": "320m", "options": ["-XX:TieredStopAtLevel=1"]}}


def pause(seconds: float) -> None:
    """Wait a little between two observations."""
    time.sleep(seconds)  # noqa: TID251 - a poll with a deadline


def client_pod(
    lab: Lab,
    name: str,
    image: str,
    program: str,
    environment: Mapping[str, str],
    *arguments: str,
    plain: bool = False,
) -> dict[str, Any]:
    """A pod that runs a Python program with the admin's credentials; if plain, for a Kafka that Spindle does not manage."""
    env = {"BOOTSTRAP": "" if plain else lab.status()["bootstrap"], **environment}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": lab.namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
            "containers": [
                {
                    "name": "client",
                    "image": image,
                    "command": ["python3", "-c", program, *arguments],
                    "env": [{"name": k, "value": v} for k, v in env.items()],
                    "volumeMounts": [{"name": "credentials", "mountPath": "/etc/spindle/credentials"}],
                }
            ],
            "volumes": [
                {
                    "name": "credentials",
                    "secret": {"secretName": f"{CLUSTER}-admin", "defaultMode": 288, "optional": plain},
                }
            ],
        },
    }


def run_client(
    lab: Lab, name: str, image: str, program: str, seconds: float = 120, *, plain: bool = False
) -> str:
    """Run a Python program in a pod with the admin's credentials; returns its output."""
    lab.apply(client_pod(lab, name, image, program, {}, plain=plain))
    try:
        lab.until(
            f"{name} ends",
            lambda: (
                ((lab.get("pod", name) or {}).get("status") or {}).get("phase") in ("Succeeded", "Failed")
            ),
            seconds,
        )
        return lab.kubectl("logs", name)
    finally:
        lab.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")


def names_of(objects: Sequence[Mapping[str, Any]]) -> set[str]:
    """Names of objects."""
    return {str(obj["metadata"]["name"]) for obj in objects}
