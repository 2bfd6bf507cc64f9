"""Pod templates: what they add, what they may not touch, what restarts, and that a pod that would be refused stops none."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.pod_template import PodTemplate, parts_of
from spindle.brokers.claim_metadata import ANN_ADDED
from spindle.config.preview import NEXT_RUN, ROLL, RUNNING, preview
from spindle.config.spec_allowed import named, not_allowed
from spindle.config.template_check import REASON, refused_templates
from spindle.manifests.cronjob import cron_job, executor_pod
from spindle.manifests.pods import broker_pod, controller_pod, spec_hash
from spindle.model import allowed
from spindle.model.actions import Action, Create, Evict, Patch, TryPod
from spindle.model.allowed import Allowed
from spindle.model.node_inputs import Zone
from spindle.model.spec_findings import SharedObject
from spindle_operator.act import DONE, FAILED, REFUSED, Result
from spindle_operator.pod_trials import verdicts
from tests.model.world import World, quickstart
from tests.unit.test_manifests_pods import BROKER, CLUSTER, CONTROLLER, containers, volumes

AGENT = {"name": "agent", "image": "registry.example/agent:1"}


def parts(**fields: Any) -> dict[str, Any]:
    return parts_of(PodTemplate.model_validate(fields))


def broker_with(**fields: Any) -> dict[str, Any]:
    return broker_pod(CLUSTER, replace(BROKER, template=parts(**fields)))


def spec_with(template: dict[str, Any], where: str = "pool", **fields: Any) -> KafkaClusterSpec:
    made = quickstart(**fields)["spec"]
    if where == "pool":
        made["brokerPools"][0]["podTemplate"] = template
    elif where == "controllers":
        made["controllers"]["podTemplate"] = template
    else:
        made["rebalance"] = {"engine": {"podTemplate": template}}
    return KafkaClusterSpec.model_validate(made)


# --- the pod ---------------------------------------------------------------------------------------------------------


def test_pods_without_a_template_are_those_of_before() -> None:
    """Else each broker of each existing cluster would restart for an upgrade of Spindle."""
    assert spec_hash(CLUSTER, BROKER) == "2943d07897a4c202"
    assert spec_hash(CLUSTER, CONTROLLER) == "aece7f26a586ec73"
    empties: tuple[dict[str, Any], ...] = (
        {},
        {"metadata": {}, "spec": {}},
        {"spec": {"tolerations": [], "nodeSelector": {}}},
    )
    for empty in empties:
        assert spec_hash(CLUSTER, replace(BROKER, template=parts(**empty))) == "2943d07897a4c202"


def test_only_a_changed_template_changes_the_hash() -> None:
    one = replace(BROKER, template=parts(metadata={"labels": {"team": "a"}}))
    other = replace(BROKER, template=parts(metadata={"labels": {"team": "b"}}))

    assert spec_hash(CLUSTER, one) == spec_hash(CLUSTER, replace(one))
    assert len({spec_hash(CLUSTER, node) for node in (BROKER, one, other)}) == 3


def test_metadata_is_added() -> None:
    made = broker_with(metadata={"labels": {"team": "a"}, "annotations": {"example.com/cost": "7"}})

    assert made["metadata"]["labels"] == {**broker_pod(CLUSTER, BROKER)["metadata"]["labels"], "team": "a"}
    assert made["metadata"]["annotations"]["example.com/cost"] == "7"


def test_scheduling_is_added_to_that_of_the_cluster() -> None:
    cluster = replace(
        CLUSTER, tolerations=({"key": "a"},), node_selector={"disk": "nvme"}, priority_class="low"
    )
    spread = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    made = broker_pod(
        cluster,
        replace(
            BROKER,
            template=parts(
                spec={
                    "tolerations": [{"key": "b", "operator": "Exists"}],
                    "nodeSelector": {"cpu": "fast"},
                    "priorityClassName": "high",
                    "runtimeClassName": "gvisor",
                    "schedulerName": "mine",
                    "topologySpreadConstraints": [spread],
                }
            ),
        ),
    )["spec"]

    assert [each["key"] for each in made["tolerations"][-2:]] == ["a", "b"]
    assert made["nodeSelector"] == {"disk": "nvme", "cpu": "fast"}
    assert (made["priorityClassName"], made["runtimeClassName"], made["schedulerName"]) == (
        "high",
        "gvisor",
        "mine",
    )
    assert made["topologySpreadConstraints"] == [spread]


def test_each_required_term_includes_spindles() -> None:
    """Terms are alternatives: one that stood alone would let the pod run away from its disks."""
    mine = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    terms: list[dict[str, Any]] = [
        {"matchExpressions": [{"key": "cpu", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        {},
    ]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: dict[str, Any] = {
        "nodeAffinity": {required: {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {required: [{"topologyKey": "room"}]},
        "podAffinity": {required: [{"topologyKey": "zone"}]},
    }
    node = replace(
        BROKER,
        zone=Zone(topology_key="topology.kubernetes.io/zone", value="a"),
        template=parts(spec={"affinity": affinity}),
    )
    made = broker_pod(CLUSTER, node)["spec"]["affinity"]

    assert made["nodeAffinity"][required]["nodeSelectorTerms"] == [
        {"matchExpressions": [mine, {"key": "cpu", "operator": "Exists"}]},
        {"matchExpressions": [mine], "matchFields": terms[1]["matchFields"]},
    ]
    assert [each["topologyKey"] for each in made["podAntiAffinity"][required]] == [
        "kubernetes.io/hostname",
        "room",
    ]
    assert made["podAffinity"] == affinity["podAffinity"]


def test_spindles_container_gets_variables_and_mounts_and_keeps_its_own() -> None:
    before = containers(broker_pod(CLUSTER, BROKER))["kafka"]
    made = broker_with(
        spec={
            "volumes": [{"name": "zone-info", "configMap": {"name": "zones"}}],
            "containers": [
                {
                    "name": "kafka",
                    "env": [{"name": "TZ", "value": "UTC"}],
                    "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "app"}}],
                    "volumeMounts": [{"name": "zone-info", "mountPath": "/mnt/zones", "readOnly": True}],
                }
            ],
        }
    )
    kafka = containers(made)["kafka"]

    assert kafka["env"] == [*before["env"], {"name": "TZ", "value": "UTC"}]
    assert kafka["volumeMounts"][: len(before["volumeMounts"])] == before["volumeMounts"]
    assert kafka["volumeMounts"][-1]["mountPath"] == "/mnt/zones"
    assert kafka["envFrom"][0]["prefix"] == "APP_"
    assert "zone-info" in volumes(made)
    assert {key: value for key, value in kafka.items() if key not in ("env", "envFrom", "volumeMounts")} == {
        key: value for key, value in before.items() if key not in ("env", "volumeMounts")
    }


def test_containers_come_after_spindles_and_have_no_privileges() -> None:
    made = broker_with(spec={"containers": [AGENT], "initContainers": [{"name": "first", "image": "x"}]})

    assert [each["name"] for each in made["spec"]["initContainers"]] == ["inspect", "preflight", "first"]
    assert [each["name"] for each in made["spec"]["containers"]] == ["kafka", "agent"]
    assert containers(made)["agent"]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_grace_period_only_grows() -> None:
    usual = broker_pod(CLUSTER, BROKER)["spec"]["terminationGracePeriodSeconds"]

    assert (
        broker_with(spec={"terminationGracePeriodSeconds": 5})["spec"]["terminationGracePeriodSeconds"]
        == usual
    )
    assert (
        broker_with(spec={"terminationGracePeriodSeconds": 9999})["spec"]["terminationGracePeriodSeconds"]
        == 9999
    )


def test_controllers_have_their_own() -> None:
    made = controller_pod(CLUSTER, replace(CONTROLLER, template=parts(metadata={"labels": {"team": "a"}})))

    assert made["metadata"]["labels"]["team"] == "a"


def test_the_job_and_its_executors() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "nodeSelector": {"pool": "batch"},
            "initContainers": [{**AGENT, "restartPolicy": "Always"}],
            "containers": [{"name": "rebalance", "env": [{"name": "AWS_REGION", "value": "eu"}]}],
        },
    }
    spec, cluster = spec_with(template, "job"), quickstart()
    pod = cron_job(cluster, spec, "job:1")["spec"]["jobTemplate"]["spec"]["template"]

    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["spec"]["nodeSelector"] == {"pool": "batch"}
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["agent"]
    assert pod["spec"]["containers"][0]["env"][-1]["name"] == "AWS_REGION"
    executor = executor_pod(cluster, spec)
    assert executor["spec"]["nodeSelector"] == {"pool": "batch"}
    assert "initContainers" not in executor["spec"]


# --- what is refused -------------------------------------------------------------------------------------------------

MOUNTED = [{"name": "extra", "emptyDir": {}}]


def ephemeral(**claim: Any) -> dict[str, Any]:
    return {"name": "e", "ephemeral": {"volumeClaimTemplate": claim}}


OWN = {"name": "kafka"}

REFUSED_TEMPLATES = [
    ({"metadata": {"labels": {"spindle.dev/cluster": "x"}}}, "metadata.labels", "labels with a prefix of your own are free"),
    ({"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}, "metadata.labels", "labels with a prefix of your own"),
    ({"metadata": {"annotations": {"spindle.dev/spec": "x"}}}, "metadata.annotations", "prefix of your own"),
    ({"metadata": {"annotations": {"prometheus.io/port": "1"}}}, "metadata.annotations", "spec.metrics.enabled"),
    ({"spec": {"securityContext": {"runAsUser": 0}}}, "spec.securityContext", "these are free: "),
    ({"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}, "spec.securityContext", "RuntimeDefault or Localhost"),
    ({"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}}, "spec.securityContext", "set it on the nodes"),
    ({"spec": {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}}, "spec.securityContext", "set only level"),
    ({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "x"}}}}}, "spec.affinity", "as in a pod's spec"),
    ({"spec": {"volumes": [{"name": "tls", "emptyDir": {}}]}}, "spec.volumes[tls]", "another name"),
    ({"spec": {"volumes": [{"name": "disk-disk0", "emptyDir": {}}]}}, "spec.volumes[disk-disk0]", "another name"),
    ({"spec": {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}}, "spec.volumes[host]", "use one of configMap, csi"),
    ({"spec": {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}}, "spec.volumes[t]", "project a Secret"),
    ({"spec": {"volumes": [ephemeral(spec={"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}})]}}, "spec.volumes[e]", "persistentVolumeClaim"),
    ({"spec": {"volumes": [ephemeral(spec={"dataSourceRef": {"kind": "VolumeSnapshot", "name": "s"}})]}}, "spec.volumes[e]", "remove it"),
    ({"spec": {"volumes": [ephemeral(spec={"volumeName": "pv"})]}}, "spec.volumes[e]", "remove it"),
    ({"spec": {"volumes": [ephemeral(metadata={"labels": {"spindle.dev/cluster": "demo"}})]}}, "spec.volumes[e]", "labels with a prefix of your own"),
    ({"spec": {"volumes": [ephemeral(metadata={"annotations": {"spindle.dev/disk": "disk0"}})]}}, "spec.volumes[e]", "annotations with a prefix"),
    ({"spec": {"containers": [{**AGENT, "livenessProbe": {"httpGet": {"host": "10.0.0.1", "port": 80}}}]}}, "spec.containers[agent]", "remove host from livenessProbe"),
    ({"spec": {"containers": [{**AGENT, "lifecycle": {"preStop": {"tcpSocket": {"host": "x", "port": 1}}}}]}}, "spec.containers[agent]", "remove host from lifecycle.preStop"),
    ({"spec": {"containers": [{**OWN, "image": "x"}]}}, "spec.containers[kafka]", "the image in spec.image"),
    ({"spec": {"containers": [{**OWN, "command": ["sh"]}]}}, "spec.containers[kafka]", "env, envFrom and volumeMounts can be added"),
    ({"spec": {"containers": [{**OWN, "env": [{"name": "KAFKA_OPTS", "value": "x"}]}]}}, "spec.containers[kafka].env", "options of the JVM are in jvm.options"),
    ({"spec": {"containers": [{**OWN, "env": [{"name": "LD_PRELOAD", "value": "x"}]}]}}, "spec.containers[kafka].env", "remove it"),
    ({"spec": {"containers": [{**OWN, "env": "x"}]}}, "spec.containers[kafka].env", "as in a pod's spec"),
    ({"spec": {"containers": [{**OWN, "envFrom": [{"secretRef": {"name": "s"}}]}]}}, "spec.containers[kafka].envFrom", "prefix: APP_"),
    ({"spec": {"containers": [{**OWN, "envFrom": [{"prefix": "KAF", "secretRef": {"name": "s"}}]}]}}, "spec.containers[kafka].envFrom", "prefix: APP_"),
    ({"spec": {"containers": [{**OWN, "volumeMounts": [{"name": "tls", "mountPath": "/mnt/x"}]}]}}, "spec.containers[kafka].volumeMounts", "podTemplate.spec.volumes"),
    ({"spec": {"volumes": MOUNTED, "containers": [{**OWN, "volumeMounts": [{"name": "extra", "mountPath": "/opt/kafka/libs"}]}]}}, "spec.containers[kafka].volumeMounts", "below /mnt/"),
    ({"spec": {"volumes": MOUNTED, "containers": [{**OWN, "volumeMounts": [{"name": "extra", "mountPath": "/mnt/../etc"}]}]}}, "spec.containers[kafka].volumeMounts", "below /mnt/"),
    ({"spec": {"containers": [{**AGENT, "volumeMounts": [{"name": "tls", "mountPath": "/tls"}]}]}}, "spec.containers[agent].volumeMounts", "podTemplate.spec.volumes"),
    ({"spec": {"containers": [{**AGENT, "securityContext": {"privileged": True}}]}}, "spec.containers[agent].securityContext", "remove privileged"),
    ({"spec": {"containers": [{**AGENT, "securityContext": {"runAsUser": 0}}]}}, "spec.containers[agent].securityContext", "remove runAsUser"),
    ({"spec": {"containers": [{**AGENT, "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}}, "spec.containers[agent].securityContext", "only NET_BIND_SERVICE"),
    ({"spec": {"containers": [{**AGENT, "ports": [{"containerPort": 9092}]}]}}, "spec.containers[agent].ports", "use another port"),
    ({"spec": {"containers": [{**AGENT, "ports": [{"containerPort": 80, "hostPort": 80}]}]}}, "spec.containers[agent].ports", "remove hostPort"),
    ({"spec": {"containers": [{**AGENT, "name": "preflight"}]}}, "spec.containers[preflight]", "with the name kafka"),
    ({"spec": {"containers": [AGENT], "initContainers": [AGENT]}}, "spec.containers[agent]", "a name of its own"),
]  # fmt: skip


@pytest.mark.parametrize("where", ["pool", "controllers"])
@pytest.mark.parametrize(("template", "field", "way_out"), REFUSED_TEMPLATES)
def test_what_spindle_owns_is_refused_with_its_field_and_a_way_out(
    template: dict[str, Any], field: str, way_out: str, where: str
) -> None:
    place = "spec.brokerPools[main].podTemplate" if where == "pool" else "spec.controllers.podTemplate"
    found = refused_templates(spec_with(template, where))

    assert [each.field for each in found] == [f"{place}.{field}"]
    assert way_out in found[0].way_out
    assert found[0].reason == REASON


@pytest.mark.parametrize("port", [{"containerPort": 9095}, {"containerPort": 8080, "name": "inside"}])
def test_a_sidecar_has_no_port_of_a_listener(port: dict[str, Any]) -> None:
    """The Service of a listener finds its port by name, and a sidecar starts before Kafka: it would get the listener's connections."""
    template = {"spec": {"containers": [{**AGENT, "ports": [port]}]}}

    (found,) = refused_templates(spec_with(template, listeners=[{"name": "inside", "port": 9095}]))
    assert found.field == "spec.brokerPools[main].podTemplate.spec.containers[agent].ports"
    assert not refused_templates(spec_with(template))


