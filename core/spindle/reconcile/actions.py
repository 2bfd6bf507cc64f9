"""The few things that the operator can do. `act` carries them out in order; each one says why.

Every action is idempotent and guarded: by create-only, by server-side apply of fields that are ours, or by UID and
resourceVersion, so that a leader that has lost its lease unawares does no harm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spindle.cluster.rights import Right


@dataclass(frozen=True, kw_only=True)
class Action:
    """Base of all actions.

    Attributes:
        reason: CamelCase, becomes the event's reason; empty for what is too routine for an event.
        message: one sentence for a person.
    """

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Create(Action):
    """Create an object; that it exists already is an error for this pass, never an overwrite."""

    object: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Apply(Action):
    """Server-side apply with force, as the operator's field manager, over an object that was seen; else the object is created, never written over.

    Attributes:
        seen: the object as this pass saw it; it is written over only if nobody else has changed it since. A status that changed does no
            harm. None for one that was not there.
    """

    object: Mapping[str, Any]
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Patch(Action):
    """JSON merge patch of one object's metadata (and, for volumes and finalizers, other fields that are ours).

    Guarded by UID and, where given, resourceVersion (both are put into the patch's metadata).
    """

    kind: str
    name: str
    uid: str
    body: Mapping[str, Any]
    resource_version: str | None = None


@dataclass(frozen=True, kw_only=True)
class SetPodCondition(Action):
    """Set one condition of a pod (the readiness gate) through its status subresource."""

    pod: str
    uid: str
    type: str
    status: bool
    why: str


@dataclass(frozen=True, kw_only=True)
class Delete(Action):
    """Delete one object, guarded by its UID.

    Attributes:
        namespace: None for the KafkaCluster's own.
        grace_seconds: for pods: seconds between SIGTERM and SIGKILL; None for the pod's own. Never 0, which would let a
            successor start beside a process that still runs.
    """

    kind: str
    name: str
    uid: str
    namespace: str | None = None
    grace_seconds: int | None = None


@dataclass(frozen=True, kw_only=True)
class MarkDown(Action):
    """Replace ``status.takingDown`` by compare-and-swap on the KafkaCluster's resourceVersion."""

    resource_version: str
    entries: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Evict(Action):
    """Evict a pod with UID and resourceVersion as preconditions (rule 2). Never by plain deletion."""

    pod: str
    uid: str
    resource_version: str


@dataclass(frozen=True, kw_only=True)
class IssueCa(Action):
    """Make the cluster's CA and store it in its Secret (create-only).

    Attributes:
        days: how long it is valid.
        source: of another Secret to take it from, and the fingerprint that it has there; None to make one.
    """

    secret: str
    metadata: Mapping[str, Any]
    days: int = 3650
    source: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class TurnCa(Action):
    """One step of the replacement of the cluster's CA: one write of its Secret, guarded by its resourceVersion.

    Attributes:
        step: ``announce`` puts the new one beside it, ``switch`` puts it into its place, ``retire`` forgets the old one.
        annotations: of the Secret, written with it.
        days: how long a new one is valid.
        source: where a new one comes from, as for `IssueCa`.
    """

    secret: str
    uid: str
    resource_version: str
    step: Literal["announce", "switch", "retire"]
    annotations: Mapping[str, str]
    days: int = 3650
    source: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class IssueCertificate(Action):
    """Sign a certificate with the cluster's CA and write it into its Secret.

    Attributes:
        metadata: the Secret's metadata (name, labels, owner).
        client_properties: bootstrap address for a ready ``client.properties``; None for none.
        days: how long it is valid.
        trusted: fingerprints of the authorities that the Secret is to name, the one that signs first. With another one in
            the CA's Secret by now nothing is written.
        seen: metadata of the Secret that is written over; None to create it.
        since: when the Secret began to name them, as Kubernetes writes times; empty if this write is the first that does.
    """

    metadata: Mapping[str, Any]
    common_name: str
    dns_names: tuple[str, ...] = ()
    client_properties: str | None = None
    days: int = 365
    trusted: tuple[str, ...] = ()
    since: str = ""
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class CertifyAgents(Action):
    """Write the ConfigMap of the agents' certificates for one cluster: some that are signed now, some that are there.

    Attributes:
        metadata: the ConfigMap's.
        requests: node → signing request (PEM) that a certificate is signed for.
        keep: nodes whose certificate stays as it is; those of all others are left out.
        days: how long a certificate is valid.
        trusted, since, seen: as in `IssueCertificate`.
    """

    metadata: Mapping[str, Any]
    requests: Mapping[str, str]
    keep: tuple[str, ...]
    days: int
    trusted: tuple[str, ...]
    since: str = ""
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class KeepPassword(Action):
    """Write the Secret of a user who has a password: the one that is there, or else a new one, and whom to trust.

    Attributes:
        metadata: the Secret's.
        user: name of the user.
        trusted, since, seen: as in `IssueCertificate`.
    """

    metadata: Mapping[str, Any]
    user: str
    trusted: tuple[str, ...]
    since: str = ""
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class SetPassword(Action):
    """Give Kafka the password in a user's Secret, then note that on the Secret.

    Attributes:
        user: its principal, without ``User:``.
    """

    user: str
    secret: str
    uid: str


@dataclass(frozen=True, kw_only=True)
class AlterUser(Action):
    """Give rights to a user or take them away, set its quotas (None takes one away), take its password away.

    Attributes:
        user: its principal, without ``User:``.
        deny: True denies it everything, False no longer does; None leaves that as it is.
        keep_out: likewise, of writing to Spindle's own topics.
    """

    user: str
    give: tuple[Right, ...] = ()
    take: tuple[Right, ...] = ()
    quotas: Mapping[str, float | None]
    drop_password: bool = False
    deny: bool | None = None
    keep_out: bool | None = None


@dataclass(frozen=True, kw_only=True)
class GrantAdmin(Action):
    """Give the admin principal its ACLs, then note that on its Secret."""

    secret: str
    uid: str


@dataclass(frozen=True, kw_only=True)
class GrantRebalance(Action):
    """Give the rebalance job's principal its ACLs: to look at everything, and to read the samples."""


@dataclass(frozen=True, kw_only=True)
class ElectPreferred(Action):
    """Ask Kafka to elect the preferred leaders of these partitions."""

    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class ElectUnclean(Action):
    """Let Kafka elect leaders of these partitions that are not in sync. Loses records; only where a person accepted that."""

    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class PlaceReplicas(Action):
    """Tell one broker which log dir replicas that it does not hold yet are to be made in.

    Attributes:
        placements: (topic, partition, path).
    """

    broker: int
    placements: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class Reassign(Action):
    """Give partitions other replicas, or (None) cancel what is under way."""

    assignments: tuple[tuple[str, int, tuple[int, ...] | None], ...]


@dataclass(frozen=True, kw_only=True)
class SetConfigs(Action):
    """Set (or, with None, delete) dynamic configs of one topic or one broker, or a quota.

    Attributes:
        target: ``topic``, ``broker`` or ``quota``.
        name: the topic, the broker's id in digits, or ``users`` for users that have no quota of their own.
    """

    target: Literal["topic", "broker", "quota"]
    name: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class RaiseFeatures(Action):
    """Raise finalized feature levels (UpdateFeatures, KIP-584). Kafka turns it down where a node does not know the level."""

    levels: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class UnregisterBroker(Action):
    """Have Kafka forget a broker that is stopped (UnregisterBroker, KIP-500). Kafka does so even if replicas are assigned to it."""

    broker: int


@dataclass(frozen=True, kw_only=True)
class AddVoter(Action):
    """Make a controller a voter (AddRaftVoter, KIP-853).

    Attributes:
        cluster_id: Kafka's; another cluster turns it down.
        host: where its listener for controllers is.
    """

    cluster_id: str
    controller: int
    directory_id: str
    host: str


@dataclass(frozen=True, kw_only=True)
class RemoveVoter(Action):
    """Take a controller out of the quorum (RemoveRaftVoter), if it votes with that very disk."""

    cluster_id: str
    controller: int
    directory_id: str


@dataclass(frozen=True, kw_only=True)
class Tune(Action):
    """Set (or, with None, delete) dynamic configs for the user's sake. What Kafka turns down ends no pass.

    Attributes:
        broker: None for the cluster's default.
    """

    broker: int | None
    values: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class CreateTopic(Action):
    """Make a topic; that it exists already is an error for this pass.

    Attributes:
        assignments: by partition, the brokers of its replicas, the preferred leader first.
        configs: what is set on the topic itself.
    """

    topic: str
    assignments: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class TrimPartitions(Action):
    """Delete the oldest records of partitions.

    Attributes:
        partitions: (topic, partition, broker that leads it, share of its records between 0 and 1).
    """

    partitions: tuple[tuple[str, int, int, float], ...]
