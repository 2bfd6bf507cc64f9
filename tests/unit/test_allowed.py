"""What a KafkaCluster may ask for beyond Kafka: told and not carried out, unless it was in use before."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.model.allowed import Allowed, forbidden_settings, providers_in_use, read
from spindle.model.spec_findings import SharedObject
from tests.model.world import World

FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
PROVIDERS = {
    "config.providers": "file",
    "config.providers.file.class": FILE_PROVIDER,
    "num.network.threads": "${file:/etc/spindle/tls/tls.key:x}",
}


def waiting(world: World, reason: str = "SpecNotAllowed") -> list[str]:
    found = world.cluster["status"].get("waiting") or ()
    return sorted(wait["message"].partition(":")[0] for wait in found if wait["reason"] == reason)


def look(world: World, count: int = 3) -> None:
    for _ in range(count):
        world.reconcile()
        world.breathe()


def strict(**spec: Any) -> World:
    world = World.of(**spec)
    world.allowed = Allowed()
    return world


def opts(world: World) -> set[str]:
    pods = [pod for pod in world.all("Pod") if pod["metadata"]["labels"].get(names.LABEL_ROLE) == "broker"]
    env = [e for pod in pods for c in pod["spec"]["containers"] for e in c["env"]]
    return {e["value"] for e in env if e["name"] == "KAFKA_OPTS"}


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        pytest.param("spec.image", {"image": "evil/kafka:4.3.1"}, id="image"),
        pytest.param("spec.image", {"image": "apache/kafka-evil:4.3.1"}, id="image-like-the-stock-one"),
        pytest.param("spec.config", {"config": PROVIDERS}, id="config-providers"),
        pytest.param("spec.config", {"config": {"metric.reporters": "evil.Reporter"}}, id="plugin"),
        pytest.param("spec.config", {"config": {"remote.log.storage.manager.class.path": "/opt/x.jar"}}, id="path"),
        pytest.param("spec.config", {"config": {"max.connections": "0"}}, id="locked-out"),
        pytest.param("spec.config", {"config": {"max.request.partition.size.limit": "1"}}, id="told-too-little"),
        pytest.param("spec.config", {"config": {"max.connections.per.ip.overrides": "10.0.0.1:0"}}, id="one-locked-out"),
        pytest.param("spec.config", {"config": {"node.id": "7"}}, id="owned-and-known"),
        pytest.param("spec.config", {"config": {"listener.name.client.ssl.client.auth": "none"}}, id="owned-and-opens"),
        pytest.param("spec.config", {"config": {"ssl.protocol": "TLSv1"}}, id="owned-and-not-set-by-spindle"),
        pytest.param("spec.rebalance.engine.image", {"rebalance": {"engine": {"image": "evil/job:1"}}}, id="job"),
        pytest.param(
            "spec.listeners[out].annotations",
            {"listeners": [{"name": "out", "port": 9095, "type": "loadbalancer", "annotations": {"cloud/role": "admin"}}]},
            id="load-balancer",
        ),
        pytest.param(
            "spec.controllers.jvm.options",
            {
                "controllers": {
                    "replicas": 3, "storage": {"size": "1Gi"},
                    "jvm": {"options": ["-agentlib:jdwp=transport=dt_socket,server=y,address=*:5005"]},
                }
            },
            id="jdwp",
        ),
    ],
)  # fmt: skip
def test_nothing_is_made_of_a_spec_that_asks_for_too_much(field: str, spec: dict[str, Any]) -> None:
    world = strict(**spec)
    look(world)
    assert set(waiting(world)) == {field}
    assert not world.all("Pod")
    assert not world.all("Service")
    (ready,) = (c for c in world.cluster["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "SpecNotAllowed")


@pytest.mark.parametrize("option", [
    "-agentpath:/tmp/x.so", "-javaagent:/tmp/x.jar", "-XX:OnOutOfMemoryError=sh", "-XX:Flags=/tmp/x", "-XX:HeapDumpPath=/tmp", "-Xrunjdwp:x",
    "-XX:+StartAttachListener", "-Djava.rmi.server.hostname=x", "-Dcom.sun.management.jmxremote.port=1", "-XX:MaxGCPauseMillis=1,x", "-Xlog:gc:/x",
    "-Dorg.apache.kafka.automatic.config.providers=x", "@/tmp/args", "-Xbootclasspath/a:/tmp/x.jar", "--add-opens=x",
    "-XX:ErrorFile=/tmp/x", "-XX:+UseZGC\n-javaagent:x",
])  # fmt: skip
def test_options_that_are_not_allowed(option: str) -> None:
    assert not Allowed().jvm_option(option)
    assert Allowed(jvm_options=("*",)).jvm_option(option)


@pytest.mark.parametrize(
    "option",
    ["-XX:+UseZGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-XX:-UseLargePages", "-Duser.timezone=UTC"],
)
def test_options_of_memory_collectors_and_compilers_are_allowed(option: str) -> None:
    assert Allowed().jvm_option(option)


def test_images_end_where_a_name_ends() -> None:
    allowed = Allowed(images=("apache/kafka", "registry.example/team/"))
    assert all(
        map(
            allowed.image,
            ("apache/kafka", "apache/kafka:4.3.1", "apache/kafka@sha256:1", "registry.example/team/a:1"),
        )
    )
    assert not any(
        map(
            allowed.image,
            (
                "apache/kafka2:1",
                "registry.example/teams:1",
                "evil/apache/kafka:1",
                "registry.example/team/../x:1",
                "apache/kafka/evil:1",
                "apache/kafka:5000/evil:1",
                "apache/kafka:1 x",
            ),
        )
    )
    of_registry = Allowed(images=("registry.example",))
    assert not of_registry.image("registry.example:5000/evil:1"), "another port is another registry"


def test_what_a_chart_widens() -> None:
    allowed = read(
        '{"images": ["r/"], "jvmOptions": ["-Dmine=*"], "classes": ["com.example."], "annotations": []}'
    )
    assert allowed.image("r/kafka:1")
    assert allowed.jvm_option("-Dmine=x")
    assert not allowed.jvm_option("-Dmine=/x")
    assert not list(forbidden_settings({"metric.reporters": "com.example.A,com.example.b.B"}, allowed))
    assert list(forbidden_settings({"metric.reporters": "com.example.A,com.evil.B"}, allowed))
    assert not allowed.annotation("a")


@pytest.mark.parametrize("key", [
    "spark.jars", "spark.driver.extraJavaOptions", "spark.executor.extraClassPath", "spark.kubernetes.executor.podTemplateFile",
    "spark.submit.pyFiles", "fs.s3a.impl", "fs.AbstractFileSystem.file.impl", "fs.file.impl", "io.compression.codecs",
    "hadoop.security.credential.provider.path", "fs.s3a.security.credential.provider.path", "fs.azure.shellkeyprovider.script",
    "fs.azure.account.keyprovider.x", "fs.azure.sas.token.provider.type", "fs.s3a.delegation.token.binding", "fs.s3a.custom.signers",
    "fs.s3a.audit.service.classname", "fs.s3a.assumed.role.credentials.provider", "fs.gs.auth.service.account.json.keyfile",
    "net.topology.script.file.name", "hadoop.security.group.mapping", "fs.viewfs.mounttable.x.linkFallback", "fs.s3a.buffer.dir",
    "fs.s3a.bucket.b.impl", "fs.s3a.bucket.a.b.endpoint", "fs.s3a.bucket..endpoint", "fs.s3a.bucket.b.", "fs.s3a.endpoints", "fs.s3a",
    "dfs.ha.namenodes", "",
])  # fmt: skip
def test_hadoop_settings_that_are_not_allowed(key: str) -> None:
    assert not Allowed().hadoop_setting(key, "x")
    assert Allowed(hadoop_settings=("*",)).hadoop_setting(key, "x")


@pytest.mark.parametrize("key", [
    "fs.s3a.endpoint", "fs.s3a.bucket.history.endpoint", "fs.s3a.path.style.access", "fs.s3a.secret.key", "fs.azure.account.key.me.dfs.core.windows.net",
    "fs.azure.account.auth.type", "fs.gs.project.id", "dfs.nameservices", "dfs.ha.namenodes.ns1", "dfs.namenode.rpc-address.ns1.nn1",
])  # fmt: skip
def test_hadoop_settings_that_name_a_store_are_allowed(key: str) -> None:
    assert Allowed().hadoop_setting(key, "${env.ANYTHING}")


@pytest.mark.parametrize(
    "key", ["fs.s3a.aws.credentials.provider", "fs.s3a.bucket.b.aws.credentials.provider"]
)
def test_hadoop_settings_that_name_classes_are_allowed_by_what_they_name(key: str) -> None:
    own = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    assert Allowed().hadoop_setting(key, own)
    assert Allowed().hadoop_setting(
        key, f"{own}, software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
    )
    assert not Allowed().hadoop_setting(key, f"{own},evil.Provider")
    assert not Allowed().hadoop_setting(key, "${fs.s3a.endpoint}")
    assert Allowed(classes=("evil.",)).hadoop_setting(key, f"{own},evil.Provider")
    assert not Allowed(hadoop_settings=("fs.azure.",)).hadoop_setting(key, "evil.Provider")


def rolled_up(**settings: str) -> dict[str, Any]:
    return {
        "engine": {"image": "apache/kafka:job"},
        "rollup": {"path": "s3a://bucket/x", "settings": settings},
    }


def test_the_jobs_settings_are_told_by_field_and_what_was_in_use_stays() -> None:
    world = World.of()
    world.allowed = Allowed(hadoop_settings=("*",))
    world.cluster["spec"]["rebalance"] = rolled_up(**{"fs.s3a.impl": "mine.FileSystem"})
    look(world)
    assert world.all("CronJob")
    world.allowed = Allowed()
    look(world)
    assert waiting(world, "AllowedForCompatibility") == ["spec.rebalance.rollup.settings"]
    world.cluster["spec"]["rebalance"] = rolled_up(**{"fs.s3a.impl": "evil.FileSystem"})
    look(world)
    assert waiting(world) == ["spec.rebalance.rollup.settings"]
    (told,) = (each for each in world.cluster["status"]["waiting"] if each["reason"] == "SpecNotAllowed")
    assert "allow.hadoopSettings" in told["unblockedBy"]
    assert "evil" not in str(world.all("CronJob"))


@pytest.mark.parametrize(
    "text", ["x", "[]", '{"image": []}', '{"images": "x"}', '{"images": [1]}', '{"images": [""]}']
)
def test_a_list_that_is_none_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)


def test_kafkas_own_defaults_are_allowed() -> None:
    harmless = {
        "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "group.consumer.assignors": "uniform,range",
        "max.connections.per.ip": "200",
        "connections.max.idle.ms": "-1",
        "max.connections.per.ip.overrides": "",
    }
    assert not list(forbidden_settings(harmless, Allowed()))


def test_what_was_in_use_goes_on_and_is_told() -> None:
    world = World.of(image="mine/kafka:4.3.1")
    pool = world.cluster["spec"]["brokerPools"][0]
    pool["jvm"] = {"options": ["-Dcom.sun.management.jmxremote"]}
    world.allowed = Allowed(images=("*",), jvm_options=("*",))
    world.settle()
    assert opts(world) == {"-Dcom.sun.management.jmxremote"}
    world.allowed = Allowed()
    before = {pod["metadata"]["uid"] for pod in world.all("Pod")}
    look(world)
    assert waiting(world) == []
    assert waiting(world, "AllowedForCompatibility") == ["spec.brokerPools[main].jvm.options", "spec.image"]
    assert {pod["metadata"]["uid"] for pod in world.all("Pod")} == before
    # Other parts of the spec are carried out all the while.
    world.cluster["spec"]["config"] = {"log.retention.ms": "9000"}
    world.settle()
    assert waiting(world) == []
    text = world.get("ConfigMap", "demo-broker-0-config")["data"]["server.properties"]
    assert "log.retention.ms=9000" in text
    # A change of one that is not allowed is refused, and what ran goes on.
    pool["jvm"]["options"] = ["-agentlib:jdwp=x"]
    look(world)
    assert waiting(world) == ["spec.brokerPools[main].jvm.options"]
    assert opts(world) == {"-Dcom.sun.management.jmxremote"}
    # Taken out, it is gone for good.
    pool["jvm"]["options"] = []
    world.settle()
    pool["jvm"]["options"] = ["-Dcom.sun.management.jmxremote"]
    look(world)
    assert waiting(world) == ["spec.brokerPools[main].jvm.options"]


def test_more_disks_than_one_cluster_may_have_are_refused_and_what_runs_goes_on() -> None:
    world = World.of()
    world.settle()
    pool = world.cluster["spec"]["brokerPools"][0]
    before = len(world.all("KafkaBroker"))
    kept = pool["replicas"]
    pool["replicas"], pool["disks"]["count"] = 100, 51
    look(world)
    assert waiting(world) == ["spec.brokerPools"]
    (wait,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "SpecNotAllowed"]
    assert "5100 disks" in wait["message"]
    assert len(world.all("KafkaBroker")) == before
    pool["replicas"], pool["disks"]["count"] = kept, 2
    world.settle()
    assert not waiting(world)


def test_a_cluster_from_before_there_were_records_goes_on() -> None:
    world = World.of(image="mine/kafka:4.3.1")
    world.settle()
    record = world.get("ConfigMap", names.pools_map("demo"))
    del record["data"]["_accepted"]
    world.put(record)
    world.allowed = Allowed()
    look(world)
    assert waiting(world) == []
    assert waiting(world, "AllowedForCompatibility") == ["spec.image"]


def test_no_pod_runs_before_the_spec_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that the API server refuses (too large, a quota) does not make a later spec one that was in use before."""
    world = strict()
    apply = world._apply
    lose = names.pools_map("demo")
    monkeypatch.setattr(
        world, "_apply", lambda action: None if action.object["metadata"]["name"] == lose else apply(action)
    )
    look(world, 9)
    assert not world.all("Pod")
    world.cluster["spec"]["image"] = "evil/kafka:4.3.1"
    look(world)
    assert not world.all("Pod")
    assert waiting(world) == ["spec.image"]


