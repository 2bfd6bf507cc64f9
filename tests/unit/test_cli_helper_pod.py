from collections.abc import Iterator
from typing import Any

import pytest

from spindle.api.cluster import KafkaCluster
from spindle_cli import helper_pod
from spindle_cli.kube import KubeError
from tests.unit import cli_samples as samples


class Kube:
    """A Kubernetes whose only pod goes through the states that it is given."""

    def __init__(
        self, *states: dict[str, Any], cluster: dict[str, Any] | None = None, logs: list[list[str]]
    ) -> None:
        self.states = list(states)
        self.raw = cluster or samples.ready()
        self.logs = logs
        self.created: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.leftovers: list[dict[str, Any]] = []

    def cluster(self, name: str) -> KafkaCluster:
        return KafkaCluster.parse(self.raw)

    def pods(self, selector: str) -> list[dict[str, Any]]:
        if selector == "app.kubernetes.io/name=spindle-client":
            return self.leftovers
        return [
            {
                "spec": {"initContainers": [{"name": "inspect", "image": "spindle:9"}]},
                "metadata": {"name": "x"},
            }
        ]

    def create_pod(self, manifest: dict[str, Any]) -> None:
        self.created.append(manifest)

    def delete_pod(self, name: str) -> None:
        self.deleted.append(name)

    def pod(self, name: str) -> dict[str, Any]:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def log(self, pod: str) -> Iterator[str]:
        yield from self.logs.pop(0) if self.logs else []


def state(phase: str, **container: Any) -> dict[str, Any]:
    statuses = [{"state": container}] if container else []
    return {"status": {"phase": phase, "containerStatuses": statuses}}


ENDED = state("Succeeded", terminated={"exitCode": 0})


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_pod, "_pause", lambda seconds: None)


def run(kube: Any, *arguments: str, image: str | None = None) -> tuple[int, list[str]]:
    lines: list[str] = []
    code = helper_pod.run(kube, "demo", arguments, image=image, columns=100, write=lines.append)
    return code, lines


def test_the_same_command_line_runs_in_a_pod_that_is_removed_afterwards() -> None:
    kube = Kube(state("Pending"), state("Running", running={}), ENDED, logs=[["one", "two"]])

    assert run(kube, "verify", "--messages", "10") == (0, ["one", "two"])

    (pod,) = kube.created
    container = pod["spec"]["containers"][0]
    assert container["command"] == ["spindle"]
    assert container["args"] == ["verify", "--messages", "10"]
    assert container["image"] == "spindle:9"
    assert {"name": "SPINDLE_BOOTSTRAP", "value": "demo-bootstrap.default.svc:9092"} in container["env"]
    assert {"name": "COLUMNS", "value": "100"} in container["env"]
    assert pod["spec"]["volumes"][0]["secret"]["secretName"] == "demo-admin"
    assert kube.deleted == [pod["metadata"]["name"]]


def test_the_pod_has_no_privileges_and_no_rights_in_kubernetes() -> None:
    made = helper_pod.manifest("demo-client-1", "demo", "demo:9092", "spindle:9", ["status"], 80)

    assert made["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    assert made["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (
        "spindle.dev/cluster" not in made["metadata"]["labels"]
    )  # the operator must not take it for its own


def test_the_exit_code_is_the_commands_own() -> None:
    kube = Kube(state("Failed", terminated={"exitCode": 3}), logs=[["no"]])

    assert run(kube)[0] == 3


def test_output_goes_on_where_a_broken_connection_left_it() -> None:
    running = state("Running", running={})
    kube = Kube(running, running, ENDED, logs=[["one", "two"], ["one", "two", "three"]])

    assert run(kube) == (0, ["one", "two", "three"])


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"])
def test_an_image_that_is_not_to_be_had_is_said_and_the_pod_removed(reason: str) -> None:
    kube = Kube(state("Pending", waiting={"reason": reason, "message": "no such image"}), logs=[])

    with pytest.raises(KubeError, match=f"{reason}: no such image"):
        run(kube, image="nothing:1")
    assert len(kube.deleted) == 1


def test_a_pod_that_fits_nowhere_says_why_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_pod, "_START_S", 0.0)
    pending = {
        "status": {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes"}
            ],
        }
    }

    with pytest.raises(KubeError, match="Unschedulable 0/5 nodes"):
        run(Kube(pending, logs=[]))


def test_without_an_address_it_says_what_to_wait_for() -> None:
    with pytest.raises(KubeError, match="spindle wait demo"):
        run(Kube(ENDED, cluster=samples.cluster(), logs=[]))


def test_an_evicted_pod_without_container_states_counts_as_failed() -> None:
    assert run(Kube({"status": {"phase": "Failed"}}, logs=[]))[0] == 1


def test_finished_pods_of_killed_calls_are_swept_away() -> None:
    kube = Kube(ENDED, logs=[[]])
    kube.leftovers = [
        {"metadata": {"name": "old"}, "status": {"phase": "Succeeded"}},
        {"metadata": {"name": "busy"}, "status": {"phase": "Running"}},
    ]

    run(kube)

    assert "old" in kube.deleted
    assert "busy" not in kube.deleted
