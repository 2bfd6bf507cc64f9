"""A pod template reaches the brokers of its pool under load; one that a policy refuses stops none of them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from e2e.cluster import versions
from e2e.scenarios.disk_slot import conclude
from e2e.scenarios.lab import CLUSTER, Lab, pause
from e2e.scenarios.load import Topic, load
from e2e.scenarios.stand import THREE, Stand
from e2e.scenarios.test_rolls import pods
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_ROLL: Final = 600  # seconds for a rolling restart of three brokers on a small machine
_HELD: Final = 45  # seconds for which a refused template is watched to stop nothing
_REFUSED: Final = "no-teams-of-the-scenario"
_IDLE: Final = "trap 'exit 0' TERM; while :; do sleep 5 & wait $!; done"
_TEMPLATE: Final[dict[str, Any]] = {
    "metadata": {"labels": {"team": "payments"}, "annotations": {"example.com/cost-centre": "4711"}},
    "spec": {
        "terminationGracePeriodSeconds": 900,
        "volumes": [{"name": "shared", "emptyDir": {}}],
        "containers": [
            {
                "name": "kafka",
                "env": [{"name": "TZ", "value": "Europe/Berlin"}],
                "volumeMounts": [{"name": "shared", "mountPath": "/mnt/shared"}],
            },
            {
                "name": "agent",
                "image": f"apache/kafka:{versions.KAFKA}",
                "command": ["/bin/sh", "-c", _IDLE],
                "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
                "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
            },
        ],
    },
}


def give(lab: Lab, template: dict[str, Any]) -> None:
    """Set the template of the only pool."""
    (pool,) = lab.cluster()["spec"]["brokerPools"]
    lab.patch("kafkacluster", CLUSTER, {"spec": {"brokerPools": [{**pool, "podTemplate": template}]}})


@contextmanager
def no_teams(lab: Lab) -> Iterator[None]:
    """A policy of an administrator: no pod of this namespace has the label team."""
    api = "admissionregistration.k8s.io/v1"
    pod_creation = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _REFUSED},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [pod_creation]},
            "validations": [
                {
                    "expression": "!has(object.metadata.labels) || !('team' in object.metadata.labels)",
                    "message": "pods here have no team",
                }
            ],
        },
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": lab.namespace}}}
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": _REFUSED},
        "spec": {"policyName": _REFUSED, "validationActions": ["Deny"], "matchResources": here},
    }
    lab.apply(policy, binding)
    try:
        lab.until("the policy is in force", lambda: not _takes_team(lab), 60)
        yield
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            lab.kubectl("delete", kind, _REFUSED)


def _takes_team(lab: Lab) -> bool:
    """Whether the API server takes a pod with the label that only the policy forbids."""
    container = {
        "name": "probe",
        "image": "none",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": {"team": "x"}},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        },
    }
    told = lab.kubectl(
        *("create", "--dry-run=server", "-o", "name", "-f", "-"), stdin=json.dumps(probe), check=False
    )
    return "pod/probe" in told


def containers(lab: Lab, pod: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in lab.the("pod", pod)["spec"]["containers"]}


def test_a_template_rolls_its_pool_and_a_refused_one_nothing(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(THREE)
    brokers = [f"{CLUSTER}-broker-{number}" for number in range(3)]
    before = pods(lab)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("templates", partitions=12), rate=20) as running,
    ):
        with no_teams(lab):
            timeline.mark("a template that the policy refuses")
            give(lab, _TEMPLATE)
            wait = lab.until_waiting("PodTemplateRefused")
            assert "pods here have no team" in wait["message"]
            assert "spec.brokerPools[main].podTemplate" in wait["unblockedBy"]
            held_until = time.monotonic() + _HELD
            while time.monotonic() < held_until:
                assert pods(lab) == before
                pause(3.0)
            running.until_more()
        began = timeline.mark("the policy is gone")
        lab.until("every broker has the template", lambda: all(_has(lab, pod) for pod in brokers), _ROLL)
        lab.until_ready(300)
        print(f"three brokers had the template {time.time() - began:.0f} s after the policy was gone")
        after = pods(lab)
        assert {pod for pod in before if after[pod] != before[pod]} == set(brokers)
        for pod in brokers:
            found = containers(lab, pod)
            assert {"name": "TZ", "value": "Europe/Berlin"} in found["kafka"]["env"]
            assert found["agent"]["securityContext"]["allowPrivilegeEscalation"] is False
            assert lab.the("pod", pod)["spec"]["terminationGracePeriodSeconds"] >= 900
            lab.kubectl("exec", pod, "-c", "agent", "--", "touch", f"/shared/{pod}")
            assert pod in lab.kubectl("exec", pod, "-c", "kafka", "--", "ls", "/mnt/shared")
        conclude(running, timeline, began)
        give(lab, {})
        lab.until("no broker has it any more", lambda: not any(_has(lab, pod) for pod in brokers), _ROLL)
        lab.until_ready(300)


def _has(lab: Lab, pod: str) -> bool:
    found = lab.get("pod", pod)
    return found is not None and (found["metadata"].get("labels") or {}).get("team") == "payments"
