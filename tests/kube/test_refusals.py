"""Nonsense is refused by the API server, with the field named and the way out said."""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from tests.kube.api import Refusal, Resources, refusal
from tests.kube.samples import DIRECTORY_ID, GONE, bent, broker, cluster, move, rebalance

pytestmark = pytest.mark.kube

POOL = "spec.brokerPools[0]"
SAMPLES = {"KafkaCluster": cluster, "KafkaBroker": broker, "KafkaRebalance": rebalance}


def case(name: str, changes: dict[str, Any], field: str, way_out: str) -> Any:
    return pytest.param(changes, field, way_out, id=name)


def pool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": 3, "disks": {"count": 1, "size": "10Gi"}, **more}


def refused(resources: Resources, thing: dict[str, Any]) -> Refusal:
    """The refusal of an object that is new."""
    with pytest.raises(ApiException) as caught:
        resources.create(thing, dry=True)
    return refusal(caught.value)


def assert_says(said: Refusal, field: str, way_out: str) -> None:
    """That the refusal names this field, and says this about it."""
    assert said.code == 422, said
    assert field in said.causes, said.message
    assert any(way_out in message for message in said.causes[field]), said.causes[field]


CLUSTERS = [
    case("name-too-long", {"metadata.name": "a" * 41}, "<nil>", "at most 40 characters"),
    case("name-begins-with-digit", {"metadata.name": "1demo"}, "<nil>", "write for example orders"),
    case("name-with-dot", {"metadata.name": "demo.eu"}, "<nil>", "write for example orders"),
    case("no-version", {"spec.version": GONE}, "spec.version", "Required value"),
    case("version-of-two-numbers", {"spec.version": "4.3"}, "spec.version", "'4.3' is not a version of Apache Kafka: write"),
    case("version-read-as-number", {"spec.version": 4.3}, "spec.version", "must be of type string"),
    case("version-latest", {"spec.version": "latest"}, "spec.version", "for example 4.3.1"),
    case("version-with-v", {"spec.version": "v4.3.1"}, "spec.version", "for example 4.3.1"),
    case("version-empty", {"spec.version": ""}, "spec.version", "for example 4.3.1"),
    case("controllers-none", {"spec.controllers.replicas": 0}, "spec.controllers.replicas", "write replicas: 3"),
    case("controllers-negative", {"spec.controllers.replicas": -3}, "spec.controllers.replicas", "1, 3 or 5"),
    case("controllers-even", {"spec.controllers.replicas": 2}, "spec.controllers.replicas", "write replicas: 3"),
    case("controllers-seven", {"spec.controllers.replicas": 7}, "spec.controllers.replicas", "1, 3 or 5"),
    case("controllers-no-storage", {"spec.controllers.storage": GONE}, "spec.controllers.storage", "Required value"),
    case("controllers-size", {"spec.controllers.storage.size": "big"}, "spec.controllers.storage.size", "for example 100Gi"),
    case("pools-none", {"spec.brokerPools": []}, "spec.brokerPools", "write at least one pool"),
    case("pools-missing", {"spec.brokerPools": GONE}, "spec.brokerPools", "Required value"),
    case("pools-same-name", {"spec.brokerPools[1]": pool("main")}, "spec.brokerPools[1]", "Duplicate value"),
    case("pools-too-many", {"spec.brokerPools": [pool(f"p{i}") for i in range(13)]}, "spec.brokerPools", "must have at most 12 items"),
    case("pool-no-name", {f"{POOL}.name": GONE}, f"{POOL}.name", "Required value"),
    case("pool-name-upper", {f"{POOL}.name": "Main"}, f"{POOL}.name", "write for example nvme"),
    case("pool-name-long", {f"{POOL}.name": "m" * 31}, f"{POOL}.name", "at most 30 characters"),
    case("pool-name-empty", {f"{POOL}.name": ""}, f"{POOL}.name", "write for example nvme"),
    case("pool-no-brokers", {f"{POOL}.replicas": 0}, f"{POOL}.replicas", "between 1 and 1000 brokers: set replicas within that"),
    case("pool-negative-brokers", {f"{POOL}.replicas": -1}, f"{POOL}.replicas", "set replicas within that"),
    case("pool-too-many-brokers", {f"{POOL}.replicas": 1001}, f"{POOL}.replicas", "set replicas within that"),
    case("brokers-too-many-in-all", {"spec.brokerPools": [pool(f"p{i}", replicas=1000) for i in range(9)]}, "spec.brokerPools", "create a second KafkaCluster"),
    case("disks-too-many-in-all", {"spec.brokerPools": [{**pool("p", replicas=313), "disks": {"count": 64, "size": "1Gi"}}]}, "spec.brokerPools", "together may have 20000 disks"),
    case("disks-none", {f"{POOL}.disks.count": 0}, f"{POOL}.disks.count", "between 1 and 64 disks"),
    case("disks-65", {f"{POOL}.disks.count": 65}, f"{POOL}.disks.count", "add brokers for more space"),
    case("disks-negative", {f"{POOL}.disks.count": -2}, f"{POOL}.disks.count", "between 1 and 64 disks"),
    case("disk-size-words", {f"{POOL}.disks.size": "lots"}, f"{POOL}.disks.size", "'lots' is not a valid size: write a number and a unit"),
    case("disk-size-wrong-unit", {f"{POOL}.disks.size": "100GB"}, f"{POOL}.disks.size", "for example 100Gi"),
    case("disk-size-blank", {f"{POOL}.disks.size": "100 Gi"}, f"{POOL}.disks.size", "for example 100Gi"),
    case("disk-size-negative", {f"{POOL}.disks.size": "-100Gi"}, f"{POOL}.disks.size", "at least 64Mi"),
    case("disk-size-no-unit", {f"{POOL}.disks.size": "100"}, f"{POOL}.disks.size", "write a number and a unit, at least 64Mi"),
    case("disk-size-number", {f"{POOL}.disks.size": 100}, f"{POOL}.disks.size", "must be of type string"),
    case("disk-size-missing", {f"{POOL}.disks.size": GONE}, f"{POOL}.disks", "disks needs count and size: write for example"),
    case("disk-count-missing", {f"{POOL}.disks.count": GONE}, f"{POOL}.disks", "or write all: true and storageClass"),
    case("disks-empty", {f"{POOL}.disks": {}}, f"{POOL}.disks", "disks needs count and size"),
    case("all-disks-and-count", {f"{POOL}.disks": {"all": True, "storageClass": "local", "count": 2}}, f"{POOL}.disks.count", "remove count (maxCount limits the number), or remove all"),
    case("all-disks-and-size", {f"{POOL}.disks": {"all": True, "storageClass": "local", "size": "1Gi"}}, f"{POOL}.disks.size", "remove size, or remove all"),
    case("all-disks-without-class", {f"{POOL}.disks": {"all": True}}, f"{POOL}.disks.storageClass", "write in storageClass which one"),
    case("all-disks-limit-zero", {f"{POOL}.disks": {"all": True, "storageClass": "local", "maxCount": 0}}, f"{POOL}.disks.maxCount", "between 1 and 64 disks: set maxCount"),
    case("all-disks-limit-65", {f"{POOL}.disks": {"all": True, "storageClass": "local", "maxCount": 65}}, f"{POOL}.disks.maxCount", "or remove it"),
    case("all-disks-limit-words", {f"{POOL}.disks": {"all": True, "storageClass": "local", "maxCount": "two"}}, f"{POOL}.disks.maxCount", "must be of type integer"),
    case("all-disks-words", {f"{POOL}.disks.all": "yes"}, f"{POOL}.disks.all", "must be of type boolean"),
    case("limit-without-all", {f"{POOL}.disks.maxCount": 4}, f"{POOL}.disks.maxCount", "or add all: true"),
    case("all-disks-too-many-in-all", {"spec.brokerPools": [{**pool("p", replicas=313), "disks": {"all": True, "storageClass": "local"}}]}, "spec.brokerPools", "disks.count or disks.maxCount"),
    case("cpu-words", {f"{POOL}.resources.requests.cpu": "fast"}, f"{POOL}.resources.requests.cpu", "for example 2, or 500m"),
    case("cpu-negative", {f"{POOL}.resources.limits.cpu": -1}, f"{POOL}.resources.limits.cpu", "number of cores above 0"),
    case("memory-no-unit", {f"{POOL}.resources.limits.memory": 4}, f"{POOL}.resources.limits.memory", "for example 512Mi"),
    case("memory-in-thousandths", {"spec.controllers.resources.limits.memory": "512m"}, "spec.controllers.resources.limits.memory", "512m would be half a byte"),
    case("heap-as-quantity", {f"{POOL}.jvm.heap": "4Gi"}, f"{POOL}.jvm.heap", "512m or 4g (not 4Gi)"),
    case("heap-zero", {"spec.controllers.jvm.heap": "0g"}, "spec.controllers.jvm.heap", "for example 512m or 4g"),
    case("jvm-heap-among-options", {f"{POOL}.jvm.options": ["-Xmx4g"]}, f"{POOL}.jvm.options[0]", "write jvm.heap"),
    case("jvm-options-in-one", {f"{POOL}.jvm.options": ["-XX:+UseZGC -Xint"]}, f"{POOL}.jvm.options[0]", "each option as an item of its own"),
    case("jvm-option-no-dash", {"spec.controllers.jvm.options": ["server"]}, "spec.controllers.jvm.options[0]", "starts with a dash"),
    case("topology-key-empty", {"spec.racks.topologyKey": ""}, "spec.racks.topologyKey", "topology.kubernetes.io/zone"),
    case("topology-key-two-slashes", {"spec.racks.topologyKey": "a/b/c"}, "spec.racks.topologyKey", "key of a node label"),
    case("topology-key-blank", {"spec.racks.topologyKey": "my zone"}, "spec.racks.topologyKey", "key of a node label"),
    case("selector-beside-follower-fetching", {"spec.racks.followerFetching": True, "spec.config": {"replica.selector.class": "my.Selector"}}, "spec.config", "racks.followerFetching needs Kafka's own class there: remove it from config"),
    case("selector-of-pool-beside-follower-fetching", {"spec.racks.followerFetching": True, f"{POOL}.config": {"replica.selector.class": "my.Selector"}}, "spec.brokerPools", "remove it from brokerPools[].config"),
    case("config-number", {"spec.config": {"num.io.threads": 8}}, "spec.config.num.io.threads", "must be of type string"),
    case("config-no-key", {"spec.config": {"Num Threads": "8"}}, "spec.config", "for example num.io.threads"),
    case("thresholds-out-of-order", {"spec.disks.thresholds": {"warn": 90}}, "spec.disks.thresholds", "warn < move < cordon < rejectMoves < blockProducers"),
    case("thresholds-equal", {"spec.disks.thresholds": {"cordon": 80}}, "spec.disks.thresholds", "the defaults 70, 80, 85, 90, 95"),
    case("threshold-over-99", {"spec.disks.thresholds": {"blockProducers": 100}}, "spec.disks.thresholds.blockProducers", "between 1 and 99"),
    case("threshold-zero", {"spec.disks.thresholds": {"warn": 0}}, "spec.disks.thresholds.warn", "between 1 and 99"),
    case("threshold-fraction", {"spec.disks.thresholds": {"warn": 0.7}}, "spec.disks.thresholds.warn", "must be of type integer"),
    case("release-too-large", {"spec.disks.thresholds": {"hysteresis": 21}}, "spec.disks.thresholds.hysteresis", "between 1 and 20 percentage points"),
    case("release-zero", {"spec.disks.thresholds": {"hysteresis": 0}}, "spec.disks.thresholds.hysteresis", "write for example 5"),
    case("release-over-warn", {"spec.disks.thresholds": {"warn": 10, "hysteresis": 10}}, "spec.disks.thresholds.hysteresis", "write less than warn"),
    case("free-out-of-order", {"spec.disks.thresholds": {"free": {"warn": "1Gi", "move": "2Gi"}}}, "spec.disks.thresholds.free.move", "less free space: move must be less than warn"),
    case("free-words", {"spec.disks.thresholds": {"free": {"blockProducers": "little"}}}, "spec.disks.thresholds.free.blockProducers", "for example 50Gi"),
    case("pool-thresholds-out-of-order", {f"{POOL}.disks.thresholds": {"warn": 90}}, f"{POOL}.disks.thresholds", "warn < move < cordon"),
    case("ballast-no-unit", {"spec.disks.ballast": "20"}, "spec.disks.ballast", "at least 1Mi"),
    case("last-resort-words", {"spec.disks.lastResortActions": {"blockProducers": "maybe"}}, "spec.disks.lastResortActions.blockProducers", "must be of type boolean"),
    case("probe-never", {"spec.disks.probeIntervalSeconds": 0}, "spec.disks.probeIntervalSeconds", "every 1 to 60 seconds"),
    case("hung-before-probe", {"spec.disks.probeIntervalSeconds": 30}, "spec.disks.hungAfterSeconds", "at least twice the interval"),
    case("hung-never", {"spec.disks.hungAfterSeconds": 601}, "spec.disks.hungAfterSeconds", "write for example 10"),
    case(
        "node-gone-negative",
        {"spec.disks.nodeGoneAfterSeconds": -1},
        "spec.disks.nodeGoneAfterSeconds",
        "write for example 3600",
    ),
    case("grace-negative", {"spec.disks.graceSeconds": -1}, "spec.disks.graceSeconds", "write for example 600"),
    case("share-of-all", {"spec.disks.automaticShare": 101}, "spec.disks.automaticShare", "write for example 10"),
    case("rolling-none", {"spec.rolling.maxUnavailable": 0}, "spec.rolling.maxUnavailable", "write 1 to restart one at a time"),
    case("rolling-per-cent", {"spec.rolling.maxUnavailable": "50%"}, "spec.rolling.maxUnavailable", "must be of type integer"),
    case("back-at-once", {"spec.rolling.backWithinSeconds": 5}, "spec.rolling.backWithinSeconds", "write for example 600"),
    case("soak-negative", {"spec.rolling.soakHours": -1}, "spec.rolling.soakHours", "write for example 24"),
    case("approval-unknown", {"spec.rebalance.approval": "always"}, "spec.rebalance.approval", 'supported values: "manual", "auto"'),
    case("schedule-words", {"spec.rebalance.schedule": "every night"}, "spec.rebalance.schedule", "write for example '0 3 * * *'"),
    case("schedule-six-fields", {"spec.rebalance.schedule": "0 0 3 * * *"}, "spec.rebalance.schedule", "five cron fields"),
    case("max-bytes-words", {"spec.rebalance.maxBytes": "much"}, "spec.rebalance.maxBytes", "for example 100Gi"),
    case("max-duration-zero", {"spec.rebalance.maxDurationMinutes": 0}, "spec.rebalance.maxDurationMinutes", "write for example 240"),
    case("window-words", {"spec.rebalance.windows": [{"start": "at night", "durationMinutes": 60}]}, "spec.rebalance.windows[0].start", "write for example '0 22 * * 1-5'"),
    case("window-without-end", {"spec.rebalance.windows": [{"start": "@daily", "durationMinutes": 0}]}, "spec.rebalance.windows[0].durationMinutes", "write for example 360"),
    case("lifetime-none", {"spec.rebalance.lifetimeMinutes": 1}, "spec.rebalance.lifetimeMinutes", "for 10 minutes to a week"),
    case("executors-none", {"spec.rebalance.engine.executors": {"count": 0}}, "spec.rebalance.engine.executors.count", "omit executors"),
    case("scratch-words", {"spec.rebalance.engine.localScratch": "much"}, "spec.rebalance.engine.localScratch", "for example 100Gi"),
    case("rollup-no-path", {"spec.rebalance.rollup": {}}, "spec.rebalance.rollup.path", "Required value"),
    case("rollup-path-words", {"spec.rebalance.rollup": {"path": "bucket/spindle"}}, "spec.rebalance.rollup.path", "write for example s3a://bucket/spindle"),
    case("rollup-other-folder", {"spec.rebalance.rollup": {"path": "file:///data", "claimName": "x"}}, "spec.rebalance.rollup.path", "file:///var/lib/spindle/rollup together with claimName"),
    case("rollup-without-claim", {"spec.rebalance.rollup": {"path": "file:///var/lib/spindle/rollup"}}, "spec.rebalance.rollup", "together with claimName"),
    case("rollup-claim-for-nothing", {"spec.rebalance.rollup": {"path": "s3a://b/x", "claimName": "x"}}, "spec.rebalance.rollup", "no claimName with any other"),
    case("rollup-setting", {"spec.rebalance.rollup": {"path": "s3a://b/x", "settings": {"fs.s3a endpoint": "x"}}}, "spec.rebalance.rollup.settings", "write for example fs.s3a.endpoint"),
    case("deadline-none", {"spec.rebalance.engine.deadlineMinutes": 0}, "spec.rebalance.engine.deadlineMinutes", "write for example 60"),
    case("toleration-exists-with-value", {"spec.scheduling.tolerations": [{"key": "kafka", "operator": "Exists", "value": "yes"}]}, "spec.scheduling.tolerations[0].value", "omit value"),
    case("toleration-without-key", {"spec.scheduling.tolerations": [{"value": "yes"}]}, "spec.scheduling.tolerations[0].operator", "write operator: Exists"),
    case("toleration-effect", {"spec.scheduling.tolerations": [{"key": "kafka", "effect": "Never"}]}, "spec.scheduling.tolerations[0].effect", 'supported values: "NoSchedule"'),
    case("toleration-seconds", {"spec.scheduling.tolerations": [{"key": "kafka", "tolerationSeconds": 30}]}, "spec.scheduling.tolerations[0].tolerationSeconds", "NoExecute"),
    case("pull-secret-twice", {"spec.scheduling.imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, "spec.scheduling.imagePullSecrets[1]", "Duplicate value"),
    case("topics-pattern", {"spec.metrics.topics": ["orders", "or*"]}, "spec.metrics.topics[1]", "'or*' is not the name of a topic: write exact names"),
    case("topics-dots", {"spec.metrics.topics": [".."]}, "spec.metrics.topics[0]", "write exact names"),
    case("topics-too-many", {"spec.metrics.topics": [f"t{i}" for i in range(201)]}, "spec.metrics.topics", "must have at most 200 items"),
    case("lag-asterisk-first", {"spec.metrics.consumerLag.groups": ["*a"]}, "spec.metrics.consumerLag.groups[0]", "write for example billing"),
    case("lag-group-empty", {"spec.metrics.consumerLag.groups": [""]}, "spec.metrics.consumerLag.groups[0]", "write for example billing"),
    case("logger-name", {"spec.logging.loggers": {"kafka server": "DEBUG"}}, "spec.logging.loggers", "'kafka server' is not the name of a logger"),
    case("logger-lookup", {"spec.logging.loggers": {"${env:HOME}": "DEBUG"}}, "spec.logging.loggers", "is not the name of a logger"),
    case("logger-level", {"spec.logging.loggers": {"kafka": "LOUD"}}, "spec.logging.loggers.kafka", 'supported values: "OFF"'),
    case("loggers-too-many", {"spec.logging.loggers": {f"l{i}": "INFO" for i in range(51)}}, "spec.logging.loggers", "must have at most 50 items"),
    case("paused-text", {"spec.paused": "yes"}, "spec.paused", "must be of type boolean"),
]  # fmt: skip

OWNED = [
    ("log.dirs", "describe the disks in brokerPools[].disks"),
    ("log.dir", "describe the disks in brokerPools[].disks"),
    ("metadata.log.dir", "describe the disks in brokerPools[].disks"),
    ("cordoned.log.dirs", "spec.maintenance.disks[].desiredState"),
    ("broker.rack", "racks.topologyKey"),
    ("node.id", "Spindle assigns ids"),
    ("broker.id", "Spindle assigns ids"),
    ("process.roles", "Spindle assigns ids"),
    ("controller.quorum.voters", "set controllers.replicas"),
    ("controller.quorum.bootstrap.servers", "set controllers.replicas"),
    ("controller.listener.names", "set controllers.replicas"),
    ("listeners", "status.bootstrap"),
    ("advertised.listeners", "status.bootstrap"),
    ("listener.security.protocol.map", "status.bootstrap"),
    ("listener.name.client.ssl.client.auth", "status.bootstrap"),
    ("inter.broker.listener.name", "status.bootstrap"),
    ("ssl.keystore.location", "grant rights by ACLs"),
    ("sasl.enabled.mechanisms", "grant rights by ACLs"),
    ("security.inter.broker.protocol", "grant rights by ACLs"),
    ("authorizer.class.name", "grant rights by ACLs"),
    ("super.users", "grant rights by ACLs"),
    ("principal.builder.class", "grant rights by ACLs"),
    ("allow.everyone.if.no.acl.found", "grant rights by ACLs"),
    ("replica.alter.log.dirs.io.max.bytes.per.second", "Spindle throttles replication"),
    ("zookeeper.connect", "Kafka 4 has no ZooKeeper"),
    ("inter.broker.protocol.version", "set spec.version"),
]

BROKERS = [
    case("id-of-a-controller", {"spec.id": 9000}, "spec.id", "let the operator create KafkaBrokers"),
    case("id-negative", {"spec.id": -1}, "spec.id", "between 0 and 8999"),
    case("no-cluster", {"spec.cluster": GONE}, "spec.cluster", "Required value"),
    case("disk-twice", {"spec.disks[1].name": "disk0"}, "spec.disks[1]", "Duplicate value"),
    case("disk-mode", {"spec.disks[0].mode": "Broken"}, "spec.disks[0].mode", 'supported values: "Active", "Placeholder"'),
    case("maintenance-twice", {"spec.maintenance": {"disks": [{"name": "disk0", "desiredState": "Drained"}] * 2}}, "spec.maintenance.disks[1]", "Duplicate value"),
    case("maintenance-of-no-disk", {"spec.maintenance": {"disks": [{"desiredState": "Drained"}]}}, "spec.maintenance.disks[0].name", "Required value"),
    case("desired-state", {"spec.maintenance": {"disks": [{"name": "disk0", "desiredState": "Empty"}]}}, "spec.maintenance.disks[0].desiredState", 'supported values: "Cordoned", "Drained"'),
    case("accept-loss-yes", {"spec.acceptDataLoss": {"disks": [{"name": "disk0", "token": "yes"}]}}, "spec.acceptDataLoss.disks[0].token", "copy it from the message of the condition DataAtRisk"),
    case("accept-loss-no-hash", {"spec.acceptDataLoss": {"disks": [{"name": "disk0", "token": DIRECTORY_ID}]}}, "spec.acceptDataLoss.disks[0].token", "<directory id>:<hash>"),
    case("throttle-zero", {"spec.throttleBytesPerSecond": 0}, "spec.throttleBytesPerSecond", "omit the throttle"),
    case("throttle-min-zero", {"spec.throttleBytesPerSecondMin": 0}, "spec.throttleBytesPerSecondMin", "omit the field"),
    case("stopped-text", {"spec.maintenance": {"stopped": "yes"}}, "spec.maintenance.stopped", "must be of type boolean"),
]  # fmt: skip

REBALANCES = [
    case("approved-other-hash", {"spec.approved": "0123456789abcdef"}, "spec.approved", "copy spec.inputHash, or remove approved"),
    case("approved-true", {"spec.approved": True}, "spec.approved", "must be of type string"),
    case("hash-words", {"spec.inputHash": "the one I saw"}, "spec.inputHash", "hexadecimal digits"),
    case("expires-never", {"spec.expires": "never"}, "spec.expires", "must be of type date-time"),
    case("no-moves", {"spec.moves": GONE}, "spec.moves", "Required value"),
    case("too-many-moves", {"spec.moves": [move(i) for i in range(2001)]}, "spec.moves", "must have at most 2000 items"),
    case("move-negative-partition", {"spec.moves[0].partition": -1}, "spec.moves[0].partition", "greater than or equal to 0"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "field", "way_out"), CLUSTERS)
def test_cluster_is_refused(shared: Resources, changes: dict[str, Any], field: str, way_out: str) -> None:
    assert_says(refused(shared, bent(cluster(), changes)), field, way_out)


@pytest.mark.parametrize(("changes", "field", "way_out"), BROKERS)
def test_broker_is_refused(shared: Resources, changes: dict[str, Any], field: str, way_out: str) -> None:
    assert_says(refused(shared, bent(broker(), changes)), field, way_out)


@pytest.mark.parametrize(("changes", "field", "way_out"), REBALANCES)
def test_rebalance_is_refused(shared: Resources, changes: dict[str, Any], field: str, way_out: str) -> None:
    assert_says(refused(shared, bent(rebalance(), changes)), field, way_out)


@pytest.mark.parametrize("place", ["spec", POOL])
@pytest.mark.parametrize(("key", "way_out"), OWNED)
def test_owned_key_is_refused(shared: Resources, place: str, key: str, way_out: str) -> None:
    config = {"num.io.threads": "8", key: "anything"}
    said = refused(shared, bent(cluster(), {f"{place}.config": config}))
    assert_says(said, f"{place}.config", way_out)
    assert_says(said, f"{place}.config", f"{key} is owned by Spindle")


@pytest.mark.parametrize(
    ("sample", "path"),
    [
        pytest.param("KafkaCluster", "spec.brokerPool", id="pool-for-pools"),
        pytest.param("KafkaCluster", "spec.controllers.replica", id="replica"),
        pytest.param("KafkaCluster", f"{POOL}.disks.storageclass", id="lower-case"),
        pytest.param("KafkaCluster", "spec.disks.thresholds.block_producers", id="snake-case"),
        pytest.param("KafkaCluster", "spec.deleteClaim", id="delete-claim"),
        pytest.param("KafkaBroker", "spec.stoped", id="stoped"),
        pytest.param("KafkaBroker", "spec.disks[0].directoryID", id="upper-case"),
        pytest.param("KafkaRebalance", "spec.approve", id="approve"),
    ],
)
def test_misspelt_field_is_refused(shared: Resources, sample: str, path: str) -> None:
    said = refused(shared, bent(SAMPLES[sample](), {path: "3"}))
    assert said.code == 400
    assert f'unknown field "{path}"' in said.message
