"""The snapshot of one pass. Kubernetes objects are raw dicts, exactly as the API server lists them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spindle.model.agents import Agent
from spindle.model.allowed import KAFKA_REPOSITORY, Allowed
from spindle.model.pod_trials import PodTrial
from spindle.model.refused_requests import RefusedRequest
from spindle.model.spec_findings import SharedObject
from spindle.model.start_progress import Start
from spindle.model.view import KafkaView

SnapshotObject = Mapping[str, Any]


@dataclass(frozen=True)
class Certificate:
    """The public facts of a certificate in a Secret; key material never enters the core.

    Attributes:
        issuer: SHA-256 fingerprint (hex) of the CA certificate that signed it; its own for a CA.
        issued, not_after: start and end of its validity, in seconds since the epoch.
        servers: whether it is valid for servers (extended key usage).
        key: SHA-256 of its public key (SubjectPublicKeyInfo, DER), hex.
        chain: of a listener's own certificate: SHA-256 (hex) of the authorities that are sent with it; empty for none.
    """

    common_name: str
    dns_names: tuple[str, ...]
    issuer: str
    fingerprint: str
    not_after: float
    issued: float = 0.0
    servers: bool = False
    key: str = ""
    chain: str = ""


@dataclass(frozen=True)
class SecretView:
    """A Secret without its secret data.

    Attributes:
        certificate: None if the Secret holds no certificate that can be parsed.
        trust: fingerprints of the trusted CAs (``ca.crt``), in their order.
        password: a hash of the password in it, None if it has none.
        following, former: of a CA's Secret: the next and the previous signing CA.
        listeners: of the Secret that brokers read: listener → its own certificate.
    """

    metadata: Mapping[str, Any]
    keys: tuple[str, ...]
    certificate: Certificate | None
    trust: tuple[str, ...] = ()
    password: str | None = None
    following: Certificate | None = None
    former: Certificate | None = None
    listeners: Mapping[str, Certificate] = field(default_factory=dict)


@dataclass(frozen=True)
class AgentCertificates:
    """A ConfigMap with agents' certificates for one cluster.

    Attributes:
        held: node → its certificate; one that cannot be parsed is missing.
        trust: fingerprints of the trusted CAs, in their order.
    """

    metadata: Mapping[str, Any]
    held: Mapping[str, Certificate]
    trust: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaSource:
    """The Secret that ``spec.security.caSecret`` names.

    Attributes:
        certificate: of the CA in it; None if it cannot be used.
        problem: why it cannot, as a sentence; empty if it can.
    """

    certificate: Certificate | None = None
    problem: str = ""


@dataclass(frozen=True)
class ListenerSource:
    """A Secret that ``certificate.secretName`` of a listener names.

    Attributes:
        certificate: the one in it; None if it cannot be used.
        problem: why it cannot, as a sentence; empty if it can.
    """

    certificate: Certificate | None = None
    problem: str = ""


@dataclass(frozen=True)
class ClusterSnapshot:
    """Everything that `plan` reads.

    Attributes:
        cluster: the KafkaCluster object (metadata, spec, status).
        nodes, volumes, storage_classes: all of them; the others only those labelled with this cluster.
        claims: PersistentVolumeClaims that carry this cluster's label or are named after it.
        starts: broker id → progress of a start that is not finished; a broker that did not answer is missing.
        users: its KafkaUsers.
        topics: its KafkaTopics.
        rejected: requests about topics that Kafka rejected: class of the action and topic → Kafka's error. Of this operator's previous pass; of creations,
            of the last try. In the order in which it rejected them.
        created: topics that this operator created a moment ago, which brokers may not report yet.
        namespace_ends: whether the namespace is being deleted; None if that was not asked or could not be read.
        unknown: resource kinds (``"pods"``, ``"nodes"``, …) that could not be read; their lists are empty and
            prove nothing (unknown is not absent, docs/safety.md).
        rebalances: this cluster's KafkaRebalances; of finished ones the moves may be left out.
        rebalance_image: of the rebalance job, where the KafkaCluster names none; empty if the operator knows none.
        rebalance_objects: the job's CronJob, ServiceAccount, Role and RoleBinding; ``jobs`` are its runs.
        refused: requests of this operator's previous pass that the API server refused.
        pod_trials: the API server's verdicts on pods with a changed pod template, by `TryPod.key`.
        kafka_repository: of Kafka's image, where the KafkaCluster names none.
        entropy: 32 fresh random bytes; the only source of new ids.
        spindle_image: the image that preflight runs from, the operator's own.
        policies: its NetworkPolicies.
        operator_namespace: the operator's namespace; empty if unknown.
        allowed: what the installation allows a KafkaCluster to request.
        shared_objects: ``Secret/name``, ``PersistentVolumeClaim/name`` of what the spec, or the one on record, names → whether it may be used.
        ca_source: the Secret with the CA, if the spec names one.
        ca_source_before: the same of the spec on record, where that names another Secret.
        tls_routes: its TLSRoutes (``"tlsroutes"`` in `unknown` if not readable).
        gateway_api: whether the API server has TLSRoutes of the supported version.
        listener_sources: the Secrets with listeners' own certificates that the spec, or the one on record, names, by their names.
        agent_namespace: the agents' namespace; empty if there are none.
        named: objects (of Secrets only the metadata) that exist under a name that this cluster needs; lists by label may not contain them.
        agent_certificates: ConfigMap → those in it, of the agents for this cluster (``"agentcertificates"`` in `unknown` if not readable).
        former_agents: the Secret that agents of earlier versions have for this cluster; None if there is none, or as above.
        agents: node → contents of its agent's Lease (``"leases"`` in `unknown` if it could not be read recently).
    """

    cluster: SnapshotObject
    spindle_image: str
    entropy: bytes
    nodes: tuple[SnapshotObject, ...] = ()
    pods: tuple[SnapshotObject, ...] = ()
    claims: tuple[SnapshotObject, ...] = ()
    volumes: tuple[SnapshotObject, ...] = ()
    storage_classes: tuple[SnapshotObject, ...] = ()
    services: tuple[SnapshotObject, ...] = ()
    config_maps: tuple[SnapshotObject, ...] = ()
    secrets: tuple[SecretView, ...] = ()
    budgets: tuple[SnapshotObject, ...] = ()
    brokers: tuple[SnapshotObject, ...] = ()
    users: tuple[SnapshotObject, ...] = ()
    topics: tuple[SnapshotObject, ...] = ()
    rejected: Mapping[tuple[str, str], str] = field(default_factory=dict)
    created: frozenset[str] = frozenset()
    namespace_ends: bool | None = None
    policies: tuple[SnapshotObject, ...] = ()
    operator_namespace: str = ""
    rebalances: tuple[SnapshotObject, ...] = ()
    rebalance_image: str = ""
    kafka_repository: str = KAFKA_REPOSITORY
    rebalance_objects: tuple[SnapshotObject, ...] = ()
    jobs: tuple[SnapshotObject, ...] = ()
    allowed: Allowed = field(default_factory=Allowed)
    shared_objects: Mapping[str, SharedObject] = field(default_factory=dict)
    ca_source: CaSource | None = None
    ca_source_before: CaSource | None = None
    listener_sources: Mapping[str, ListenerSource] = field(default_factory=dict)
    tls_routes: tuple[SnapshotObject, ...] = ()
    gateway_api: bool = True
    agent_namespace: str = ""
    agent_certificates: Mapping[str, AgentCertificates] = field(default_factory=dict)
    former_agents: SecretView | None = None
    agents: Mapping[str, Agent] = field(default_factory=dict)
    named: tuple[SnapshotObject, ...] = ()
    kafka: KafkaView = field(default_factory=lambda: KafkaView(error="not asked"))
    admin_granted: bool | None = None
    starts: Mapping[int, Start] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    refused: tuple[RefusedRequest, ...] = ()
    pod_trials: Mapping[str, PodTrial] = field(default_factory=dict)
