"""Pod templates and a real API server: what the CRD takes, what becomes of it in a pod, and a pod that a policy refuses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from e2e.cluster.waiting import wait_for
from spindle.api.cluster import KafkaCluster
from spindle.api.pod_template import parts_of
from spindle.config.template_check import refused_templates
from spindle.manifests.cronjob import cron_job
from spindle.manifests.pods import broker_pod, controller_pod
from spindle.model.actions import TryPod
from spindle.model.node_inputs import ClusterInputs
from spindle_operator.act import DONE, REFUSED
from tests.kube.api import Resources, refusal
from tests.kube.samples import bent, cluster
from tests.kube.test_pods import BROKER, CONTROLLER

pytestmark = pytest.mark.kube

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"example.com/cost": "7"}},
    "spec": {
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "cpu", "operator": "Exists"}]}]}
            },
            "podAntiAffinity": {
                REQUIRED: [{"topologyKey": "room", "labelSelector": {"matchLabels": {"app": "noisy"}}}]
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "room",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"team": "a"}},
            }
        ],
        "tolerations": [{"key": "kafka", "operator": "Exists"}],
        "nodeSelector": {"pool": "kafka"},
        "schedulerName": "mine",
        "securityContext": {"supplementalGroups": [7], "fsGroupChangePolicy": "Always"},
        "terminationGracePeriodSeconds": 900,
        "volumes": [
            {"name": "extra", "emptyDir": {}},
            {"name": "info", "configMap": {"name": "info", "optional": True}},
        ],
        "initContainers": [{"name": "first", "image": "registry.example/first:1", "command": ["true"]}],
        "containers": [
            {
                "name": "kafka",
                "env": [{"name": "TZ", "value": "UTC"}],
                "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "app", "optional": True}}],
                "volumeMounts": [{"name": "info", "mountPath": "/mnt/info", "readOnly": True}],
            },
            {
                "name": "agent",
                "image": "registry.example/agent:1",
                "ports": [{"containerPort": 8080, "name": "http"}],
                "volumeMounts": [{"name": "extra", "mountPath": "/data"}],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            },
        ],
    },
}  # fmt: skip
JOB: dict[str, Any] = {
    **TEMPLATE,
    "spec": {
        **{key: value for key, value in TEMPLATE["spec"].items() if key != "containers"},
        "initContainers": [{"name": "agent", "image": "registry.example/agent:1", "restartPolicy": "Always"}],
        "containers": [{**TEMPLATE["spec"]["containers"][0], "name": "rebalance"}],
    },
}
CHANGES = {
    "spec.brokerPools[0].podTemplate": TEMPLATE,
    "spec.controllers.podTemplate": TEMPLATE,
    "spec.rebalance.engine.podTemplate": JOB,
}


def inputs(namespace: str) -> ClusterInputs:
    return ClusterInputs(
        name="demo",
        namespace=namespace,
        uid="5b4e1f5e-0000-4000-8000-000000000000",
        cluster_id="cid",
        version="4.3.1",
        spindle_image="spindle:1",
    )


def test_templates_are_stored_as_they_are_written(resources: Resources) -> None:
    made = KafkaCluster.parse(resources.create(bent(cluster(), CHANGES)))

    assert refused_templates(made.spec) == ()
    written = parts_of(KafkaCluster.parse(bent(cluster(), CHANGES)).spec.broker_pools[0].pod_template)
    assert parts_of(made.spec.broker_pools[0].pod_template) == written
    assert written["spec"]["affinity"] == TEMPLATE["spec"]["affinity"]
    assert written["spec"]["containers"] == TEMPLATE["spec"]["containers"]


@pytest.mark.parametrize("field", ["hostNetwork", "serviceAccountName", "hostPID", "restartPolicy"])
def test_fields_that_are_spindles_do_not_exist(shared: Resources, field: str) -> None:
    with pytest.raises(ApiException) as caught:
        shared.create(bent(cluster(), {f"spec.brokerPools[0].podTemplate.spec.{field}": "x"}), dry=True)

    assert f"podTemplate.spec.{field}" in refusal(caught.value).message


def test_pods_with_a_template_keep_the_strictest_pod_security(
    api_client: client.ApiClient, namespace: str, resources: Resources
) -> None:
    core: Any = client.CoreV1Api(api_client)
    core.patch_namespace(
        namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "default"}})
    spec = KafkaCluster.parse(resources.create(bent(cluster(), CHANGES), dry=True)).spec
    template = parts_of(spec.broker_pools[0].pod_template)
    for pod in (
        broker_pod(inputs(namespace), replace(BROKER, template=template)),
        controller_pod(inputs(namespace), replace(CONTROLLER, template=template)),
    ):
        stored = core.create_namespaced_pod(namespace, pod, dry_run="All", field_validation="Strict")
        assert [each.name for each in stored.spec.containers] == ["kafka", "agent"]
        assert stored.spec.termination_grace_period_seconds == 900
    batch: Any = client.BatchV1Api(api_client)
    owner = {"metadata": {"name": "demo", "namespace": namespace, "uid": inputs(namespace).uid}}
    batch.create_namespaced_cron_job(
        namespace, cron_job(owner, spec, "job:1"), dry_run="All", field_validation="Strict"
    )


def _policy(api: client.ApiClient, namespace: str) -> None:
    """A policy as an administrator has it: no pod of this namespace with the label team."""
    admission: Any = client.AdmissionregistrationV1Api(api)
    name = f"no-teams-{namespace}"
    admission.create_validating_admission_policy(
        {
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ]
                },
                "validations": [
                    {"expression": "!has(object.metadata.labels.team)", "message": "pods here have no team"}
                ],
            },
        }
    )  # fmt: skip
    admission.create_validating_admission_policy_binding(
        {
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
                },
            },
        }
    )


async def test_a_pod_that_a_policy_refuses_is_known_before_one_is_stopped(
    api_client: client.ApiClient, namespace: str, act: Callable[..., Any]
) -> None:
    core: Any = client.CoreV1Api(api_client)
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "default"}})
    template = parts_of(KafkaCluster.parse(bent(cluster(), CHANGES)).spec.broker_pools[0].pod_template)
    pod = broker_pod(inputs(namespace), replace(BROKER, template=template))

    assert await act(TryPod(object=pod, key="k")) == [DONE]
    _policy(api_client, namespace)

    def refused() -> bool | None:
        try:
            core.create_namespaced_pod(namespace, pod, dry_run="All")
        except ApiException as error:
            return "no team" in str(error.body) or None
        return None

    wait_for("the policy is in force", refused, seconds=30)
    assert await act(TryPod(object=pod, key="k")) == [REFUSED]
    assert core.list_namespaced_pod(namespace).items == []


async def test_a_misspelt_field_of_a_sidecar_is_known_too(
    api_client: client.ApiClient, namespace: str, act: Callable[..., Any]
) -> None:
    client.CoreV1Api(api_client).create_namespaced_service_account(
        namespace, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="default"))
    )
    sidecar = {"name": "agent", "image": "a", "imagePullPolcy": "Always"}
    template = {"spec": {"containers": [sidecar]}}
    pod = broker_pod(inputs(namespace), replace(BROKER, template=template))

    assert await act(TryPod(object=pod, key="k")) == [REFUSED]
