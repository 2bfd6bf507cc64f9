"""Which objects belong to this KafkaCluster: "only owned objects are changed" (`docs/safety.md`, rule 16). Spindle does not use, write or delete others.

An object belongs to it if its owner reference has the KafkaCluster's UID; a name proves nothing, because anybody can use it first. There are exceptions.
Objects of the cluster's KafkaBrokers and KafkaUsers belong to it by their UIDs. Objects that outlive the KafkaCluster (the identity record, the pools, the
journal, the claims) belong to it by Kafka's cluster id. A Secret from a backup belongs to it if it has its label and an annotation of the KafkaCluster has its
UID. Objects of the agents are in another namespace, where owner references do not work, and belong to it by their labels.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spindle.api import names
from spindle.model import objects
from spindle.model.cluster_identity import NodeIdentity, parse_identity
from spindle.model.snapshot import ClusterSnapshot, SnapshotObject

OWN: Final = ""  # in place of a namespace: the KafkaCluster's
OwnerKey = tuple[str, str, str]  # kind, namespace, name
_KAFKA_KINDS: Final = frozenset({"KafkaCluster", "KafkaBroker", "KafkaUser"})
_CLAIM: Final = "PersistentVolumeClaim"


@dataclass(frozen=True)
class Owners:
    """The properties by which an object belongs to this KafkaCluster.

    Attributes:
        cluster, namespace, uid: of the KafkaCluster.
        others: UIDs of its KafkaBrokers and KafkaUsers.
        restored: UIDs of Secrets that were restored from a backup.
        cluster_id: Kafka's cluster id, from the identity record or else from the status; None while it is not known.
        known_ids: cluster ids in its status and on its claims, which may differ from the identity record.
        agents: the agents' namespace; empty for none.
    """

    cluster: str
    namespace: str
    uid: str
    others: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()
    cluster_id: str | None = None
    known_ids: frozenset[str] = frozenset()
    agents: str = ""

    def hold(self, obj: SnapshotObject) -> bool:
        """Whether an object belongs to the KafkaCluster. Its metadata is needed; of a ConfigMap, the data as well."""
        meta, kind = obj["metadata"], str(obj["kind"])
        owners = owner_uids(obj)
        if self.uid in owners:
            return True
        if kind == "Secret":
            return bool(owners & self.others) or (not owners and self._holds_secret(meta))
        if kind == "ConfigMap":
            alone = not owners and (self._outlives(obj) or self._of_agents(meta))
            return bool(owners & self.others) or alone
        if kind == "KafkaBroker":
            # It only waits for Spindle's finalizer, which is removed after its record was copied to its claims.
            return objects.deleting(obj) and self.former(obj)
        return kind == _CLAIM and objects.annotation(obj, names.ANN_CLUSTER_ID) == self.cluster_id

    def former(self, obj: SnapshotObject) -> bool:
        """Whether the owner of an object was a KafkaCluster, KafkaBroker or KafkaUser of this name that no longer exists, so that the object is deleted, too."""
        return any(
            owner.get("kind") in _KAFKA_KINDS
            and str(owner.get("apiVersion", "")).startswith(f"{names.GROUP}/")
            and (owner.get("kind") != "KafkaCluster" or owner.get("name") == self.cluster)
            for owner in obj["metadata"].get("ownerReferences") or ()
        )

    def _holds_secret(self, meta: Mapping[str, Any]) -> bool:
        # Every user who may write the KafkaCluster may write the annotation, and UIDs are not secret; the label requires the right to write the Secret.
        labelled = (meta.get("labels") or {}).get(names.LABEL_CLUSTER) == self.cluster
        return (labelled and meta.get("uid") in self.restored) or self._of_agents(meta)

    def _of_agents(self, meta: Mapping[str, Any]) -> bool:
        """The ConfigMaps of the agents' certificates, and the Secret that agents of earlier versions have."""
        labels = meta.get("labels") or {}
        whose = (labels.get(names.LABEL_NAMESPACE), labels.get(names.LABEL_CLUSTER))
        where = self.namespace, self.cluster
        ours = (names.agent_certificates(*where), *names.agent_parts(*where))
        return bool(self.agents) and meta["name"] in ours and whose == where

    def _outlives(self, obj: SnapshotObject) -> bool:
        """Whether a ConfigMap without owner belongs to it. Those of earlier releases have the label, but not all have the cluster id."""
        name, labelled = objects.name(obj), objects.labels(obj).get(names.LABEL_CLUSTER) == self.cluster
        if name == names.identity_map(self.cluster):
            # With the label it is the identity record, or reported as an unreadable one.
            return labelled or (obj.get("data") or {}).get("clusterId") in self.known_ids
        if name not in objects_without_owner(self.cluster):
            return False
        carried = objects.annotation(obj, names.ANN_CLUSTER_ID)
        return labelled if carried is None else carried == self.cluster_id