def test_values_of_another_type_do_not_end_the_pass() -> None:
    """The schema lets them through: only the API server of the pods knows these types."""
    template = {
        "spec": {
            "securityContext": {"sysctls": [{"name": ["x"]}]},
            "containers": [{**AGENT, "ports": [{"containerPort": [9092], "name": {}}]}],
        }
    }
    (found,) = refused_templates(spec_with(template))
    assert found.field.endswith("spec.securityContext")
    assert len(broker_with(**template)["spec"]["containers"]) == 2


def test_an_image_as_a_volume_is_the_administrators_to_allow() -> None:
    spec = spec_with({"spec": {"volumes": [{"name": "m", "image": {"reference": "registry.example/m:1"}}]}})

    (found,) = not_allowed("demo", spec, Allowed(), {})
    assert "allow.images" in found.refused.way_out
    assert not not_allowed("demo", spec, Allowed(images=("registry.example/m",)), {})


def test_a_sidecar_that_would_keep_the_job_from_ending_is_refused() -> None:
    (found,) = refused_templates(spec_with({"spec": {"containers": [AGENT]}}, "job"))

    assert "restartPolicy: Always" in found.way_out


def test_a_template_of_everything_that_is_free_is_not_refused() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"example.com/cost": "7"}},
        "spec": {
            "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
            "securityContext": {
                "supplementalGroups": [7],
                "sysctls": [{"name": "net.ipv4.tcp_keepalive_time", "value": "60"}],
            },
            "volumes": [*MOUNTED, {"name": "s", "secret": {"secretName": "s"}}],
            "containers": [
                {**OWN, "volumeMounts": [{"name": "extra", "mountPath": "/mnt/extra"}]},
                {
                    **AGENT,
                    "ports": [{"containerPort": 8080}],
                    "securityContext": {"runAsUser": 7, "allowPrivilegeEscalation": False},
                    "volumeMounts": [{"name": "extra", "mountPath": "/data"}],
                },
            ],
        },
    }
    assert refused_templates(spec_with(template)) == ()
    assert (
        refused_templates(
            spec_with({"metadata": {"annotations": {"prometheus.io/port": "1"}}}, metrics={"enabled": False})
        )
        == ()
    )