def test_a_spec_that_is_too_large_to_be_recorded_is_refused() -> None:
    world = strict(config={f"metrics.jmx.{i}": "x" * 4096 for i in range(120)})
    look(world)
    assert waiting(world) == ["spec"]
    assert not world.all("Pod")


def test_more_disks_than_the_installation_allows_are_refused() -> None:
    pool = {
        "name": "main",
        "replicas": 3,
        "disks": {"count": 2, "size": "1Gi", "storageClass": "local-disks"},
    }
    world = World.of(brokerPools=[pool])
    world.allowed = replace(world.allowed, disks=5)
    look(world)
    assert waiting(world) == ["spec.brokerPools"]
    assert not world.all("Pod")
    (told,) = [each for each in world.cluster["status"]["waiting"] if each["reason"] == "SpecNotAllowed"]
    assert "allow.disksPerCluster" in told["unblockedBy"]
    world.allowed = replace(world.allowed, disks=6)
    world.settle()
    assert not waiting(world)
    world.allowed = replace(world.allowed, disks=5)
    look(world)
    assert waiting(world) == []
    assert waiting(world, "AllowedForCompatibility") == ["spec.brokerPools"]


@pytest.mark.parametrize("disks", [0, 20_001, True, "9", 1.5])
def test_a_number_of_disks_that_is_none_is_refused(disks: object) -> None:
    with pytest.raises(ValueError, match="disksPerCluster must be a number from 1 to 20000"):
        read(json.dumps({"disksPerCluster": disks}))


