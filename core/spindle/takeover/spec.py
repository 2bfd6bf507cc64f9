"""Translates a Kafka resource and its node pools to a KafkaCluster, and lists what has no counterpart."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names, quantity
from spindle.api.listeners import RESERVED
from spindle.api.owned import owned
from spindle.model.free_settings import wanted_instead
from spindle.model.waiting import some
from spindle.takeover.plan import NodePlan

ZONE: Final = "topology.kubernetes.io/zone"
_TYPES: Final = ("internal", "nodeport", "loadbalancer")
_AUTH: Final = {None: "none", "tls": "mtls", "scram-sha-512": "scram"}
_PORTS: Final = (names.PORT_CONTROLLER, names.PORT_REPLICATION, names.PORT_CLIENT, names.PORT_METRICS)
_HEAP: Final = re.compile(r"[1-9][0-9]*[kKmMgG]")
# Fields of a Kafka resource without a counterpart → the difference, and what to do about it.
_LEFT: Final = {
    "template": "labels, affinity and other settings of pods are not migrated; set spec.scheduling of the KafkaCluster if you need them",
    "metricsConfig": "Spindle exports metrics on port 9404 with other rules; adapt your dashboards and alerts",
    "logging": "log levels are not migrated",
    "quotas": "Strimzi's quotas plugin is not available; Spindle protects disks from filling up with spec.disks.thresholds",
    "jmxOptions": "Spindle has no remote JMX port",
    "image": "images that are based on Strimzi's do not work; Spindle uses the stock image of Apache Kafka",
    "livenessProbe": "Spindle sets its own probes",
    "readinessProbe": "Spindle sets its own probes",
}
_LEFT_ABOVE: Final = {
    "cruiseControl": "Spindle plans rebalances itself (spec.rebalance). Cruise Control is removed with the Kafka resource; delete its topics yourself",
    "kafkaExporter": "Spindle has no Kafka Exporter; it is removed with the Kafka resource",
    "entityOperator": "topics stay in Kafka, but nothing reconciles KafkaTopic resources any more",
    "clusterCa": "Spindle creates its own certificate authority: clients must trust the one in the Secret <cluster>-ca",
    "clientsCa": "client certificates signed by Strimzi's clients CA are no longer accepted",
    "maintenanceTimeWindows": "Spindle renews certificates at any time, without maintenance windows",
}

StrimziSpec = Mapping[str, Any]


@dataclass(frozen=True)
class Volume:
    """One volume of a pool's storage.

    Attributes:
        prefix: of the names of its claims.
    """

    prefix: str
    size: str


def volumes(pool: StrimziSpec) -> list[Volume] | str:
    """The volumes of each node of a pool, ordered by id; or why they cannot be taken over."""
    storage = (pool.get("spec") or {}).get("storage") or {}
    many = storage.get("type") == "jbod"
    parts = list(storage.get("volumes") or ()) if many else [storage]
    other = sorted({str(part.get("type")) for part in parts} - {"persistent-claim"})
    if other or not parts:
        return f"its storage is {some(other) or 'empty'}, but only persistent-claim storage survives its pod"
    parts.sort(key=lambda part: int(part.get("id") or 0))
    return [
        Volume(f"data-{int(part.get('id') or 0)}" if many else "data", str(part.get("size")))
        for part in parts
    ]


def smallest(found: Sequence[Volume]) -> str:
    """The smallest size; a claim can bind a volume that is larger than requested."""
    return min((volume.size for volume in found), key=quantity.parse)


def manifest(
    kafka: StrimziSpec,
    controllers: Sequence[StrimziSpec],
    brokers: Sequence[StrimziSpec],
    nodes: Sequence[NodePlan],
) -> tuple[dict[str, Any], list[str]]:
    """The KafkaCluster, and the differences to the Kafka resource."""
    strimzi = (kafka.get("spec") or {}).get("kafka") or {}
    told: list[str] = []
    mine = [node for node in nodes if node.controller]
    spec: dict[str, Any] = {
        "version": str(strimzi.get("version") or (kafka.get("status") or {}).get("kafkaVersion") or ""),
        "controllers": {
            "replicas": len(mine),
            "storage": _storage([disk for node in mine for disk in node.disks]),
            **_machine(controllers[0] if controllers else {}, strimzi, told),
        },
        "brokerPools": [_pool(pool, strimzi, nodes, told) for pool in brokers],
        "racks": {"topologyKey": (strimzi.get("rack") or {}).get("topologyKey") or ZONE},
        "config": _config(strimzi.get("config") or {}, told),
        "listeners": _listeners(strimzi.get("listeners") or (), kafka, told),
    }
    if not strimzi.get("rack"):
        told.append(
            f"spec.kafka.rack is not set: Spindle uses the node label {ZONE} for racks. Existing partitions may not be spread over them yet; a rebalance "
            "spreads them"
        )
    _authorization(strimzi.get("authorization"), told)
    told += [f"spec.kafka.{key}: {what}" for key, what in _LEFT.items() if strimzi.get(key)]
    told += [f"spec.{key}: {what}" for key, what in _LEFT_ABOVE.items() if key in (kafka.get("spec") or {})]
    made = {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaCluster",
        "metadata": {"name": kafka["metadata"]["name"], "namespace": kafka["metadata"]["namespace"]},
        "spec": {key: value for key, value in spec.items() if value},
    }
    return made, told


def _pool(
    pool: StrimziSpec, strimzi: StrimziSpec, nodes: Sequence[NodePlan], told: list[str]
) -> dict[str, Any]:
    name = str(pool["metadata"]["name"])
    mine = [node for node in nodes if node.pool == name]
    disks = [disk for node in mine for disk in node.disks]
    return {
        "name": name,
        "replicas": len(mine),
        "disks": {"count": max((len(node.disks) for node in mine), default=1), **_storage(disks)},
        **_machine(pool, strimzi, told),
    }


def _storage(disks: Sequence[Any]) -> dict[str, str]:
    """The smallest size and the storage class of disks."""
    if not disks:
        return {"size": "1Gi"}
    found = {"size": min((disk.size for disk in disks), key=quantity.parse)}
    classes = {disk.storage_class for disk in disks if disk.storage_class}
    return found | ({"storageClass": min(classes)} if classes else {})


def _machine(pool: StrimziSpec, strimzi: StrimziSpec, told: list[str]) -> dict[str, Any]:
    """Resources and JVM settings of a pool's nodes."""
    spec = pool.get("spec") or {}
    made: dict[str, Any] = {}
    given = spec.get("resources") or {}
    kept = {
        kind: {key: str(value) for key, value in (given.get(kind) or {}).items() if key in ("cpu", "memory")}
        for kind in ("requests", "limits")
    }
    if any(kept.values()):
        made["resources"] = {kind: values for kind, values in kept.items() if values}
    options = spec.get("jvmOptions") or strimzi.get("jvmOptions") or {}
    heap = str(options.get("-Xmx") or "")
    if _HEAP.fullmatch(heap):
        made["jvm"] = {"heap": heap}
    elif heap:
        told.append(
            f"pool {pool['metadata']['name']}: the heap -Xmx {heap} is not migrated; set jvm.heap, for example to 4g"
        )
    if options.get("-XX") or options.get("javaSystemProperties"):
        told.append(
            f"pool {pool['metadata']['name']}: -XX and javaSystemProperties of jvmOptions are not migrated; set jvm.options if you need them"
        )
    return made


