"""Whatever a pod template says, what is Spindle's in a pod stays as Spindle made it."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.pod_template import PodTemplate, parts_of
from spindle.config.template_check import refused_templates
from spindle.manifests.cronjob import cron_job
from spindle.manifests.pods import broker_pod, controller_pod
from spindle.model.node_inputs import ClusterInputs, DiskInputs, NodeInputs, Zone
from tests.model.world import quickstart

CLUSTER = ClusterInputs(
    name="demo",
    namespace="kafka",
    uid="u",
    cluster_id="cid",
    version="4.3.1",
    spindle_image="spindle:1",
    node_selector={"disk": "nvme"},
    tolerations=({"key": "dedicated", "operator": "Exists"},),
)
BROKER = NodeInputs(
    node_id=3,
    server_properties="a=b\n",
    disks=(DiskInputs(name="disk0", claim="data-disk0-demo-3", directory_id="d"),),
    pool="main",
    zone=Zone(topology_key="topology.kubernetes.io/zone", value="a"),
    avoid=("node9",),
)
CONTROLLER = NodeInputs(
    node_id=9001,
    server_properties="a=b\n",
    disks=(DiskInputs(name="metadata", claim="data-metadata-demo-9001", directory_id="m"),),
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OWNED_FIELDS = (
    *("hostname", "subdomain", "restartPolicy", "automountServiceAccountToken", "enableServiceLinks"),
    *("readinessGates", "serviceAccountName", "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "nodeName"),
)  # fmt: skip
USERS = ("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup")

# What Spindle has, what is near it, and what it does not have.
NAMES = st.sampled_from(
    ["kafka", "inspect", "preflight", "rebalance", "tls", "tmp", "disks", "disk-disk0", "metadata", "agent", "extra", ""]
)  # fmt: skip
KEYS = st.sampled_from(
    [
        *(names.LABEL_CLUSTER, names.LABEL_ROLE, names.LABEL_BUDGET, names.ANN_SPEC_HASH, names.ANN_DISKS),
        *("app.kubernetes.io/name", "prometheus.io/port", "x.spindle.dev/a", "team", "example.com/team"),
    ]
)
VARIABLES = st.sampled_from(
    ["KAFKA_OPTS", "KAFKA_HEAP_OPTS", "LD_PRELOAD", "CLASSPATH", "JAVA_TOOL_OPTIONS", "TZ", names.ENV_PROVIDERS]
)  # fmt: skip
PATHS = st.sampled_from(
    ["/", "/tmp", "/mnt/", "/mnt/x", "/mnt/../tmp", "/var/lib/kafka/disks/disk0", "/etc/spindle/tls", "/opt/kafka", "mnt/x", ""]  # noqa: S108 - paths in a pod
)  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 70000) | st.sampled_from(["", "x", "Unconfined", "Always"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
SECURITY = st.dictionaries(
    st.sampled_from(
        [*USERS, "privileged", "allowPrivilegeEscalation", "capabilities", "seccompProfile", "sysctls", "supplementalGroups"]
    ),
    ANY | st.just({"add": ["SYS_ADMIN"]}) | st.just({"type": "RuntimeDefault"}),
    max_size=4,
)  # fmt: skip
VOLUMES = st.lists(
    st.builds(
        lambda name, kind, value: {"name": name, kind: value},
        NAMES,
        st.sampled_from(["hostPath", "emptyDir", "secret", "projected"]),
        ANY | st.just({}),
    ),
    max_size=3,
)
MOUNTS = st.lists(st.fixed_dictionaries({"name": NAMES, "mountPath": PATHS}), max_size=3)
CONTAINERS = st.lists(
    st.builds(
        lambda name, more: {"name": name, **more},
        NAMES,
        st.fixed_dictionaries(
            {},
            optional={
                "image": st.just("evil"),
                "command": st.just(["sh"]),
                "env": st.lists(st.fixed_dictionaries({"name": VARIABLES, "value": st.just("evil")}), max_size=3)
                | ANY,
                "envFrom": st.lists(st.fixed_dictionaries({"prefix": st.sampled_from(["", "KAFKA_", "K", "APP_"])}), max_size=2),
                "volumeMounts": MOUNTS | ANY,
                "securityContext": SECURITY | ANY,
                "ports": st.lists(st.fixed_dictionaries({"containerPort": st.sampled_from([9092, 9404, 80]), "hostPort": st.sampled_from([0, 80])}), max_size=2),
                "livenessProbe": ANY,
                "volumeDevices": ANY,
            },
        ),
    ),
    max_size=3,
)  # fmt: skip
TERMS = st.lists(
    st.dictionaries(
        st.sampled_from(["matchExpressions", "matchFields"]),
        st.lists(
            st.fixed_dictionaries({"key": st.just("cpu"), "operator": st.just("Exists")}),
            min_size=1,
            max_size=2,
        ),
        max_size=2,
    ),
    max_size=3,
)
AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries({REQUIRED: st.fixed_dictionaries({"nodeSelectorTerms": TERMS})})
        | ANY,
        "podAntiAffinity": st.fixed_dictionaries({REQUIRED: ANY}) | ANY,
        "podAffinity": ANY,
        "other": ANY,
    },
)
# A volume that exists, and one container that mounts it: of names and paths chosen freely, few fit together.
MOUNTING = st.builds(
    lambda name, mounts: {
        "metadata": {},
        "spec": {
            "volumes": [{"name": "extra", "emptyDir": {}}],
            "containers": [{"name": name, "volumeMounts": mounts}],
        },
    },
    st.sampled_from(["kafka", "rebalance", "agent"]),
    st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(["extra", "tls"]), "mountPath": PATHS}), min_size=1, max_size=3
    ),
)  # fmt: skip
TEMPLATES = MOUNTING | st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "labels": st.dictionaries(KEYS, st.just("evil"), max_size=4),
                "annotations": st.dictionaries(KEYS, st.just("evil"), max_size=4),
            }
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "affinity": AFFINITY,
                "nodeSelector": st.dictionaries(st.sampled_from(["a", "b"]), st.just("c"), max_size=2),
                "securityContext": SECURITY,
                "terminationGracePeriodSeconds": st.integers(1, 9999),
                "volumes": VOLUMES,
                "initContainers": CONTAINERS,
                "containers": CONTAINERS,
                "topologySpreadConstraints": st.just([{"topologyKey": "x"}]),
                # Fields that the API has not: the model drops them.
                "hostNetwork": st.just(True),
                "serviceAccountName": st.just("evil"),
                "nodeName": st.just("evil"),
                "restartPolicy": st.just("Never"),
                "hostname": st.just("evil"),
            },
        ),
    }
)


def named(entries: Any) -> dict[str, Any]:
    return {each["name"]: each for each in entries or ()}


def assert_owned(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Everything of the first pod is in the second as it was."""
    for part in ("labels", "annotations"):
        assert (after["metadata"].get(part) or {}).items() >= (before["metadata"].get(part) or {}).items()
    fresh = (after["metadata"].get("labels") or {}).keys() - (before["metadata"].get("labels") or {}).keys()
    assert not [key for key in fresh if "spindle.dev" in key or key.startswith("app.kubernetes.io/name")]
    ours, theirs = before["spec"], after["spec"]
    for field in OWNED_FIELDS:
        assert ours.get(field) == theirs.get(field), field
    for key in USERS:
        assert ours["securityContext"][key] == theirs["securityContext"][key]
    assert theirs["securityContext"]["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
    assert theirs["terminationGracePeriodSeconds"] >= ours["terminationGracePeriodSeconds"]
    assert theirs["volumes"][: len(ours["volumes"])] == ours["volumes"]
    assert len(named(theirs["volumes"])) == len(theirs["volumes"])
    assert not [each for each in theirs["volumes"] if "hostPath" in each]
    for kind in ("initContainers", "containers"):
        _containers(ours, theirs, kind)
    everything = [*(theirs.get("initContainers") or ()), *theirs["containers"]]
    assert len(named(everything)) == len(everything)
    _affinity(ours.get("affinity") or {}, theirs.get("affinity") or {})


def _containers(ours: dict[str, Any], theirs: dict[str, Any], kind: str) -> None:
    mine, all_of_them = ours.get(kind) or [], theirs.get(kind) or []
    assert [each["name"] for each in all_of_them[: len(mine)]] == [each["name"] for each in mine]
    for before, after in zip(mine, all_of_them, strict=False):
        added = {"env", "envFrom", "volumeMounts"}
        assert {k: v for k, v in after.items() if k not in added} == {
            k: v for k, v in before.items() if k not in added
        }
        for key in ("env", "volumeMounts"):
            had = before.get(key) or []
            assert (after.get(key) or [])[: len(had)] == had
        fresh = (after.get("env") or [])[len(before.get("env") or []) :]
        assert {each["name"] for each in fresh} <= {"TZ"}
        assert all(each["prefix"] == "APP_" for each in after.get("envFrom") or ())
        mounts = (after.get("volumeMounts") or [])[len(before.get("volumeMounts") or []) :]
        assert all(each["mountPath"] == "/mnt/x" for each in mounts)
        assert not {each["name"] for each in mounts} & named(ours["volumes"]).keys()
    for sidecar in all_of_them[len(mine) :]:
        security = sidecar["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security.get("privileged") in (None, False)
        assert security.get("runAsNonRoot") in (None, True)
        assert security.get("runAsUser", 1) > 0
        assert "volumeDevices" not in sidecar
        mounted = {each["name"] for each in sidecar.get("volumeMounts") or ()}
        assert not mounted & named(ours["volumes"]).keys()
        assert not [
            each for each in sidecar.get("ports") or () if each["hostPort"] or each["containerPort"] != 80
        ]


def _affinity(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    needed = ((ours.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    terms = ((theirs.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    if needed:
        (mine,) = needed
        assert terms
        for term in terms:
            assert all(each in term["matchExpressions"] for each in mine["matchExpressions"])
    apart = (ours.get("podAntiAffinity") or {}).get(REQUIRED) or []
    assert ((theirs.get("podAntiAffinity") or {}).get(REQUIRED) or [])[: len(apart)] == apart


@settings(max_examples=150, deadline=None)
@given(TEMPLATES)
def test_what_is_spindles_stays(template: dict[str, Any]) -> None:
    parts = parts_of(PodTemplate.model_validate(template))
    for make, node in ((broker_pod, BROKER), (controller_pod, CONTROLLER)):
        before, after = make(CLUSTER, node), make(CLUSTER, replace(node, template=parts))
        # The hash of the template is Spindle's own word on the pod, and differs.
        for key in (names.ANN_SPEC_HASH, names.ANN_SPEC_PARTS):
            before["metadata"]["annotations"][key] = after["metadata"]["annotations"][key]
        assert_owned(before, after)


@settings(max_examples=60, deadline=None)
@given(TEMPLATES)
def test_what_is_spindles_in_the_job_stays(template: dict[str, Any]) -> None:
    def pod(engine: dict[str, Any]) -> dict[str, Any]:
        spec = KafkaClusterSpec.model_validate({**quickstart()["spec"], "rebalance": {"engine": engine}})
        made = cron_job(quickstart(), spec, "job:1")["spec"]["jobTemplate"]["spec"]["template"]
        return dict(made)

    assert_owned(pod({}), pod({"podTemplate": template}))


@settings(max_examples=150, deadline=None)
@given(TEMPLATES)
def test_a_template_that_is_not_refused_is_added_whole(template: dict[str, Any]) -> None:
    """Nothing is left out silently: what the merge would not add is told."""
    made = quickstart()["spec"]
    made["brokerPools"][0]["podTemplate"] = template
    spec = KafkaClusterSpec.model_validate(made)
    if refused_templates(spec):
        return
    parts = parts_of(spec.broker_pools[0].pod_template)
    pod = broker_pod(CLUSTER, replace(BROKER, template=parts))
    assert pod["metadata"]["labels"].items() >= parts.get("labels", {}).items()
    assert pod["metadata"]["annotations"].items() >= parts.get("annotations", {}).items()
    asked = parts.get("spec", {})
    assert named(pod["spec"]["volumes"]).items() >= named(asked.get("volumes")).items()
    for kind in ("containers", "initContainers"):
        there = named(pod["spec"][kind])
        for each in asked.get(kind, ()):
            for key in ("env", "envFrom", "volumeMounts", "ports"):
                assert all(entry in there[each["name"]][key] for entry in each.get(key) or ())
    assert pod["spec"]["securityContext"].items() >= asked.get("securityContext", {}).items()
