"""The KafkaCluster that stands for a Kafka resource and its node pools, and what of these it cannot say."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import quantity
from spindle.api.listeners import RESERVED
from spindle.cluster import names
from spindle.cluster.owned import owned
from spindle.cluster.waiting import some
from spindle.takeover.plan import NodePlan

ZONE: Final = "topology.kubernetes.io/zone"
_TYPES: Final = ("internal", "nodeport", "loadbalancer")
_AUTH: Final = {None: "none", "tls": "mtls", "scram-sha-512": "scram"}
_PORTS: Final = (names.PORT_CONTROLLER, names.PORT_REPLICATION, names.PORT_CLIENT, names.PORT_METRICS)
_HEAP: Final = re.compile(r"[1-9][0-9]*[kKmMgG]")
# Parts of a Kafka resource that have no counterpart here → what to do about it.
_LEFT: Final = {
    "template": "labels, affinity and the like of Strimzi's objects are not carried over; see spec.scheduling",
    "metricsConfig": "Spindle exports metrics on port 9404 with rules of its own; dashboards and alerts have to be adapted",
    "logging": "log levels are not carried over",
    "quotas": "the quotas plugin is Strimzi's own; Spindle protects full disks by spec.disks.thresholds",
    "jmxOptions": "a remote JMX port is not offered",
    "image": "Strimzi's images are laid out in their own way; the stock image of Apache Kafka is used",
    "livenessProbe": "probes are Spindle's own",
    "readinessProbe": "probes are Spindle's own",
}
_LEFT_ABOVE: Final = {
    "cruiseControl": "Spindle plans moves itself (spec.rebalance); Cruise Control goes with the Kafka resource, and so do its topics if you delete them",
    "kafkaExporter": "not offered; the exporter goes with the Kafka resource",
    "entityOperator": "topics stay in Kafka; KafkaTopics are followed by nobody any more",
    "clusterCa": "Spindle makes an authority of its own: clients have to trust the one in the Secret <cluster>-ca from then on",
    "clientsCa": "certificates that Strimzi's clients authority has signed open nothing any more",
    "maintenanceTimeWindows": "renewals of certificates are not held back for windows",
}

StrimziSpec = Mapping[str, Any]


@dataclass(frozen=True)
class Volume:
    """One volume of a pool's storage.

    Attributes:
        prefix: its claims' names begin with it.
    """

    prefix: str
    size: str


def volumes(pool: StrimziSpec) -> list[Volume] | str:
    """The volumes of each node of a pool by their ids, or why it has none that could be taken over."""
    storage = (pool.get("spec") or {}).get("storage") or {}
    many = storage.get("type") == "jbod"
    parts = list(storage.get("volumes") or ()) if many else [storage]
    other = sorted({str(part.get("type")) for part in parts} - {"persistent-claim"})
    if other or not parts:
        return f"its storage is {some(other) or 'empty'}, and only persistent-claim outlives its pod"
    parts.sort(key=lambda part: int(part.get("id") or 0))
    return [
        Volume(f"data-{int(part.get('id') or 0)}" if many else "data", str(part.get("size")))
        for part in parts
    ]


def smallest(found: Sequence[Volume]) -> str:
    """The least size: a claim that asks for less than its volume has is bound to it all the same."""
    return min((volume.size for volume in found), key=quantity.parse)


def manifest(
    kafka: StrimziSpec,
    controllers: Sequence[StrimziSpec],
    brokers: Sequence[StrimziSpec],
    nodes: Sequence[NodePlan],
) -> tuple[dict[str, Any], list[str]]:
    """The KafkaCluster, and what will not be as it was."""
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
            f"Strimzi had no racks here: brokers get those of the label {ZONE}, and partitions may not be spread over them yet"
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
    """Size and class of disks: the least, and the one that all have."""
    if not disks:
        return {"size": "1Gi"}
    found = {"size": min((disk.size for disk in disks), key=quantity.parse)}
    classes = {disk.storage_class for disk in disks if disk.storage_class}
    return found | ({"storageClass": min(classes)} if classes else {})


def _machine(pool: StrimziSpec, strimzi: StrimziSpec, told: list[str]) -> dict[str, Any]:
    """Memory and processors of a pool's nodes."""
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
            f"-Xmx {heap} of pool {pool['metadata']['name']} is left out: write jvm.heap, for example 4g"
        )
    if options.get("-XX") or options.get("javaSystemProperties"):
        told.append("further options of the JVM are left out: write them under jvm.options")
    return made


def _config(given: StrimziSpec, told: list[str]) -> dict[str, str]:
    kept = {key: _text(value) for key, value in given.items() if owned(key) is None}
    gone = sorted(set(given) - set(kept))
    told += [f"spec.kafka.config: {owned(key)}" for key in gone]
    return kept


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listeners(given: Sequence[StrimziSpec], kafka: StrimziSpec, told: list[str]) -> list[dict[str, Any]]:
    made = []
    for listener in given:
        name, port = str(listener.get("name")), int(listener.get("port") or 0)
        what = f"listener {name} (port {port})"
        auth = (listener.get("authentication") or {}).get("type")
        if not listener.get("tls"):
            told.append(f"{what} is not encrypted, and Spindle has no such listener: its clients need TLS")
        elif listener.get("type") not in _TYPES:
            told.append(
                f"{what}: type {listener.get('type')} is not offered; write one of {', '.join(_TYPES)}"
            )
        elif auth not in _AUTH:
            told.append(f"{what}: authentication {auth} is not offered; write none, mtls or scram")
        elif port in _PORTS:
            told.append(f"{what}: the port is Spindle's own; write a listener with another one")
        else:
            made.append(
                {"name": _listener_name(name), "port": port, "type": listener["type"], "auth": _AUTH[auth]}
            )
            if listener.get("configuration"):
                told.append(
                    f"{what}: its configuration (ports of nodes, addresses, certificates of its own) is not carried over"
                )
    cluster = kafka["metadata"]["name"]
    told.append(
        f"clients start from {cluster}-bootstrap:{names.PORT_CLIENT} (certificate), or {cluster}-bootstrap-<listener>; {cluster}-kafka-bootstrap "
        "goes with the Kafka resource"
    )
    return made


def _listener_name(name: str) -> str:
    made = name if name[:1].isalpha() else f"l{name}"[:11]
    return f"their{made}"[:11] if made in RESERVED else made


def _authorization(given: StrimziSpec | None, told: list[str]) -> None:
    kind = (given or {}).get("type")
    if kind is None:
        told.append(
            "there was no authorization: with Spindle nobody may do anything without ACLs. Give them, with the Secret <cluster>-admin, first of all"
        )
    elif kind != "simple":
        told.append(f"authorization {kind} is not offered: rights are ACLs in Kafka")
    elif (given or {}).get("superUsers"):
        told.append("authorization.superUsers are not carried over: give these users ACLs")


__all__ = ["ZONE", "Volume", "manifest", "smallest", "volumes"]
