import json
from pathlib import Path

import pytest

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.manifests.cronjob import arguments, cron_job, executor_pod
from spindle_rebalance import engine, executor, options
from spindle_rebalance.errors import RunError
from tests.unit.balance_samples import SPEC

ENV = {
    "KUBERNETES_SERVICE_HOST": "fd00::1",
    "KUBERNETES_SERVICE_PORT": "6443",
    names.ENV_POD_IP: "fd00:1::7",
    names.ENV_POD_NAME: "demo-rebalance-29382-abcde",
    names.ENV_POD_NAMESPACE: "ns",
    names.ENV_REBALANCE_IMAGE: "localhost/spindle-rebalance:dev",
}
OBJECT = {"metadata": {"name": "demo", "namespace": "ns", "uid": "u"}}


def spec(**engine_: object) -> KafkaClusterSpec:
    return KafkaClusterSpec.parse({**SPEC, "rebalance": {"engine": engine_}})


def test_what_the_cron_job_says_is_understood() -> None:
    found = options.parse(arguments("demo", "ns", spec().rebalance))
    (target,) = found.targets
    assert target.name == "ns/demo"
    assert target.access.bootstrap == "demo-bootstrap.ns.svc:9092"
    assert target.access.tls == Path(names.TLS_DIR)
    assert target.report_map == names.rebalance_report("demo")
    assert (found.executors, found.publish, found.replay) == (None, True, None)
    assert engine.master_of(found, {}) == "local[1]"
    assert engine.settings(found, None, {}) == {
        "spark.local.dir": names.SCRATCH_DIR,
        "spark.driver.memory": "2048m",  # of 4Gi; the other half is for Python
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def test_the_heap_is_half_of_the_memory_but_enough_for_spark_to_start() -> None:
    told = ["run", "--cluster=x", "--bootstrap=h", "--tls=t"]
    assert options.parse(told).heap_mib is None
    assert options.parse([*told, "--memory=9Gi"]).heap_mib == 4608
    assert options.parse([*told, "--memory=600Mi"]).heap_mib == 512


def test_where_hours_are_kept_reaches_the_job() -> None:
    asked = KafkaClusterSpec.parse(
        {
            **SPEC,
            "rebalance": {
                "rollup": {"path": "s3a://bucket/x", "settings": {"fs.s3a.endpoint": "http://s3:9000/?a=b"}}
            },
        }
    )
    found = options.parse(arguments("demo", "ns", asked.rebalance))

    assert found.rollup == "s3a://bucket/x"
    made = engine.settings(found, None, {})
    assert made["spark.hadoop.fs.s3a.endpoint"] == "http://s3:9000/?a=b"
    assert "spark.driver.extraJavaOptions" not in made  # it writes and encrypts in the JVM
    assert options.parse(arguments("demo", "ns", spec().rebalance)).rollup is None


def test_a_setting_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.parse(["run", "--cluster=x", "--bootstrap=h", "--tls=t", "--hadoop=fs.s3a.endpoint"])
    assert "--hadoop fs.s3a.endpoint: must be KEY=VALUE" in capsys.readouterr().err


def test_executors_on_kubernetes(tmp_path: Path) -> None:
    asked = spec(
        executors={"count": 2, "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "3Gi"}}}
    )
    told = [
        f"--scratch={tmp_path}" if x.startswith("--scratch") else x
        for x in arguments("demo", "ns", asked.rebalance)
    ]
    found = options.parse(told)
    assert found.executors is not None
    assert found.executors.count == 2
    assert engine.master_of(found, ENV) == "k8s://https://[fd00::1]:6443"
    made = engine.settings(found, executor_pod(OBJECT, asked), ENV)
    assert made["spark.driver.host"] == "[fd00:1::7]"
    assert made["spark.kubernetes.driver.pod.name"] == ENV[names.ENV_POD_NAME]
    assert (made["spark.driver.port"], made["spark.driver.blockManager.port"]) == ("7078", "7079")
    assert made["spark.kubernetes.executor.request.cores"] == "0.5"
    heap, more = (int(made[f"spark.executor.{key}"][:-1]) for key in ("memory", "memoryOverhead"))
    assert heap + more == 3 * 1024  # what the pod is limited to, Python included
    template = json.loads(Path(made["spark.kubernetes.executor.podTemplateFile"]).read_text())
    (container,) = template["spec"]["containers"]
    assert container["name"] == made["spark.kubernetes.executor.podTemplateContainerName"]


def test_executors_outside_of_a_pod_are_refused() -> None:
    found = options.parse(arguments("demo", "ns", spec(executors={"count": 1}).rebalance))
    with pytest.raises(RunError, match="KUBERNETES_SERVICE_HOST is not set"):
        engine.master_of(found, {})


def test_the_container_runs_what_the_image_has() -> None:
    (container,) = cron_job(OBJECT, spec(), "image")["spec"]["jobTemplate"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["command"] == ["spindle-rebalance"]


@pytest.mark.parametrize(
    ("address", "text"), [("10.0.0.1", "10.0.0.1"), ("fd00::7", "[fd00::7]"), ("host", "host")]
)
def test_addresses_in_urls(address: str, text: str) -> None:
    assert engine.host_text(address) == text


def test_a_fleet(tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    one = {"namespace": "a", "cluster": "x", "bootstrap": "h:1", "tls": "/t"}
    path.write_text(json.dumps([one, {**one, "cluster": "y", "reportConfigmap": "r"}]))
    found = options.parse(["run", f"--fleet={path}"])
    assert [t.name for t in found.targets] == ["a/x", "a/y"]
    assert [t.report_map for t in found.targets] == ["", "r"]
    assert engine.settings(found, None, {})["spark.scheduler.mode"] == "FAIR"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (["run"], "--cluster is missing"),
        (["run", "--cluster=x", "--bootstrap=h:1"], "--tls is missing"),
        (["run", "--fleet=FILE", "--cluster=x"], "exclude each other"),
        (["run", "--fleet=FILE"], "names no cluster"),
        (["run", "--fleet=/nowhere"], "No such file"),
        (
            ["run", "--cluster=x", "--bootstrap=h", "--tls=t", "--replay=/nowhere"],
            "the folder /nowhere does not exist",
        ),
        (
            ["run", "--cluster=x", "--bootstrap=h", "--tls=t", "--executors=1", "--executor-memory=much"],
            "not a quantity",
        ),
        (
            ["run", "--cluster=x", "--bootstrap=h", "--tls=t", "--memory=much"],
            "--memory: 'much' is not a quantity",
        ),
    ],
)
def test_what_makes_no_sense(
    told: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    with pytest.raises(SystemExit) as ended:
        options.parse([x.replace("FILE", str(empty)) for x in told])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_pod_of_sparks_becomes_an_executor() -> None:
    env = {
        "SPARK_JAVA_OPT_10": "-Dlast", "SPARK_JAVA_OPT_2": "-Dsecond", "SPARK_JAVA_OPT_0": "-Dfirst",
        "SPARK_EXECUTOR_MEMORY": "512m", "SPARK_DRIVER_URL": "spark://d", "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1", "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "p", "SPARK_CONF_DIR": "/conf",
    }  # fmt: skip
    made = executor.command(env, "/jars")
    assert made[:7] == ["java", "-Dfirst", "-Dsecond", "-Dlast", "-Xms512m", "-Xmx512m", "-cp"]
    assert made[7] == "/conf:/jars/*"
    assert made[9:13] == ["--driver-url", "spark://d", "--executor-id", "1"]
    with pytest.raises(KeyError, match="SPARK_EXECUTOR_MEMORY"):
        executor.command({}, "/jars")