def test_sidecars_and_their_images_are_the_administrators_to_allow() -> None:
    spec = spec_with({"spec": {"containers": [AGENT]}})

    (found,) = not_allowed("demo", spec, Allowed(), {})
    assert "allow.sidecars" in found.refused.way_out
    (found,) = not_allowed("demo", spec, Allowed(sidecars=True), {})
    assert "allow.images" in found.refused.way_out
    assert not not_allowed("demo", spec, Allowed(sidecars=True, images=("registry.example/agent",)), {})
    assert allowed.read('{"sidecars": true}').sidecars
    with pytest.raises(ValueError, match="true or false"):
        allowed.read('{"sidecars": ["x"]}')


def test_drivers_of_inline_csi_volumes_are_the_administrators_to_allow() -> None:
    """They hand out Secrets of a store, or certificates, without a Secret that somebody would have to lend."""
    driver = "secrets-store.csi.k8s.io"
    spec = spec_with({"spec": {"volumes": [{"name": "store", "csi": {"driver": driver, "readOnly": True}}]}})

    (found,) = not_allowed("demo", spec, Allowed(), {})
    assert found.refused.field.endswith("podTemplate.spec.volumes[store].csi")
    assert driver in found.refused.message
    assert "allow.csiDrivers" in found.refused.way_out
    assert not_allowed("demo", spec, Allowed(csi_drivers=("other.example",)), {})
    for entry in (driver, "*"):
        assert not not_allowed("demo", spec, allowed.read(json.dumps({"csiDrivers": [entry]})), {})
    assert not_allowed("demo", spec_with({"spec": {"volumes": [{"name": "odd", "csi": {}}]}}), Allowed(), {})


