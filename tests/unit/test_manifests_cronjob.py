"""The rebalance job's objects: what it is told, what it may do, and what keeps it small."""

from typing import Any

import pytest

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.manifests.cronjob import arguments, cron_job, executor_pod, job_rules, rebalance_objects

CLUSTER = {"metadata": {"name": "demo", "namespace": "kafka", "uid": "u-1"}}


def spec(paused: bool = False, **rebalance: Any) -> KafkaClusterSpec:
    return KafkaClusterSpec.model_validate(
        {
            "version": "4.3.1",
            "controllers": {"replicas": 1, "storage": {"size": "1Gi"}},
            "brokerPools": [],
            "paused": paused,
            "rebalance": rebalance,
        }
    )


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("wanted", "schedule", "suspended"),
    [
        pytest.param(spec(), "0 0 1 1 *", True, id="no schedule"),
        pytest.param(spec(schedule="0 3 * * *"), "0 3 * * *", False, id="each night"),
        pytest.param(spec(paused=True, schedule="@daily"), "@daily", True, id="paused"),
    ],
)
def test_it_runs_by_its_schedule_unless_paused(
    wanted: KafkaClusterSpec, schedule: str, suspended: bool
) -> None:
    job = cron_job(CLUSTER, wanted, "image")["spec"]

    assert (job["schedule"], job["suspend"], job["timeZone"]) == (schedule, suspended, "Etc/UTC")


def test_one_run_at_a_time_that_ends_and_is_forgotten() -> None:
    job = cron_job(CLUSTER, spec(engine={"deadlineMinutes": 7}), "image")["spec"]

    assert job["concurrencyPolicy"] == "Forbid"
    assert job["startingDeadlineSeconds"] == 600
    assert (job["successfulJobsHistoryLimit"], job["failedJobsHistoryLimit"]) == (3, 3)
    assert job["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 420
    assert job["jobTemplate"]["spec"]["backoffLimit"] == 0


def test_the_job_is_told_whom_it_works_for_and_where_it_is() -> None:
    container = pod_of(cron_job(CLUSTER, spec(), "image"))["containers"][0]

    assert container["command"] == ["spindle-rebalance"]
    assert container["args"] == [
        "run",
        "--cluster-namespace=kafka",
        "--cluster=demo",
        "--bootstrap=demo-bootstrap.kafka.svc:9092",
        "--tls=/etc/spindle/tls",
        "--scratch=/var/lib/spindle/scratch",
        "--report-configmap=demo-rebalance-report",
        "--memory=4Gi",
        "--master=local[1]",
    ]
    fields = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container["env"]
        if "valueFrom" in each
    }
    assert fields == {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_IP": "status.podIP",
    }


@pytest.mark.parametrize(
    ("resources", "memory", "master"),
    [
        pytest.param({"limits": {"cpu": "2500m", "memory": "8Gi"}}, "8Gi", "local[3]", id="limits"),
        pytest.param({"requests": {"cpu": "2", "memory": "9Gi"}}, "9Gi", "local[2]", id="requests alone"),
        pytest.param({"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}, "4Gi", "local[4]", id="both"),
    ],
)
def test_it_works_with_the_cores_and_the_memory_that_its_pod_has(
    resources: dict[str, Any], memory: str, master: str
) -> None:
    told = arguments("demo", "kafka", spec(engine={"resources": resources}).rebalance)

    assert told[-2:] == [f"--memory={memory}", f"--master={master}"]


def test_executors_are_asked_for_with_their_size() -> None:
    engine = spec(engine={"executors": {"count": 3, "resources": {"limits": {"memory": "3Gi"}}}})

    assert arguments("demo", "kafka", engine.rebalance)[-3:] == [
        "--executors=3",
        "--executor-cpu=1",
        "--executor-memory=3Gi",
    ]


def test_its_pods_are_restricted_and_only_the_driver_has_rights() -> None:
    driver = pod_of(cron_job(CLUSTER, spec(), "image"))
    executor = executor_pod(CLUSTER, spec(engine={"executors": {}}))["spec"]

    assert driver["serviceAccountName"] == "demo-rebalance"
    assert executor["automountServiceAccountToken"] is False
    for pod, scratch in ((driver, "scratch"), (executor, "spark-local-dir-1")):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]} == {"tls", scratch, "tmp"}


def test_an_executors_scratch_is_the_local_dir_that_spark_looks_for() -> None:
    """Else Spark mounts one of its own at the same path, and no such pod can be made."""
    executor = executor_pod(CLUSTER, spec(engine={"executors": {}, "localScratch": "5Gi"}))["spec"]
    (mount,) = (
        each
        for each in executor["containers"][0]["volumeMounts"]
        if each["mountPath"] == names.SCRATCH_DIR  # Spark is told of it as spark.local.dir
    )

    assert mount["name"].startswith("spark-local-dir-")
    assert {"name": mount["name"], "emptyDir": {"sizeLimit": "5Gi"}} in executor["volumes"]


def test_a_claim_and_credentials_for_the_roll_up_reach_driver_and_executors() -> None:
    wanted = spec(
        engine={"executors": {}},
        rollup={"path": f"file://{names.ROLLUP_DIR}/a", "claimName": "history", "secretName": "store"},
    )
    driver = pod_of(cron_job(CLUSTER, wanted, "image"))
    executor = executor_pod(CLUSTER, wanted)["spec"]

    assert f"--rollup=file://{names.ROLLUP_DIR}/a" in driver["containers"][0]["args"]
    for pod in (driver, executor):
        container = pod["containers"][0]
        assert container["envFrom"] == [{"secretRef": {"name": "store"}}]
        (mount,) = (each for each in container["volumeMounts"] if each["mountPath"] == names.ROLLUP_DIR)
        assert {"name": mount["name"], "persistentVolumeClaim": {"claimName": "history"}} in pod["volumes"]


def test_the_users_image_scratch_and_resources_count() -> None:
    wanted = spec(engine={"image": "mine", "localScratch": "5Gi", "resources": {"limits": {"memory": "1Gi"}}})
    pod = pod_of(cron_job(CLUSTER, wanted, "image"))

    assert pod["containers"][0]["image"] == "mine"
    assert {"name": "scratch", "emptyDir": {"sizeLimit": "5Gi"}} in pod["volumes"]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"memory": "1Gi"},
    }


def test_a_request_above_the_default_limit_takes_the_limit_away() -> None:
    pod = pod_of(cron_job(CLUSTER, spec(engine={"resources": {"requests": {"memory": "9Gi"}}}), "image"))

    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "9Gi"},
        "limits": {},
    }


def test_rights_over_pods_come_with_executors_only() -> None:
    alone, many = (job_rules("demo", spec(engine=engine)) for engine in ({}, {"executors": {"count": 2}}))

    assert "pods" not in {resource for each in alone for resource in each["resources"]}
    assert [each["resourceNames"] for each in alone if each["resources"] == ["configmaps"]] == [
        ["demo-rebalance-report"]
    ]
    assert not any(verb in ("update", "delete", "*") for each in alone for verb in each["verbs"])
    assert ["pods"] in [each["resources"] for each in many]


def test_everything_goes_with_the_cluster_and_is_found_by_its_label() -> None:
    made = rebalance_objects(CLUSTER, spec(), "image")

    assert [each["kind"] for each in made] == ["ServiceAccount", "Role", "RoleBinding", "CronJob"]
    for each in made:
        assert each["metadata"]["name"] == "demo-rebalance"
        assert each["metadata"]["ownerReferences"][0]["uid"] == "u-1"
        assert each["metadata"]["labels"][names.LABEL_CLUSTER] == "demo"