def test_the_number_of_disks_is_read() -> None:
    assert read('{"disksPerCluster": 12000}').disks == 12_000


def test_pods_of_a_former_kafkacluster_prove_nothing() -> None:
    world = World.of(image="mine/kafka:4.3.1")
    world.settle()
    world.allowed = Allowed()
    world.cluster["metadata"]["uid"] = "uid-of-another"
    look(world, 1)
    assert waiting(world) == ["spec.image"]


def test_providers_in_use_stay_open_and_no_others() -> None:
    assert providers_in_use(PROVIDERS) == FILE_PROVIDER
    assert providers_in_use({}) == ""
    assert providers_in_use({"config.providers": "a", "config.providers.a.class": "x -javaagent:y"}) == ""


ROLLUP = {"path": "s3a://bucket/x", "secretName": "store"}


def test_a_secret_is_used_only_where_its_owner_says_so() -> None:
    world = strict(rebalance={"rollup": ROLLUP})
    world.lent["Secret/store"] = SharedObject()
    look(world)
    assert waiting(world) == ["spec.rebalance.rollup.secretName"]
    assert not world.all("Pod")
    world.lent["Secret/store"] = SharedObject(label="another")
    look(world)
    assert waiting(world) == ["spec.rebalance.rollup.secretName"]
    world.lent["Secret/store"] = SharedObject(label="demo")
    world.settle()
    assert waiting(world) == []
    # What cannot be read, or is away for a while, changes nothing for one that uses it.
    for found in (SharedObject(problem="no answer"), SharedObject(there=False)):
        world.lent["Secret/store"] = found
        look(world)
        assert waiting(world) == waiting(world, "AllowedForCompatibility") == []
    world.lent["Secret/store"] = SharedObject()
    look(world)
    assert waiting(world, "AllowedForCompatibility") == ["spec.rebalance.rollup.secretName"]