@dataclass(frozen=True)
class NameConflict:
    """An object that does not belong to the KafkaCluster but has a name that it needs, or its label.

    Attributes:
        namespace: `OWN` for the KafkaCluster's namespace.
        owner: its owner, as ``Kind name``; empty if it has none.
        uid: UID of the object.
        goes: whether it will be deleted soon: it is being deleted, or its former owner no longer exists (`Owners.former`).
    """

    kind: str
    namespace: str
    name: str
    owner: str
    uid: str
    goes: bool


def objects_without_owner(cluster: str) -> frozenset[str]:
    """ConfigMaps that outlive a KafkaCluster, for a new one with the same name."""
    return frozenset({names.identity_map(cluster), names.moves_map(cluster), names.pools_map(cluster)})


def owner_uids(obj: SnapshotObject) -> frozenset[str]:
    """UIDs of an object's owners."""
    return frozenset(str(owner.get("uid")) for owner in obj["metadata"].get("ownerReferences") or ())


def owners_of(snapshot: ClusterSnapshot) -> Owners:
    """The properties by which objects belong to the KafkaCluster of a snapshot."""
    cluster = snapshot.cluster
    name, uid = objects.name(cluster), objects.uid(cluster)
    told = str((cluster.get("status") or {}).get("clusterId") or "")
    record = objects.by_name(snapshot.config_maps).get(names.identity_map(name))
    identity = parse_identity(record) if record is not None else None
    cluster_id = identity.cluster_id if isinstance(identity, NodeIdentity) else told or None
    carried = {str(objects.annotation(claim, names.ANN_CLUSTER_ID) or "") for claim in snapshot.claims}
    others = [broker for broker in snapshot.brokers if uid in owner_uids(broker)]
    restored = objects.annotation(cluster, names.ANN_RESTORED) or ""
    return Owners(
        cluster=name,
        namespace=str(cluster["metadata"]["namespace"]),
        uid=uid,
        others=frozenset(objects.uid(obj) for obj in (*others, *snapshot.users)),
        restored=frozenset(part.strip() for part in restored.split(",") if part.strip()),
        cluster_id=cluster_id,
        known_ids=frozenset({told, *carried, cluster_id or ""} - {""}),
        agents=snapshot.agent_namespace,
    )


def ours_only(snapshot: ClusterSnapshot) -> tuple[ClusterSnapshot, dict[OwnerKey, NameConflict]]:
    """A snapshot without objects that do not belong to the KafkaCluster, and these objects.

    Claims stay in it, because the steps check their ids. So do pods whose names are not those of this cluster; they are only read.
    """
    owners, taken = owners_of(snapshot), dict[OwnerKey, NameConflict]()

    def keep(found: Iterable[SnapshotObject]) -> tuple[SnapshotObject, ...]:
        kept = []
        for obj in found:
            if owners.hold(obj):
                kept.append(obj)
            else:
                _note(taken, owners, obj)
        return tuple(kept)

    def held(kind: str, metadata: Mapping[str, Any], namespace: str = OWN) -> bool:
        obj = {"kind": kind, "metadata": metadata}
        if not (is_ours := owners.hold(obj)):
            _note(taken, owners, obj, namespace)
        return is_ours

    elsewhere = OWN if snapshot.agent_namespace == owners.namespace else snapshot.agent_namespace
    certificates, former = snapshot.agent_certificates, snapshot.former_agents
    sorted_out = replace(
        snapshot,
        pods=tuple(pod for pod in snapshot.pods if not _named_as_ours(owners.cluster, pod) or keep((pod,))),
        services=keep(snapshot.services),
        tls_routes=keep(snapshot.tls_routes),
        config_maps=keep(snapshot.config_maps),
        secrets=tuple(secret for secret in snapshot.secrets if held("Secret", secret.metadata)),
        budgets=keep(snapshot.budgets),
        policies=keep(snapshot.policies),
        brokers=keep(snapshot.brokers),
        rebalance_objects=keep(snapshot.rebalance_objects),
        agent_certificates={
            name: each for name, each in certificates.items() if held("ConfigMap", each.metadata, elsewhere)
        },
        former_agents=former if former is not None and held("Secret", former.metadata, elsewhere) else None,
    )
    keep(snapshot.named)
    if owners.cluster_id is not None:
        keep(snapshot.claims)
    return sorted_out, taken


def _named_as_ours(cluster: str, pod: SnapshotObject) -> bool:
    """Whether a pod bears the name of a broker, of a controller, or of a claim, as a pod that asks for a volume does."""
    name = objects.name(pod)
    return objects.node_id_of(cluster, name) is not None or name.startswith("data-")


def _note(
    taken: dict[OwnerKey, NameConflict], owners: Owners, obj: SnapshotObject, namespace: str = OWN
) -> None:
    kind, name = str(obj["kind"]), objects.name(obj)
    owner = next(iter(obj["metadata"].get("ownerReferences") or ()), None)
    taken[kind, namespace, name] = NameConflict(
        kind=kind,
        namespace=namespace,
        name=name,
        owner=f"{owner.get('kind')} {owner.get('name')}" if owner else "",
        uid=objects.uid(obj),
        goes=objects.deleting(obj) or owners.former(obj),
    )
