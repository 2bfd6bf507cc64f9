"""The agents' part of the chart."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.chart.conftest import CHART, Render
from tests.chart.test_chart import of_component, of_kind

Helm = Callable[..., subprocess.CompletedProcess[str]]


def agent(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = of_kind(objects, "DaemonSet")
    return found


def container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = agent(objects)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_an_agent_runs_on_each_node_without_any_privilege(render: Render) -> None:
    objects = render()

    spec, only = agent(objects)["spec"]["template"]["spec"], container(objects)
    assert only["command"] == ["spindle-agent"]
    assert only["image"] == "spindle:0.1.0"
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for shared in ("hostNetwork", "hostPID", "hostIPC"):
        assert shared not in spec
    assert spec["automountServiceAccountToken"] is True
    assert only["resources"]["limits"]["memory"] == "512Mi"


def test_it_knows_its_node_and_sees_the_disks_where_the_node_has_them(render: Render) -> None:
    objects = render("agent.diskRoots={/mnt/disks,/srv/kafka}")
    spec, only = agent(objects)["spec"]["template"]["spec"], container(objects)

    assert [arg for arg in only["args"] if arg.startswith("--disk-root")] == [
        "--disk-root=/mnt/disks",
        "--disk-root=/srv/kafka",
    ]
    assert {entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"] for entry in only["env"]} == {
        "NODE_NAME": "spec.nodeName",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
    }
    mounts = {each["name"]: each for each in only["volumeMounts"]}
    host = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    assert host == {"disks-0": "/mnt/disks", "disks-1": "/srv/kafka"}
    for name, path in host.items():
        assert mounts[name]["mountPath"] == path
        assert mounts[name]["mountPropagation"] == "HostToContainer", "a disk swapped later must be seen"
    assert [each["emptyDir"]["medium"] for each in spec["volumes"] if "emptyDir" in each] == ["Memory"]


def test_the_kubelets_pods_are_seen_only_on_request_and_not_written(render: Render) -> None:
    without = agent(render())["spec"]["template"]["spec"]
    assert "kubelet" not in str(without)
    assert "supplementalGroups" not in without["securityContext"]

    objects = render(
        "agent.kubeletPods=true",
        "agent.kubeletRootDir=/srv/kubelet",
        "agent.podSecurityContext.supplementalGroups={7}",
    )
    spec, only = agent(objects)["spec"]["template"]["spec"], container(objects)
    assert "--kubelet-pods=/srv/kubelet/pods" in only["args"]
    (mount,) = (each for each in only["volumeMounts"] if each["name"] == "kubelet-pods")
    assert mount == {
        "name": "kubelet-pods",
        "mountPath": "/srv/kubelet/pods",
        "readOnly": True,
        "mountPropagation": "HostToContainer",
    }
    (volume,) = (each for each in spec["volumes"] if each["name"] == "kubelet-pods")
    assert volume["hostPath"] == {"path": "/srv/kubelet/pods", "type": "Directory"}
    assert [int(group) for group in spec["securityContext"]["supplementalGroups"]] == [7, 0]
    # All else is as without: no capability, no other user, no right more.
    assert only["securityContext"] == without["containers"][0]["securityContext"]
    assert spec["securityContext"].items() >= without["securityContext"].items()
    assert rights(objects) == rights(render())
    plain = agent(render("agent.kubeletPods=true"))["spec"]["template"]["spec"]
    assert plain["securityContext"]["supplementalGroups"] == [0]
    assert "--kubelet-pods=/var/lib/kubelet/pods" in plain["containers"][0]["args"]


def test_agents_have_a_namespace_that_lets_them_mount_the_host(render: Render) -> None:
    objects = render()
    (namespace,) = of_kind(objects, "Namespace")

    assert namespace["metadata"]["name"] == "spindle-agents"
    assert namespace["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert agent(objects)["metadata"]["namespace"] == "spindle-agents"
    (operator,) = of_kind(objects, "Deployment")
    args = operator["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--agent-namespace=spindle-agents" in args


@pytest.mark.parametrize(
    ("value", "place"),
    [
        pytest.param("agent.createNamespace=false", "spindle-agents", id="one that is there already"),
        pytest.param("agent.namespace=system", "system", id="the release's own"),
    ],
)
def test_a_namespace_of_somebody_else_is_not_made(render: Render, value: str, place: str) -> None:
    objects = render(value)

    assert of_kind(objects, "Namespace") == []
    assert agent(objects)["metadata"]["namespace"] == place


def test_without_agents_nothing_is_said_of_them(render: Render) -> None:
    objects = render("agent.enabled=false", "metrics.podMonitor.enabled=true")

    assert [made["kind"] for made in objects if "agent" in made["metadata"]["name"]] == []
    (operator,) = of_kind(objects, "Deployment")
    args = operator["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [each for each in args if "agent" in each] == []
    assert {made["metadata"].get("namespace") for made in objects} <= {"system", None}


def rights(objects: list[dict[str, Any]]) -> set[tuple[str | None, str, str]]:
    """(namespace or None for everywhere, resource, verb) of the agents."""
    return {
        (role["metadata"].get("namespace"), resource, verb)
        for kind in ("Role", "ClusterRole")
        for role in of_component(objects, kind, "agent")
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_agents_write_where_the_operator_serves_and_read_no_secret(render: Render) -> None:
    own: set[tuple[str | None, str, str]] = {("spindle-agents", "configmaps", "get")}
    own |= {("spindle-agents", "leases", verb) for verb in ("get", "create", "patch")}

    def work(place: str | None) -> set[tuple[str | None, str, str]]:
        reads = {(place, "kafkabrokers", verb) for verb in ("get", "list", "watch")}
        return reads | {(place, "kafkaclusters", "get"), (place, "kafkabrokers/status", "patch")}

    assert rights(render()) == own | work("system")
    assert rights(render("watch.all=true")) == own | work(None)
    narrow = render("watch.namespaces={one,two}")
    assert rights(narrow) == own | work("one") | work("two")
    watched = [arg for arg in container(narrow)["args"] if arg.startswith("--namespace")]
    assert watched == ["--namespace=one", "--namespace=two"]
    assert rights(render("rbac.create=false")) == set()


def test_the_policies_are_about_the_agents_account_and_deny(render: Render) -> None:
    objects = render("agent.namespace=watchers", "rbac.create=false")
    policies = {
        made["metadata"]["name"]: made["spec"]
        for made in of_component(objects, "ValidatingAdmissionPolicy", "agent")
    }
    bindings = of_component(objects, "ValidatingAdmissionPolicyBinding", "agent")

    assert {made["spec"]["policyName"] for made in bindings} == set(policies)
    assert all(made["spec"]["validationActions"] == ["Deny"] for made in bindings)
    (account,) = of_component(objects, "ServiceAccount", "agent")
    user = f"system:serviceaccount:watchers:{account['metadata']['name']}"
    operator = policies.pop("system-spindle-agent-certificates")
    assert "request.userInfo.username == 'system:serviceaccount:system:" in str(operator["validations"])
    assert operator["matchConstraints"]["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "watchers"
    }
    for spec in policies.values():
        assert spec["failurePolicy"] == "Fail"
        assert f"request.userInfo.username == '{user}'" in spec["matchConditions"][0]["expression"]


def test_options_reach_the_agents(render: Render) -> None:
    objects = render(
        "image.tag=v7",
        "log.json=true",
        "imagePullSecrets[0].name=pull",
        "agent.nodeSelector.role=kafka",
        "agent.tolerations[0].operator=Exists",
        "agent.priorityClassName=important",
        "agent.podLabels.team=data",
        "agent.podAnnotations.note=x",
        "agent.resources.limits.memory=1Gi",
        "metrics.podMonitor.enabled=true",
        "metrics.podMonitor.labels.release=prometheus",
    )
    template = agent(objects)["spec"]["template"]
    (monitor,) = of_component(objects, "PodMonitor", "agent")

    assert container(objects)["image"] == "spindle:v7"
    assert "--json-logs" in container(objects)["args"]
    assert template["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert template["spec"]["nodeSelector"] == {"role": "kafka"}
    assert template["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert template["spec"]["priorityClassName"] == "important"
    assert template["metadata"]["labels"]["team"] == "data"
    assert template["metadata"]["annotations"] == {"note": "x"}
    assert container(objects)["resources"]["limits"]["memory"] == "1Gi"
    assert monitor["metadata"]["namespace"] == "spindle-agents"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= template["metadata"]["labels"].items()


def test_operator_and_agents_are_told_apart_by_their_selectors(render: Render) -> None:
    objects = render()
    (operator,) = of_kind(objects, "Deployment")
    found = agent(objects)

    assert operator["spec"]["selector"] != found["spec"]["selector"]
    assert (
        found["spec"]["selector"]["matchLabels"].items()
        <= found["spec"]["template"]["metadata"]["labels"].items()
    )


@pytest.mark.parametrize(
    ("value", "field"),
    [
        pytest.param("agent.diskRoots={/}", "diskRoots", id="the whole node"),
        pytest.param("agent.diskRoots={mnt/disks}", "diskRoots", id="no absolute path"),
        pytest.param("agent.diskRoots={/mnt/../etc}", "diskRoots", id="a way round"),
        pytest.param("agent.diskRoots={/mnt/disks/}", "diskRoots", id="a slash at the end"),
        pytest.param("agent.diskRoots={/mnt:ro}", "diskRoots", id="a colon"),
        pytest.param("agent.diskRoots=null", "diskRoots", id="no roots"),
        pytest.param("agent.kubeletPods=yes-please", "kubeletPods", id="no yes or no"),
        pytest.param("agent.kubeletRootDir=/var/../etc", "kubeletRootDir", id="a way round to the kubelet"),
        pytest.param("agent.namespace=Upper", "namespace", id="no name of a namespace"),
        pytest.param("agent.replicas=2", "replicas", id="a key that there is not"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(helm: Helm, value: str, field: str) -> None:
    done = helm("template", "spindle", str(CHART), "--set", value)

    assert done.returncode != 0
    assert field in done.stderr


def test_the_notes_say_whether_agents_watch(helm: Helm) -> None:
    def notes(*values: str) -> str:
        done = helm(
            "install",
            "spindle",
            str(CHART),
            "--namespace=system",
            "--dry-run=client",
            "--hide-secret",
            *[part for value in values for part in ("--set", value)],
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.rsplit("NOTES:", 1)[1]

    assert "kubectl -n spindle-agents rollout status daemonset/spindle-agent" in notes()
    without = notes("agent.enabled=false")
    assert "daemonset" not in without
    assert "agent.enabled=false" in without
    assert yaml.safe_load(notes().split("<<'YAML'\n", 1)[1].split("YAML", 1)[0])["kind"] == "KafkaCluster"
