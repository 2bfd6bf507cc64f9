"""The few things that the operator can do. `act` carries them out in order; each one says why.

Every action is idempotent and guarded: by create-only, by server-side apply of Spindle's own fields, or by UID and
resourceVersion, so that a leader that has lost its Lease without noticing does no harm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from spindle.model.rights import Right


@dataclass(frozen=True, kw_only=True)
class Action:
    """Base of all actions.

    Attributes:
        reason: CamelCase, becomes the event's reason; empty for routine actions, which write no event.
        message: one sentence for the event.
        doing: what the action does, for the reference page: "this action failed: …".
    """

    doing: ClassVar[str] = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Create(Action):
    """Create an object. If it exists already, the action fails; it never overwrites."""

    doing: ClassVar[str] = "creating an object"

    object: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TryPod(Action):
    """Have the API server check a pod (a create with ``dryRun``), so that no pod is stopped for one that it would refuse.

    Attributes:
        object: the pod, under a name that no pod has.
        key: under which the verdict is in the next snapshot (`PodTrial`).
    """

    doing: ClassVar[str] = "having the API server check a pod with a changed pod template"

    object: Mapping[str, Any]
    key: str


@dataclass(frozen=True, kw_only=True)
class Apply(Action):
    """Server-side apply with force, as the operator's field manager, over an object that the pass has seen. Otherwise the object is created, never overwritten.

    Attributes:
        seen: the object as this pass saw it; it is overwritten only if no other client has changed it since (a changed status does not
            count). None if it did not exist.
    """

    doing: ClassVar[str] = "applying an object"

    object: Mapping[str, Any]
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Patch(Action):
    """JSON merge patch of one object's metadata (and, for volumes and finalizers, other fields that Spindle owns).

    Guarded by UID and, where given, resourceVersion (both are put into the patch's metadata).

    Attributes:
        alone: whether no later action of the pass depends on it, so that its failure does not end the pass.
    """

    doing: ClassVar[str] = "changing an object"

    kind: str
    name: str
    uid: str
    body: Mapping[str, Any]
    resource_version: str | None = None
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class SetPodCondition(Action):
    """Set one condition of a pod (the readiness gate) through its status subresource."""

    doing: ClassVar[str] = "setting the readiness gate of a pod"

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
        grace_seconds: for pods: seconds between SIGTERM and SIGKILL; None for the pod's own. Never 0: a successor could
            start while the old process still runs.
    """

    doing: ClassVar[str] = "deleting an object"

    kind: str
    name: str
    uid: str
    namespace: str | None = None
    grace_seconds: int | None = None


@dataclass(frozen=True, kw_only=True)
class MarkDown(Action):
    """Replace ``status.takingDown`` by compare-and-swap on the KafkaCluster's resourceVersion."""

    doing: ClassVar[str] = "recording that a pod is about to be restarted"

    resource_version: str
    entries: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Evict(Action):
    """Evict a pod with UID and resourceVersion as preconditions (no restart below min.insync.replicas, docs/safety.md); never delete it instead."""

    doing: ClassVar[str] = "evicting a pod, for example because a PodDisruptionBudget refused it"

    pod: str
    uid: str
    resource_version: str


@dataclass(frozen=True, kw_only=True)
class IssueCa(Action):
    """Make the cluster's CA and store it in its Secret (create-only).

    Attributes:
        days: how long it is valid.
        source: the Secret to copy it from, and the fingerprint that it has there; None to generate one.
    """

    doing: ClassVar[str] = "creating the certificate authority"

    secret: str
    metadata: Mapping[str, Any]
    days: int = 3650
    source: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class TurnCa(Action):
    """One step of the replacement of the cluster's CA: one write of its Secret, guarded by its resourceVersion.

    Attributes:
        step: ``announce`` adds the new one to the trusted ones, ``switch`` makes it the signing one, ``retire`` removes the old one.
        annotations: of the Secret, written with it.
        days: how long a new one is valid.
        source: where a new one comes from, as for `IssueCa`.
    """

    doing: ClassVar[str] = "a step of the replacement of the certificate authority"

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
        trusted: fingerprints of the CAs that the Secret is to list, the signing one first. If the CA's Secret holds another one
            by now, nothing is written.
        seen: metadata of the Secret that is overwritten; None to create it.
        since: when the Secret first listed them, as an RFC 3339 time; empty if this write is the first.
    """

    doing: ClassVar[str] = "issuing the certificate of a node or a user"

    metadata: Mapping[str, Any]
    common_name: str
    dns_names: tuple[str, ...] = ()
    client_properties: str | None = None
    days: int = 365
    trusted: tuple[str, ...] = ()
    since: str = ""
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class CopyCertificates(Action):
    """Write the listeners' own certificates, from the Secrets that the spec names, into the Secret that brokers read.

    Attributes:
        metadata: of that Secret.
        sources: listener → (Secret, mark of the certificate in it). If that holds another one by now, nothing is written.
        keep: listeners whose certificate stays; those of all others are removed.
        seen: metadata of the Secret that is overwritten; None to create it.
    """

    doing: ClassVar[str] = "copying the certificates of listeners"

    metadata: Mapping[str, Any]
    sources: Mapping[str, tuple[str, str]]
    keep: tuple[str, ...] = ()
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class CertifyAgents(Action):
    """Write the ConfigMap of the agents' certificates for one cluster: new ones for some nodes, the present ones for others.

    Attributes:
        metadata: the ConfigMap's.
        requests: node → signing request (PEM) that a certificate is signed for.
        keep: nodes whose certificate stays; those of all other nodes are removed.
        days: how long a certificate is valid.
        trusted, since, seen: as in `IssueCertificate`.
    """

    doing: ClassVar[str] = "issuing certificates of agents"

    metadata: Mapping[str, Any]
    requests: Mapping[str, str]
    keep: tuple[str, ...]
    days: int
    trusted: tuple[str, ...]
    since: str = ""
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class KeepPassword(Action):
    """Write the Secret of a user with a password (the present one, else a new one) and the trusted CAs.

    Attributes:
        metadata: the Secret's.
        user: name of the user.
        trusted, since, seen: as in `IssueCertificate`.
    """

    doing: ClassVar[str] = "writing the Secret with the password of a user"

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

    doing: ClassVar[str] = "setting the password of a user in Kafka"

    user: str
    secret: str
    uid: str


@dataclass(frozen=True, kw_only=True)
class AlterUser(Action):
    """Add or remove ACLs of a user, set its quotas (None removes one), remove its password.

    Attributes:
        user: its principal, without ``User:``.
        deny: True adds a DENY of everything, False removes it, None changes nothing.
        keep_out: the same for writes to Spindle's own topics.
    """

    doing: ClassVar[str] = "changing ACLs or quotas of a user in Kafka"

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

    doing: ClassVar[str] = "giving the administrator's user its rights in Kafka"

    secret: str
    uid: str


@dataclass(frozen=True, kw_only=True)
class GrantRebalance(Action):
    """Give the rebalance job's principal its ACLs: to describe everything and to read the samples."""

    doing: ClassVar[str] = "giving the rebalance job its rights in Kafka"


@dataclass(frozen=True, kw_only=True)
class ElectPreferred(Action):
    """Ask Kafka to elect the preferred leaders of these partitions."""

    doing: ClassVar[str] = "electing preferred leaders"

    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class ElectUnclean(Action):
    """Elect leaders of these partitions that are not in sync (unclean). Loses records; only where a user accepted that."""

    doing: ClassVar[str] = "an unclean leader election"

    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class PlaceReplicas(Action):
    """Choose in which log dir a broker creates replicas that it does not have yet.

    Attributes:
        placements: (topic, partition, path).
    """

    doing: ClassVar[str] = "choosing log dirs for replicas"

    broker: int
    placements: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class Reassign(Action):
    """Change the replicas of partitions, or (None) cancel their reassignment."""

    doing: ClassVar[str] = "starting or cancelling a reassignment"

    assignments: tuple[tuple[str, int, tuple[int, ...] | None], ...]


@dataclass(frozen=True, kw_only=True)
class SetConfigs(Action):
    """Set (or, with None, delete) dynamic configs of one topic or one broker, or a quota.

    Attributes:
        target: ``topic``, ``broker`` or ``quota``.
        name: the topic, the broker's id in digits, or ``users`` for users that have no quota of their own.
    """

    doing: ClassVar[str] = "setting topic or broker settings, for example throttles"

    target: Literal["topic", "broker", "quota"]
    name: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class RaiseFeatures(Action):
    """Raise finalized feature levels (UpdateFeatures, KIP-584). Kafka rejects a level that a node does not support."""

    doing: ClassVar[str] = "raising `metadata.version` or `kraft.version`"

    levels: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class UnregisterBroker(Action):
    """Unregister a stopped broker (UnregisterBroker, KIP-500). Kafka does so even if replicas are assigned to it."""

    doing: ClassVar[str] = "unregistering a broker"

    broker: int


@dataclass(frozen=True, kw_only=True)
class AddVoter(Action):
    """Make a controller a voter (AddRaftVoter, KIP-853).

    Attributes:
        cluster_id: Kafka's; another cluster rejects the request.
        host: the host of its controller listener.
    """

    doing: ClassVar[str] = "adding a controller to the quorum"

    cluster_id: str
    controller: int
    directory_id: str
    host: str


@dataclass(frozen=True, kw_only=True)
class RemoveVoter(Action):
    """Remove a voter from the quorum (RemoveRaftVoter), identified by id and directory id."""

    doing: ClassVar[str] = "removing a controller from the quorum"

    cluster_id: str
    controller: int
    directory_id: str


@dataclass(frozen=True, kw_only=True)
class Tune(Action):
    """Set (or, with None, delete) dynamic configs from the user's spec. A rejection by Kafka does not end the pass.

    Attributes:
        broker: None for the cluster's default.
    """

    doing: ClassVar[str] = "applying a setting without a restart; the message has Kafka's error"

    broker: int | None
    values: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class ReloadCertificates(Action):
    """Make a running broker load listeners' own certificates, and record it if it has.

    Attributes:
        paths: setting of the broker → file with the new certificate. It is set and removed again: Kafka refuses a file that it cannot read, so
            this also shows that the file has reached the broker.
        remove: the settings to remove: these, and those that an interrupted load may have left.
        begin: the note on the KafkaBroker, written first, that these settings may be in Kafka.
        record: the note on the KafkaBroker that it has loaded them, and that nothing of it is left.
    """

    doing: ClassVar[str] = (
        "loading the certificate of a listener without a restart; the message has Kafka's error"
    )

    broker: int
    paths: Mapping[str, str]
    remove: tuple[str, ...]
    begin: Patch
    record: Patch


@dataclass(frozen=True, kw_only=True)
class CreateTopic(Action):
    """Create a topic. If it exists already, the action fails.

    Attributes:
        assignments: by partition, the brokers of its replicas, the preferred leader first.
        configs: what is set on the topic itself.
        dirs: (broker, partition, path) of the log dirs in which brokers create their replicas; they choose for those that are not named.
        record: a change of the KafkaTopic that is written first; if that fails, no topic is created. None for a topic without a KafkaTopic.
    """

    doing: ClassVar[str] = "creating a topic"

    topic: str
    assignments: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]
    dirs: tuple[tuple[int, int, str], ...] = ()
    record: Patch | None = None


