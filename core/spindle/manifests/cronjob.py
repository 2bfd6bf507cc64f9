"""The rebalance job of a KafkaCluster: a CronJob with its ServiceAccount, Role and RoleBinding.

The arguments of the pod name the cluster, and the environment has the name and namespace of the pod. The job reads everything else (bands,
budgets, lifetime of a proposal) from the KafkaCluster. Its termination message reports the result of the run to the operator.
"""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names, quantity
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.common import ResourceRequirements
from spindle.api.engine import Engine, Rollup
from spindle.api.pod_template import parts_of
from spindle.api.policy import Rebalance
from spindle.manifests.pod_template import merged
from spindle.model.metadata import labels, owned_metadata

_NEVER: Final = "0 0 1 1 *"  # a CronJob needs a schedule, even if it is always suspended
_START_WITHIN: Final = 600  # seconds after its scheduled time within which a missed run is started
_KEPT: Final = 3  # finished Jobs to keep, of either kind
_UID: Final = 1000
_NO_PRIVILEGES: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_REQUESTS: Final = {"cpu": "500m", "memory": "2Gi"}
_LIMITS: Final = {"memory": "4Gi"}
_EXECUTOR: Final = {"cpu": "1", "memory": "2Gi"}
_SCRATCH: Final = "scratch"
_ROLLUP: Final = "rollup"
# Spark finds its local dirs among an executor's mounts by this name (LocalDirsFeatureStep). Without one it adds a volume
# at spark.local.dir, and a pod must not mount two volumes at the same path.
_SCRATCH_EXECUTOR: Final = "spark-local-dir-1"


def rebalance_objects(
    cluster: Mapping[str, Any], spec: KafkaClusterSpec, image: str
) -> tuple[dict[str, Any], ...]:
    """All objects of the rebalance job, in the order of creation.

    Args:
        cluster: the KafkaCluster object.
        spec: its spec.
        image: the job's image if ``spec.rebalance.engine.image`` is not set.
    """
    return (
        _object(cluster, "v1", "ServiceAccount"),
        {**_object(cluster, _RBAC, "Role"), "rules": job_rules(cluster["metadata"]["name"], spec)},
        _binding(cluster),
        cron_job(cluster, spec, image),
    )