def test_secrets_and_claims_are_their_owners_to_lend() -> None:
    template = {
        "spec": {
            "volumes": [
                {"name": "a", "secret": {"secretName": "one"}},
                {"name": "b", "projected": {"sources": [{"secret": {"name": "two"}}]}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "three"}},
            ],
            "containers": [
                {
                    **OWN,
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "four", "key": "k"}}}],
                    "envFrom": [{"prefix": "APP_", "secretRef": {"name": "five"}}],
                }
            ],
        }
    }
    spec = spec_with(template)
    asked = {(kind, name) for kind, name, _ in named(spec)}
    secrets = {("Secret", name) for name in ("one", "two", "four", "five")}
    assert asked == {*secrets, ("PersistentVolumeClaim", "three")}
    assert len(not_allowed("demo", spec, Allowed(), {})) == 5
    lent = {f"{kind}/{name}": SharedObject(label="demo") for kind, name in asked}
    assert not not_allowed("demo", spec, Allowed(), lent)


# --- what happens ----------------------------------------------------------------------------------------------------

TEAM = {"metadata": {"labels": {"team": "a"}}}


def test_preview_says_what_rolls() -> None:
    before = spec_with({})

    assert {(c.what, c.where, c.how) for c in preview(before, spec_with(TEAM))} == {
        ("podTemplate", "brokers of pool main", ROLL)
    }
    assert {(c.what, c.where, c.how) for c in preview(spec_with({}), spec_with(TEAM, "controllers"))} == {
        ("podTemplate", "controllers", ROLL)
    }
    assert [(c.what, c.how) for c in preview(before, spec_with(TEAM, "job"))] == [
        ("rebalance.engine.podTemplate", NEXT_RUN)
    ]
    assert preview(before, spec_with({"metadata": {}})) == []