@dataclass(frozen=True, kw_only=True)
class AddPartitions(Action):
    """Add partitions to a topic. Kafka rejects the request if the topic has another number of them by now.

    Attributes:
        first: the number that it has, and the index of the first new one.
        assignments, dirs: of the new ones, as in `CreateTopic`.
    """

    doing: ClassVar[str] = "adding partitions to a topic"

    topic: str
    first: int
    assignments: tuple[tuple[int, ...], ...]
    dirs: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ConfigureTopic(Action):
    """Set (or, with None, delete) settings of a topic from its KafkaTopic. A rejection by Kafka does not end the pass."""

    doing: ClassVar[str] = "setting a topic's settings; the message has Kafka's error"

    topic: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class DeleteTopic(Action):
    """Delete a topic by its id: another topic of the same name is not deleted.

    Attributes:
        topic: its name, for messages.
        id: Kafka's, in its text form.
    """

    doing: ClassVar[str] = "deleting a topic"

    topic: str
    id: str


@dataclass(frozen=True, kw_only=True)
class TrimPartitions(Action):
    """Delete the oldest records of partitions.

    Attributes:
        partitions: (topic, partition, broker that leads it, share of its records between 0 and 1).
    """

    doing: ClassVar[str] = "deleting the oldest records of partitions"

    partitions: tuple[tuple[str, int, int, float], ...]