def report_map(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The empty ConfigMap for the report of the latest run, which the job writes."""
    made = _object(cluster, "v1", "ConfigMap")
    return {
        **made,
        "metadata": {**made["metadata"], "name": names.rebalance_report(cluster["metadata"]["name"])},
    }


def job_rules(cluster: str, spec: KafkaClusterSpec) -> list[dict[str, Any]]:
    """The job's Role: read its cluster, write proposals and one report; manage pods only if it has executors.

    The operator creates the report's ConfigMap, because permission to create cannot be limited to one name.
    """
    own = [
        _rule(names.GROUP, ["kafkaclusters"], ["get"], [cluster]),
        _rule(names.GROUP, ["kafkabrokers"], ["get", "list"]),
        _rule(names.GROUP, ["kafkarebalances"], ["get", "list", "create", "patch"]),
        _rule("", ["configmaps"], ["get", "patch"], [names.rebalance_report(cluster)]),
    ]
    if spec.rebalance.engine.executors is None:
        return own
    # What Spark's scheduler needs: it creates its executors and their configuration, watches them, and deletes them by label.
    return [
        *own,
        _rule("", ["pods"], ["get", "list", "watch", "create", "patch", "delete", "deletecollection"]),
        _rule("", ["configmaps"], ["get", "list", "create", "delete", "deletecollection"]),
    ]


def cron_job(cluster: Mapping[str, Any], spec: KafkaClusterSpec, image: str) -> dict[str, Any]:
    """The CronJob. It is suspended without a schedule and while the cluster is paused; runs can still be requested."""
    rebalance = spec.rebalance
    return {
        **_object(cluster, "batch/v1", "CronJob"),
        "spec": {
            "schedule": rebalance.schedule or _NEVER,
            "timeZone": "Etc/UTC",
            "suspend": spec.paused or rebalance.schedule is None,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": _START_WITHIN,
            "successfulJobsHistoryLimit": _KEPT,
            "failedJobsHistoryLimit": _KEPT,
            "jobTemplate": {
                "metadata": {"labels": _labels(cluster)},
                "spec": {
                    # No retry: the reason is reported, and the next run uses the state of its own time.
                    "backoffLimit": 0,
                    "activeDeadlineSeconds": 60 * rebalance.engine.deadline_minutes,
                    "template": merged(
                        {
                            "metadata": {"labels": _labels(cluster)},
                            "spec": _pod(cluster, spec, rebalance.engine.image or image),
                        },
                        parts_of(rebalance.engine.pod_template),
                        names.CONTAINER_REBALANCE,
                    ),
                },
            },
        },
    }


def arguments(cluster: str, namespace: str, rebalance: Rebalance) -> list[str]:
    """Arguments of ``spindle-rebalance``."""
    engine = rebalance.engine
    bootstrap = f"{names.bootstrap_service(cluster)}.{namespace}.svc:{names.PORT_CLIENT}"
    resources = _resources(engine.resources, _REQUESTS, _LIMITS)
    told = [
        "run",
        f"--cluster-namespace={namespace}",
        f"--cluster={cluster}",
        f"--bootstrap={bootstrap}",
        f"--tls={names.TLS_DIR}",
        f"--scratch={names.SCRATCH_DIR}",
        f"--report-configmap={names.rebalance_report(cluster)}",
        f"--memory={_with_limits(resources)['memory']}",
        *_kept(rebalance.rollup),
    ]
    if engine.executors is None:
        # Java sees the node's cores: with that many tasks, each would get very little of the pod's CPU and memory.
        cores = -(-quantity.millicores(_with_limits(resources)["cpu"]) // 1000)
        return [*told, f"--master=local[{max(1, cores)}]"]
    resources = executor_resources(engine)
    return [
        *told,
        f"--executors={engine.executors.count}",
        f"--executor-cpu={resources['requests']['cpu']}",
        f"--executor-memory={_with_limits(resources)['memory']}",
    ]


def _kept(rollup: Rollup | None) -> list[str]:
    if rollup is None:
        return []
    return [f"--rollup={rollup.path}", *(f"--hadoop={k}={v}" for k, v in sorted(rollup.settings.items()))]


def executor_resources(engine: Engine) -> dict[str, dict[str, str]]:
    """CPU and memory of one executor with defaults; the memory limit equals its request."""
    given = engine.executors.resources if engine.executors is not None else ResourceRequirements()
    return _resources(given, _EXECUTOR, {"memory": _EXECUTOR["memory"]})


def executor_pod(cluster: Mapping[str, Any], spec: KafkaClusterSpec) -> dict[str, Any]:
    """The template of an executor's pod (``spark.kubernetes.executor.podTemplateFile``), without a service account token."""
    meta = cluster["metadata"]
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {**labels(meta["name"]), names.LABEL_ROLE: names.ROLE_REBALANCE}},
        "spec": {
            **_pod_basics(spec),
            "automountServiceAccountToken": False,
            "securityContext": _security(),
            "containers": [
                {
                    "name": "executor",
                    **_credentials(spec.rebalance.rollup),
                    "securityContext": _NO_PRIVILEGES,
                    "volumeMounts": _mounts(spec.rebalance, _SCRATCH_EXECUTOR),
                }
            ],
            "volumes": _volumes(meta["name"], spec.rebalance, _SCRATCH_EXECUTOR),
        },
    }
    template = parts_of(spec.rebalance.engine.pod_template)
    for_driver = ("containers", "initContainers", "volumes")
    about_pod = {key: value for key, value in template.get("spec", {}).items() if key not in for_driver}
    return merged(made, {**template, "spec": about_pod}, "executor")