def settled() -> World:
    world = World.of()
    world.settle()
    return world


def passes(world: World, count: int) -> list[Action]:
    made: list[Action] = []
    for _ in range(count):
        made += world.reconcile().actions
        world.breathe()
    return made


def of_pool(world: World, template: dict[str, Any]) -> None:
    world.cluster["spec"]["brokerPools"][0]["podTemplate"] = template


def waiting(world: World) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}


def test_a_changed_template_is_checked_once_and_then_rolls_its_pool() -> None:
    world = settled()
    of_pool(world, TEAM)
    made = passes(world, 60)

    (tried,) = (action for action in made if isinstance(action, TryPod))
    assert tried.object["metadata"]["name"].endswith("-try")
    assert sorted(action.pod for action in made if isinstance(action, Evict)) == [
        names.pod_name("demo", broker) for broker in range(3)
    ]
    assert made.index(tried) < min(i for i, action in enumerate(made) if isinstance(action, Evict))
    assert world.get("Pod", "demo-broker-0")["metadata"]["labels"]["team"] == "a"
    assert not [a for a in passes(world, 5) if isinstance(a, TryPod | Evict)]


def test_a_template_that_the_api_server_refuses_stops_no_broker() -> None:
    world = settled()
    world.pod_refusal = 'admission webhook "no-teams.example.com" denied the request'
    of_pool(world, TEAM)
    assert not [action for action in passes(world, 40) if isinstance(action, Evict)]

    wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "PodTemplateRefused")
    assert "no-teams.example.com" in wait["message"]
    assert "spec.brokerPools[main].podTemplate" in wait["unblockedBy"]

    world.pod_refusal = ""  # the webhook is gone
    world.now += 61
    assert len([action for action in passes(world, 60) if isinstance(action, Evict)]) == 3