def test_one_that_is_to_come_is_not_used_beforehand() -> None:
    world = strict(security={"caSecret": "theirs"})
    world.lent["Secret/theirs"] = SharedObject(there=False)
    look(world)
    assert waiting(world) == ["spec.security.caSecret"]
    assert names.pools_map("demo") not in {obj["metadata"]["name"] for obj in world.all("ConfigMap")}


def entry(world: World, key: str) -> dict[str, Any]:
    (found,) = [w for w in world.cluster["status"]["waiting"] if w["object"] == f"KafkaCluster/demo/{key}"]
    return dict(found)


@pytest.mark.parametrize(
    ("key", "value", "carried"),
    [
        pytest.param("node.id", "7", "node.id=0", id="spindle-sets-it"),
        pytest.param("log.dirs", "/elsewhere", "log.dirs=/elsewhere", id="preflight-sets-it"),
        pytest.param("ssl.protocol", "TLSv1.3", "ssl.protocol=TLSv1.3", id="in-effect"),
    ],
)  # fmt: skip
def test_a_key_that_has_become_spindles_own_is_told_and_not_taken_out(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str, carried: str
) -> None:
    """A spec that was stored before the CRD refused the key."""
    world = strict(config={key: value})
    with monkeypatch.context() as before:
        for module in ("config.spec_allowed", "reconcile.accepted_spec"):
            before.setattr(f"spindle.{module}.owner_of", lambda key: None)
        world.settle()
    pods = {pod["metadata"]["uid"] for pod in world.all("Pod")}
    look(world)
    assert {pod["metadata"]["uid"] for pod in world.all("Pod")} == pods
    assert carried in world.get("ConfigMap", "demo-broker-0-config")["data"]["server.properties"]
    told = entry(world, key)
    assert told["reason"] == "AllowedForCompatibility"
    assert f"{key} is owned by Spindle" in told["message"]
    assert ("Spindle ignores it" in told["message"]) is (key != "ssl.protocol")
    assert told["unblockedBy"].startswith("Remove it")
    # Other changes are carried out, but not one of this key.
    world.cluster["spec"]["config"]["log.retention.ms"] = "9000"
    world.settle()
    text = world.get("ConfigMap", "demo-broker-0-config")["data"]["server.properties"]
    assert "log.retention.ms=9000" in text
    world.cluster["spec"]["config"][key] = "another"
    look(world)
    assert waiting(world) == ["spec.config"]
    world.cluster["spec"]["config"] = {}
    world.settle()
    assert not world.cluster["status"]["waiting"]


def test_a_key_of_a_pool_is_told_once_with_what_to_use_instead() -> None:
    world = strict()
    world.settle()
    pods = {pod["metadata"]["uid"] for pod in world.all("Pod")}
    world.cluster["spec"]["brokerPools"][0]["config"] = {"zookeeper.connect": "x:2181"}
    look(world, 6)
    told = entry(world, "zookeeper.connect")
    assert told["reason"] == "SpecNotAllowed"
    assert told["message"].startswith(
        "spec.brokerPools[main].config: zookeeper.connect is owned by Spindle (ZooKeeper)"
    )
    assert "Kafka 4 has no ZooKeeper" in told["unblockedBy"]
    assert {pod["metadata"]["uid"] for pod in world.all("Pod")} == pods