def _with_limits(resources: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The limits; the requests where there is no limit."""
    return {**resources["requests"], **resources["limits"]}


_RBAC: Final = "rbac.authorization.k8s.io/v1"


def _object(cluster: Mapping[str, Any], version: str, kind: str) -> dict[str, Any]:
    name = names.rebalance_job(cluster["metadata"]["name"])
    metadata = owned_metadata(cluster, name, role=names.ROLE_REBALANCE)
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _labels(cluster: Mapping[str, Any]) -> dict[str, str]:
    return labels(cluster["metadata"]["name"], role=names.ROLE_REBALANCE)


def _binding(cluster: Mapping[str, Any]) -> dict[str, Any]:
    meta = cluster["metadata"]
    name = names.rebalance_job(meta["name"])
    return {
        **_object(cluster, _RBAC, "RoleBinding"),
        "roleRef": {"apiGroup": _RBAC.split("/", maxsplit=1)[0], "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": meta["namespace"]}],
    }


def _rule(
    group: str, resources: list[str], verbs: list[str], only: list[str] | None = None
) -> dict[str, Any]:
    made: dict[str, Any] = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**made, "resourceNames": only} if only else made


def _pod(cluster: Mapping[str, Any], spec: KafkaClusterSpec, image: str) -> dict[str, Any]:
    meta, engine = cluster["metadata"], spec.rebalance.engine
    return {
        **_pod_basics(spec),
        "restartPolicy": "Never",
        "serviceAccountName": names.rebalance_job(meta["name"]),
        "terminationGracePeriodSeconds": 30,
        "securityContext": _security(),
        "containers": [
            {
                "name": names.CONTAINER_REBALANCE,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["spindle-rebalance"],
                "args": arguments(meta["name"], meta["namespace"], spec.rebalance),
                "workingDir": names.SCRATCH_DIR,
                "env": [
                    _field(names.ENV_POD_NAME, "metadata.name"),
                    _field(names.ENV_POD_NAMESPACE, "metadata.namespace"),
                    _field(names.ENV_POD_IP, "status.podIP"),
                    {"name": names.ENV_REBALANCE_IMAGE, "value": image},
                    {"name": "HOME", "value": names.SCRATCH_DIR},
                ],
                **_credentials(spec.rebalance.rollup),
                "ports": [
                    {"name": "driver", "containerPort": names.PORT_SPARK_DRIVER},
                    {"name": "blocks", "containerPort": names.PORT_SPARK_BLOCKS},
                ],
                "resources": _resources(engine.resources, _REQUESTS, _LIMITS),
                "securityContext": _NO_PRIVILEGES,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": _mounts(spec.rebalance),
            }
        ],
        "volumes": _volumes(meta["name"], spec.rebalance),
    }


def _pod_basics(spec: KafkaClusterSpec) -> dict[str, Any]:
    """Scheduling and security settings of a run's pods; they need not run on the nodes of brokers."""
    scheduling = spec.scheduling
    made: dict[str, Any] = {"enableServiceLinks": False}
    if scheduling.tolerations:
        made["tolerations"] = [toleration.to_dict() for toleration in scheduling.tolerations]
    if scheduling.image_pull_secrets:
        made["imagePullSecrets"] = [{"name": ref.name} for ref in scheduling.image_pull_secrets]
    return made


def _security() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": _UID,
        "runAsGroup": _UID,
        "fsGroup": _UID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _credentials(rollup: Rollup | None) -> dict[str, Any]:
    if rollup is None or rollup.secret_name is None:
        return {}
    return {"envFrom": [{"secretRef": {"name": rollup.secret_name}}]}


def _claim(rebalance: Rebalance) -> str | None:
    """The claim that stores hourly features."""
    return rebalance.rollup.claim_name if rebalance.rollup else None


def _mounts(rebalance: Rebalance, scratch: str = _SCRATCH) -> list[dict[str, Any]]:
    claim = [{"name": _ROLLUP, "mountPath": names.ROLLUP_DIR}] if _claim(rebalance) else []
    return [
        {"name": "tls", "mountPath": names.TLS_DIR, "readOnly": True},
        {"name": scratch, "mountPath": names.SCRATCH_DIR},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a folder of the container, which has no other users
        *claim,
    ]


def _volumes(cluster: str, rebalance: Rebalance, scratch: str = _SCRATCH) -> list[dict[str, Any]]:
    size, claim = rebalance.engine.local_scratch, _claim(rebalance)
    limit: dict[str, Any] = {"sizeLimit": size} if size else {}
    return [
        {"name": "tls", "secret": {"secretName": names.rebalance_secret(cluster), "defaultMode": 0o440}},
        {"name": scratch, "emptyDir": limit},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        *([{"name": _ROLLUP, "persistentVolumeClaim": {"claimName": claim}}] if claim else []),
    ]


def _resources(
    given: ResourceRequirements, requests: Mapping[str, str], limits: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """The user's resources merged with the defaults. A user's limit is also the request, and a request above the limit becomes the limit."""
    asked, most = given.requests.to_dict(), given.limits.to_dict()
    return {
        "requests": {**requests, **most, **asked},
        "limits": {**({} if asked.get("memory") and not most.get("memory") else limits), **most},
    }