def test_the_previous_template_ends_the_wait_at_once() -> None:
    world = settled()
    world.pod_refusal = "no"
    of_pool(world, TEAM)
    passes(world, 3)
    of_pool(world, {})

    assert not [action for action in passes(world, 6) if isinstance(action, Evict)]
    assert "PodTemplateRefused" not in waiting(world)


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ({"reason": "ErrImagePull", "message": "no such image"}, "no such image"),
        ({"reason": "CrashLoopBackOff"}, "it exits: exit code unknown"),
    ],
)
def test_a_sidecar_that_does_not_run_is_told(state: dict[str, str], cause: str) -> None:
    world = settled()
    pod = world.get("Pod", "demo-broker-1")
    pod["spec"]["containers"].append(AGENT)
    pod["status"]["containerStatuses"].append({"name": "agent", "state": {"waiting": state}})
    world.put(pod)
    world.reconcile()

    (wait,) = (w for w in world.cluster["status"]["waiting"] if w["reason"] == "AddedContainerFailed")
    assert wait["message"].endswith(cause)
    assert "kubectl logs demo-broker-1 -c agent" in wait["unblockedBy"]


def test_a_removed_template_rolls_without_a_check() -> None:
    world = settled()
    of_pool(world, TEAM)
    passes(world, 60)
    of_pool(world, {})
    made = passes(world, 60)

    assert not [action for action in made if isinstance(action, TryPod)]
    assert len([action for action in made if isinstance(action, Evict)]) == 3
    assert "team" not in world.get("Pod", "demo-broker-0")["metadata"]["labels"]