def _config(given: StrimziSpec, told: list[str]) -> dict[str, str]:
    kept = {key: _text(value) for key, value in given.items() if owned(key) is None}
    told += [f"spec.kafka.config: {owned(key)}" for key in sorted(set(given) - set(kept))]
    beyond = {
        key: wanted for key, value in kept.items() if (wanted := wanted_instead(key, value)) is not None
    }
    told += [
        f"spec.kafka.config: {key} is not migrated; Spindle accepts {wanted}"
        for key, wanted in sorted(beyond.items())
    ]
    return {key: value for key, value in kept.items() if key not in beyond}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listeners(given: Sequence[StrimziSpec], kafka: StrimziSpec, told: list[str]) -> list[dict[str, Any]]:
    made = []
    for listener in given:
        name, port = str(listener.get("name")), int(listener.get("port") or 0)
        what = f"listener {name} (port {port})"
        auth = (listener.get("authentication") or {}).get("type")
        if listener.get("type") not in _TYPES:
            told.append(
                f"{what} is not migrated: Spindle has no listeners of type {listener.get('type')}; add one of type {', '.join(_TYPES)}"
            )
        elif auth not in _AUTH:
            told.append(
                f"{what} is not migrated: Spindle has no authentication {auth}; add a listener with none, mtls or scram"
            )
        elif port in _PORTS:
            told.append(
                f"{what} is not migrated: Spindle uses this port itself; add a listener with another port"
            )
        else:
            its = {"name": _listener_name(name), "port": port, "type": listener["type"], "auth": _AUTH[auth]}
            made.append(its if listener.get("tls") else its | {"tls": False})
            if not listener.get("tls"):
                told.append(f"{what} is not encrypted and stays so (tls: false)")
            if listener.get("configuration"):
                told.append(
                    f"{what}: its configuration (node ports, addresses, custom certificates) is not migrated"
                )
    cluster = kafka["metadata"]["name"]
    told.append(
        f"the bootstrap address changes: clients use {cluster}-bootstrap:{names.PORT_CLIENT} (client certificate) or {cluster}-bootstrap-<listener>. "
        f"{cluster}-kafka-bootstrap is removed with the Kafka resource"
    )
    return made


def _listener_name(name: str) -> str:
    made = name if name[:1].isalpha() else f"l{name}"[:11]
    return f"their{made}"[:11] if made in RESERVED else made


def _authorization(given: StrimziSpec | None, told: list[str]) -> None:
    kind = (given or {}).get("type")
    if kind is None:
        told.append(
            "authorization is not set: with Spindle, clients can do nothing without ACLs. After the migration, grant ACLs first, with the credentials in "
            "the Secret <cluster>-admin"
        )
    elif kind != "simple":
        told.append(
            f"authorization {kind} is not migrated: Spindle uses Kafka's ACLs only; grant ACLs to your users"
        )
    elif (given or {}).get("superUsers"):
        told.append("authorization.superUsers are not migrated: grant ACLs to these users")


__all__ = ["ZONE", "Volume", "manifest", "smallest", "volumes"]