def test_a_refused_template_creates_and_stops_nothing() -> None:
    world = settled()
    of_pool(world, {"metadata": {"labels": {"spindle.dev/cluster": "other"}}})

    assert not [a for a in passes(world, 6) if isinstance(a, TryPod | Evict | Create)]
    assert REASON in waiting(world)


def test_zones_are_chosen_among_the_nodes_that_the_template_admits() -> None:
    required = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node1"]}
                ]
            }
        ]
    }
    world = World.of(zones="abc")
    of_pool(
        world,
        {
            "spec": {
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
            }
        },
    )
    for _ in range(10):
        world.reconcile()
        world.breathe()

    racks = {broker["spec"].get("rack") for broker in world.all("KafkaBroker")}
    assert "zone-a" not in racks
    assert racks


def claims(world: World, role: str) -> list[dict[str, Any]]:
    return [
        c for c in world.all("PersistentVolumeClaim") if c["metadata"]["labels"][names.LABEL_ROLE] == role
    ]


def test_claims_get_their_metadata_and_lose_it_without_a_restart() -> None:
    world = settled()
    pods = {pod["metadata"]["uid"] for pod in world.all("Pod")}
    (pool,) = world.cluster["spec"]["brokerPools"]
    before = {c["metadata"]["name"]: c["metadata"] for c in world.all("PersistentVolumeClaim")}
    pool["claimMetadata"] = {"labels": {"team": "a"}, "annotations": {"example.com/backup": "no"}}
    world.settle()

    for each in claims(world, "broker"):
        assert each["metadata"]["labels"]["team"] == "a"
        assert each["metadata"]["annotations"]["example.com/backup"] == "no"
        assert (
            each["metadata"]["annotations"].items() >= before[each["metadata"]["name"]]["annotations"].items()
        )
    assert not [each for each in claims(world, "controller") if "team" in each["metadata"]["labels"]]
    pool["claimMetadata"] = {"labels": {"team": "b"}}
    world.settle()
    assert {each["metadata"]["labels"]["team"] for each in claims(world, "broker")} == {"b"}
    assert not [e for e in claims(world, "broker") if "example.com/backup" in e["metadata"]["annotations"]]
    del pool["claimMetadata"]
    world.settle()
    after = {c["metadata"]["name"]: c["metadata"] for c in world.all("PersistentVolumeClaim")}
    assert {name: (m["labels"], m["annotations"]) for name, m in after.items()} == {
        name: (m["labels"], m["annotations"]) for name, m in before.items()
    }
    assert {pod["metadata"]["uid"] for pod in world.all("Pod")} == pods


def test_a_refused_label_of_a_claim_ends_no_pass() -> None:
    world = settled()
    world.cluster["spec"]["controllers"]["claimMetadata"] = {"labels": {"team": "a"}}
    patches = [
        a for a in world.reconcile().actions if isinstance(a, Patch) and a.kind == "PersistentVolumeClaim"
    ]

    assert len(patches) == 3
    assert all(patch.alone for patch in patches)


def test_a_record_of_added_keys_removes_nothing_of_spindles() -> None:
    world = settled()
    (claim, *_) = claims(world, "broker")
    forged = {"annotations": [names.ANN_DIRECTORY_ID, names.ANN_CLUSTER_ID], "labels": [names.LABEL_CLUSTER]}
    claim["metadata"]["annotations"][ANN_ADDED] = json.dumps(forged)
    world.put(claim)
    world.settle()

    found = world.get("PersistentVolumeClaim", claim["metadata"]["name"])["metadata"]
    assert (
        found["annotations"][names.ANN_DIRECTORY_ID]
        == claim["metadata"]["annotations"][names.ANN_DIRECTORY_ID]
    )
    assert found["labels"][names.LABEL_CLUSTER] == "demo"
    assert ANN_ADDED not in found["annotations"]


def test_services_get_their_metadata() -> None:
    world = settled()
    world.cluster["spec"]["serviceMetadata"] = {
        "labels": {"team": "a"},
        "annotations": {"example.com/x": "y"},
    }
    world.settle()

    for service in world.all("Service"):
        assert service["metadata"]["labels"]["team"] == "a"
        assert service["metadata"]["labels"][names.LABEL_CLUSTER] == "demo"
        assert service["metadata"]["annotations"]["example.com/x"] == "y"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"serviceMetadata": {"labels": {"spindle.dev/cluster": "x"}}}, "spec.serviceMetadata.labels"),
        (
            {
                "controllers": {
                    "storage": {"size": "1Gi"},
                    "claimMetadata": {"annotations": {"spindle.dev/disk": "x"}},
                }
            },
            "spec.controllers.claimMetadata.annotations",
        ),
        (
            {
                "controllers": {
                    "storage": {"size": "1Gi"},
                    "claimMetadata": {"annotations": {"volume.kubernetes.io/selected-node": "x"}},
                }
            },
            "spec.controllers.claimMetadata.annotations",
        ),
    ],
)
def test_metadata_that_is_not_the_users_is_refused(fields: dict[str, Any], field: str) -> None:
    (found,) = refused_templates(spec_with({}, **fields))

    assert found.field == field
    assert found.way_out.startswith("remove it; ")


def test_annotations_of_services_are_the_administrators_to_allow() -> None:
    spec = spec_with({}, serviceMetadata={"annotations": {"example.com/dns": "x"}})

    (found,) = not_allowed("demo", spec, Allowed(), {})
    assert "allow.annotations" in found.refused.way_out
    assert not not_allowed("demo", spec, Allowed(annotations=("example.com/dns",)), {})


def test_preview_of_metadata_restarts_nothing() -> None:
    before = spec_with({})
    after = spec_with(
        {},
        serviceMetadata={"labels": {"a": "b"}},
        controllers={"storage": {"size": "1Gi"}, "claimMetadata": {"labels": {"a": "b"}}},
    )

    assert {(c.what, c.how) for c in preview(before, after)} == {
        ("serviceMetadata", RUNNING),
        ("claimMetadata", RUNNING),
    }


@pytest.mark.parametrize(
    ("outcome", "detail", "refusal"),
    [
        (DONE, "", ""),
        (REFUSED, "denied the request", "denied the request"),
        (FAILED, "failed calling webhook", "failed calling webhook"),
        (REFUSED, 'admission webhook "a" does not support dry run', ""),
        (REFUSED, 'pods "x" is forbidden: exceeded quota: q', ""),
    ],
)
def test_verdicts(outcome: str, detail: str, refusal: str) -> None:
    result = Result(TryPod(object={}, key="k"), outcome, detail)

    assert verdicts({}, [result], 7.0)["k"].refusal == refusal
