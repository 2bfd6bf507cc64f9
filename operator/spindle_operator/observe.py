"""One observation of everything that a pass decides on: fresh, raw, paginated lists; what cannot be read is unknown."""

import asyncio
import base64
import binascii
import logging
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.listeners.own_certificates import file_names, listener_of
from spindle.model import objects
from spindle.model.allowed import DISKS, KAFKA_REPOSITORY, Allowed
from spindle.model.freshness import FactsRead
from spindle.model.pools import parse_spec, recorded_spec
from spindle.model.snapshot import AgentCertificates, Certificate, ClusterSnapshot, SecretView
from spindle.moves.journal_record import logs_to_ask
from spindle.security.certificates import FOLLOWING, FORMER
from spindle.security.name_conflicts import REASONS
from spindle.security.secrets import ANN_GRANTED
from spindle.topics.wanted import keys_to_read
from spindle.users.principals import principals_to_read
from spindle_operator import agents, ca, ca_source, own_certificate, shared_objects, starts, tls_routes
from spindle_operator.certificates import password_mark
from spindle_operator.connection import Access
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import (
    BUDGET,
    CLAIM,
    CONFIG_MAP,
    CRON_JOB,
    JOB,
    KAFKA_BROKER,
    KAFKA_REBALANCE,
    KAFKA_TOPIC,
    KAFKA_USER,
    KINDS,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from spindle_operator.kube import ByteBudget, Kube
from spindle_operator.mirror import Mirror
from spindle_operator.rebalance_cache import RebalanceCache
from spindle_shared.api_answers import ApiError, Json

log = logging.getLogger(__name__)

_ENTROPY: Final = 32
# Bytes of all lists of one namespace in one observation, for as many disks as a KafkaCluster may have unless the administrator allows more.
LOOK: Final = 96 << 20
_LABELLED: Final = (POD, SERVICE, CONFIG_MAP, SECRET, BUDGET, NETWORK_POLICY)
_OF_NAMESPACE: Final = (CLAIM, KAFKA_BROKER, KAFKA_USER, KAFKA_TOPIC)
_OF_ALL: Final = (NODE, VOLUME, STORAGE_CLASS)
LOOKED_AT: Final = (*_LABELLED, *_OF_NAMESPACE, *_OF_ALL)  # what every pass reads as lists
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_CERTIFICATES: Final = 2048  # cached certificates, which take longer to parse than to look up


@dataclass(frozen=True)
class Seen:
    """A snapshot, and what could not be read.

    Attributes:
        problems: resource kind → why it could not be read; the snapshot's ``unknown`` are these keys.
        look: how fresh it is.
        access: how Kafka was reached, or why it could not be.
    """

    snapshot: ClusterSnapshot
    problems: Mapping[str, str]
    look: FactsRead
    access: Access | str = "not asked"


@dataclass(frozen=True)
class Surroundings:
    """What the operator knows besides the two clusters.

    Attributes:
        image: the operator's own image, which preflight runs from.
        namespace: of the operator.
        rebalance_image: of the rebalance job; empty if there is none.
        kafka_repository: of Kafka's image, where a KafkaCluster names none.
        allowed: settings that KafkaClusters may use beyond Kafka.
        watch: of the agents; None if there are none.
    """

    image: str
    namespace: str = ""
    rebalance_image: str = ""
    allowed: Allowed = field(default_factory=Allowed)
    watch: agents.AgentMonitor | None = None
    kafka_repository: str = KAFKA_REPOSITORY


async def observe(
    kube: Kube,
    cluster: Json,
    executor: KafkaExecutor,
    around: Surroundings,
    *,
    cache: RebalanceCache | None = None,
    taken: Collection[tuple[str, str]] = (),
    mirror: Mirror | None = None,
    held: Mirror | None = None,
    began: float | None = None,
) -> Seen:
    """Observe everything that concerns one KafkaCluster.

    Args:
        kube: the API server.
        cluster: the KafkaCluster, read a moment ago.
        executor: the connection to this cluster's Kafka.
        around: what the operator knows besides.
        cache: the KafkaRebalances that were read before.
        taken: kind and name of foreign objects that the previous pass met under needed names; no list contains them.
        mirror: read from this cache what it can tell; None to list everything.
        held: a cache whose objects are taken in place of equal ones that are listed, which saves memory.
        began: before the KafkaCluster was read, in seconds of the monotonic clock; None for now.
    """
    began = time.monotonic() if began is None else began
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    reader = _Reader(kube, cluster, most_bytes(around.allowed), mirror, held)
    lists, of_job, rebalances, named = await asyncio.gather(
        reader.lists(),
        reader.of_job(around.rebalance_image),
        reader.rebalances(cache or RebalanceCache()),
        _named(kube, namespace, {*taken, *_told_taken(cluster)}),
    )
    nodes = {
        str(node)
        for broker in lists[KAFKA_BROKER]
        if _of_cluster(broker, name) and (node := (broker.get("spec") or {}).get("node"))
    }
    # Nothing is left behind by a KafkaCluster that goes, whoever made it.
    going = objects.deleting(cluster)
    watched = await agents.look(kube, around.watch, namespace, name, None if going else nodes)
    read = _Read(lists, watched, of_job, rebalances, named)
    problems = reader.problems
    problems |= read.watched.problems
    snapshot, reached = await _snapshot(kube, cluster, executor, around, read, problems)
    return Seen(snapshot, problems, FactsRead(listed=not reader.cached, at=began), reached)


@dataclass(frozen=True)
class _Read:
    """What was read from the API server."""

    lists: Mapping[Kind, list[Json]]
    watched: agents.Agents
    of_job: list[Json]
    rebalances: list[Json]
    named: list[Json]


async def _snapshot(
    kube: Kube,
    cluster: Json,
    executor: KafkaExecutor,
    around: Surroundings,
    read: _Read,
    problems: dict[str, str],
) -> tuple[ClusterSnapshot, Access | str]:
    """Ask Kafka, and read what the lists refer to; ``problems`` receives what cannot be read."""
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    lists, watched = read.lists, read.watched
    users = [user for user in lists[KAFKA_USER] if (user.get("spec") or {}).get("cluster") == name]
    topics = [topic for topic in lists[KAFKA_TOPIC] if (topic.get("spec") or {}).get("cluster") == name]
    brokers = [broker for broker in lists[KAFKA_BROKER] if _of_cluster(broker, name)]
    # Anybody who creates pods of the namespace can give them the labels of brokers. The operator connects to no host because of those.
    own_pods = [pod for pod in lists[POD] if objects.owned_by(pod, cluster)]
    # Kafka is not contacted with a certificate that is not Spindle's.
    own_secrets = [secret for secret in lists[SECRET] if objects.owned_by(secret, cluster)]
    reached = access(name, namespace, own_pods, own_secrets, known="pods" not in problems)
    kafka, granted = await executor.look(
        reached,
        ask_rights=_rights_open(name, lists[SECRET]),
        asked=principals_to_read(users, cluster.get("status") or {}),
        managed=keys_to_read(topics),
        replaced=logs_to_ask(name, lists[CONFIG_MAP]),
        agents=around.watch is not None,
    )
    pod_by_id = {i: pod for pod in own_pods if (i := _node_id(name, pod)) is not None}
    specs = _specs(cluster, lists[CONFIG_MAP])
    routes = await tls_routes.look(kube, cluster, specs, lists[SERVICE], problems)
    snapshot = ClusterSnapshot(
        cluster=cluster,
        spindle_image=around.image,
        entropy=os.urandom(_ENTROPY),
        nodes=tuple(lists[NODE]),
        pods=tuple(lists[POD]),
        claims=tuple(claim for claim in lists[CLAIM] if belongs(claim, name)),
        volumes=tuple(lists[VOLUME]),
        storage_classes=tuple(lists[STORAGE_CLASS]),
        services=tuple(lists[SERVICE]),
        config_maps=tuple(lists[CONFIG_MAP]),
        secrets=tuple(secret_view(secret) for secret in lists[SECRET]),
        budgets=tuple(lists[BUDGET]),
        policies=tuple(lists[NETWORK_POLICY]),
        operator_namespace=around.namespace,
        brokers=tuple(brokers),
        starts=await starts.look(_by_id(brokers), pod_by_id),
        users=tuple(users),
        topics=tuple(topics),
        namespace_ends=await _namespace_ends(kube, namespace, topics),
        rebalances=tuple(read.rebalances),
        rebalance_image=around.rebalance_image,
        kafka_repository=around.kafka_repository,
        rebalance_objects=tuple(obj for obj in read.of_job if obj["kind"] != JOB.kind),
        jobs=tuple(obj for obj in read.of_job if obj["kind"] == JOB.kind),
        kafka=kafka,
        admin_granted=granted,
        allowed=around.allowed,
        shared_objects=await shared_objects.look(kube, namespace, specs, lists[CLAIM], problems),
        ca_source=await ca_source.look(kube, cluster),
        ca_source_before=await ca_source.before(kube, cluster, specs),
        listener_sources=await own_certificate.look(kube, namespace, cluster["metadata"]["name"], specs),
        tls_routes=tuple(routes or ()),
        gateway_api=routes is not None,
        agent_namespace=watched.namespace,
        agent_certificates={
            str(each["metadata"]["name"]): certificates_view(each) for each in watched.certificates
        },
        former_agents=secret_view(watched.secret) if watched.secret else None,
        agents=around.watch.agents() if around.watch is not None else {},
        named=tuple(read.named),
        unknown=frozenset(problems),
    )
    return snapshot, reached


def most_bytes(allowed: Allowed) -> int:
    """Bytes of all lists of one namespace in one observation; a cluster with as many disks as are allowed needs about half."""
    return LOOK * max(DISKS, allowed.disks) // DISKS


class _Reader:
    """Reads the lists of one observation.

    Attributes:
        problems: resource kind → why it could not be read.
        cached: whether anything came from the cache.
    """

    def __init__(
        self, kube: Kube, cluster: Json, most: int, mirror: Mirror | None = None, held: Mirror | None = None
    ) -> None:
        self._kube, self._cluster, self._mirror, self._held = kube, cluster, mirror, held
        self.cached = False
        self._name, self._namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
        self._within = ByteBudget(most)
        self.problems: dict[str, str] = {}

    async def lists(self) -> dict[Kind, list[Json]]:
        """Small kinds, and those that Spindle does not create, completely; the rest by label."""
        read = await asyncio.gather(
            *(self._read(kind, labelled=True) for kind in _LABELLED),
            *(self._read(kind) for kind in _OF_NAMESPACE),
            *(self._read(kind, everywhere=True) for kind in _OF_ALL),
        )
        return dict(zip(LOOKED_AT, read, strict=True))

    async def of_job(self, image: str) -> list[Json]:
        """The objects of the rebalance job; empty if there is none."""
        kinds = _job_kinds(self._cluster, image)
        read = await asyncio.gather(*(self._read(kind, labelled=True) for kind in kinds))
        return [obj for objs in read for obj in objs]

    async def rebalances(self, cache: RebalanceCache) -> list[Json]:
        """The KafkaRebalances of this cluster."""
        try:
            listed = None
            if self._mirror is not None:
                listed = await self._mirror.items(
                    KAFKA_REBALANCE, self._namespace, None, self._within, whole=False
                )
                self.cached |= listed is not None
            return await cache.look(self._kube, self._namespace, self._name, self._within, listed=listed)
        except ApiError as error:
            self._note(KAFKA_REBALANCE, error)
            return []

    async def _read(self, kind: Kind, *, labelled: bool = False, everywhere: bool = False) -> list[Json]:
        namespace = None if everywhere else self._namespace
        # Tenants cannot create cluster-scoped objects.
        within = None if everywhere else self._within
        try:
            if self._mirror is not None:
                found = await self._mirror.items(kind, namespace, self._name if labelled else None, within)
                if found is not None:
                    self.cached = True
                    return found
            selector = f"{names.LABEL_CLUSTER}={self._name}" if labelled else None
            same = self._held.same(kind, namespace, labelled=labelled) if self._held is not None else None
            return await self._kube.items(kind, namespace, selector=selector, within=within, same=same)
        except ApiError as error:
            self._note(kind, error)
            return []

    def _note(self, kind: Kind, error: ApiError) -> None:
        self.problems[kind.plural] = str(error)
        log.warning("%s cannot be read for %s/%s: %s", kind.plural, self._namespace, self._name, error)


async def _namespace_ends(kube: Kube, namespace: str, topics: Sequence[Json]) -> bool | None:
    """Whether the namespace is being deleted. Asked only where a KafkaTopic goes, and after those were listed: a namespace that takes them along is marked before them."""
    if not any(objects.deleting(topic) and topic["metadata"].get("finalizers") for topic in topics):
        return None
    try:
        found = await kube.find(NAMESPACE, None, namespace)
    except ApiError as error:
        log.warning("namespace %s cannot be read: %s", namespace, error)
        return None
    return None if found is None else objects.deleting(found)


def _specs(cluster: Json, config_maps: Sequence[Json]) -> list[KafkaClusterSpec]:
    """The requested spec, if it is valid, and the one on record."""
    meta = cluster["metadata"]
    wanted = names.pools_map(meta["name"])
    record = next((found for found in config_maps if found["metadata"]["name"] == wanted), None)
    found = [recorded_spec(record, str(meta.get("uid", "")))]
    try:
        found.insert(0, parse_spec(cluster.get("spec") or {}))
    except ValidationError:
        log.debug("the spec of %s cannot be parsed", meta["name"])
    return [spec for spec in found if spec is not None]


def _job_kinds(cluster: Json, image: str) -> tuple[Kind, ...]:
    """Objects of the rebalance job; empty if there is none."""
    engine = ((cluster.get("spec") or {}).get("rebalance") or {}).get("engine") or {}
    wanted = image or engine.get("image")
    return (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CRON_JOB, JOB) if wanted else ()


def _told_taken(cluster: Json) -> set[tuple[str, str]]:
    """Foreign objects under needed names that the status lists: a new leader checks them again, too."""
    waiting = (cluster.get("status") or {}).get("waiting") or ()
    things = (str(wait.get("object")) for wait in waiting if wait.get("reason") in REASONS)
    parts = (thing.split("/") for thing in things)
    return {(part[0], part[1]) for part in parts if len(part) == 2 and part[0] in KINDS}


async def _named(kube: Kube, namespace: str, taken: Collection[tuple[str, str]]) -> list[Json]:
    """Objects by kind and name; of Secrets only the metadata. One that cannot be read is detected when Spindle tries to create it."""

    async def find(kind: str, name: str) -> Json | None:
        try:
            found = await kube.find(KINDS[kind], namespace, name)
        except ApiError as error:
            log.warning("%s %s/%s cannot be read: %s", kind, namespace, name, error)
            return None
        return found and ({**found, "kind": kind} if kind != SECRET.kind else _metadata_of(found))

    found = await asyncio.gather(*(find(kind, name) for kind, name in sorted(taken)))
    return [obj for obj in found if obj is not None]


def _metadata_of(secret: Json) -> Json:
    return {"kind": SECRET.kind, "metadata": secret["metadata"]}


def belongs(claim: Mapping[str, Any], cluster: str) -> bool:
    """Whether a claim carries the cluster's label, or has a name that only its disks have.

    The name counts, too: a label is easily lost, and a disk with data must not be overlooked.
    """
    meta = claim["metadata"]
    label = (meta.get("labels") or {}).get(names.LABEL_CLUSTER)
    if label is not None:
        return bool(label == cluster)
    return re.fullmatch(rf"data-(disk\d+|metadata)-{re.escape(cluster)}-\d+", meta["name"]) is not None


def _of_cluster(broker: Mapping[str, Any], cluster: str) -> bool:
    labels = broker["metadata"].get("labels") or {}
    return cluster in (labels.get(names.LABEL_CLUSTER), (broker.get("spec") or {}).get("cluster"))


def _by_id(brokers: Sequence[Json]) -> dict[int, Json]:
    """KafkaBrokers by the id in their spec."""
    ids = ((broker, (broker.get("spec") or {}).get("id")) for broker in brokers)
    return {node_id: broker for broker, node_id in ids if isinstance(node_id, int)}


def _node_id(cluster: str, pod: Mapping[str, Any]) -> int | None:
    return objects.node_id_of(cluster, pod["metadata"]["name"])


def _rights_open(cluster: str, secrets: Sequence[Json]) -> bool:
    """Whether it still has to be checked that the admin principal has its ACLs; an annotation of its Secret records that permanently."""
    wanted = names.admin_secret(cluster)
    return any(
        secret["metadata"]["name"] == wanted
        and ANN_GRANTED not in (secret["metadata"].get("annotations") or {})
        for secret in secrets
    )


def secret_view(secret: Mapping[str, Any]) -> SecretView:
    """A Secret without its secrets: only the public facts, so that keys never reach the core and its error messages."""
    data = secret.get("data") or {}
    name, bundle = secret["metadata"]["name"], _decoded(data, "ca.crt")
    return SecretView(
        metadata=secret["metadata"],
        keys=tuple(sorted(data)),
        certificate=_certificate(name, _decoded(data, "tls.crt") or bundle, bundle),
        trust=_trust(name, bundle),
        password=password_mark(_decoded(data, "password")),
        following=_certificate(name, _decoded(data, FOLLOWING), None),
        former=_certificate(name, _decoded(data, FORMER), None),
        listeners=_of_listeners(name, data),
    )


def _of_listeners(name: str, data: Mapping[str, str]) -> dict[str, Certificate]:
    """Listener → its own certificate, of the Secret that brokers read."""
    found = {}
    for key in data:
        listener, pem = listener_of(key), _decoded(data, key) or b""
        if listener is None or key != file_names(listener)[0]:
            continue
        try:
            found[listener] = _described_chain(pem[max(pem.find(_CERTIFICATE), 0) :])
        except ValueError:
            log.warning("%s (%s) holds a certificate that cannot be read", name, key)
    return found


def certificates_view(config_map: Mapping[str, Any]) -> AgentCertificates:
    """Agents' certificates of a cluster."""
    data, name = config_map.get("data") or {}, config_map["metadata"]["name"]
    bundle = str(data.get(names.AGENT_AUTHORITIES) or "").encode() or None
    held = {
        node: certificate
        for node, pem in data.items()
        if node != names.AGENT_AUTHORITIES
        and (certificate := _certificate(f"{name} ({node})", pem.encode(), bundle)) is not None
    }
    return AgentCertificates(config_map["metadata"], held, _trust(name, bundle))


# Without the key in front of them, which nothing may keep.
@lru_cache(maxsize=_CERTIFICATES)
def _described_chain(pem: bytes) -> Certificate:
    return ca.describe_chain(pem)


@lru_cache(maxsize=_CERTIFICATES)
def _described(pem: bytes, bundle: bytes | None) -> Certificate:
    return ca.describe(pem, bundle)


def _certificate(secret: str, pem: bytes | None, bundle: bytes | None) -> Certificate | None:
    try:
        return _described(pem, bundle) if pem else None
    except ValueError:
        log.warning("%s holds a certificate that cannot be read", secret)
        return None


def _trust(secret: str, bundle: bytes | None) -> tuple[str, ...]:
    try:
        return ca.fingerprints(bundle) if bundle else ()
    except ValueError:
        log.warning("%s holds CA certificates that cannot be read", secret)
        return ()


def access(
    cluster: str, namespace: str, pods: Sequence[Json], secrets: Sequence[Json], *, known: bool = True
) -> Access | str:
    """How to connect to the cluster's Kafka, or why that is not possible yet, as a sentence."""
    if not known:
        return "the pods could not be read"
    running = sorted(
        int(pod["metadata"]["labels"][names.LABEL_NODE_ID])
        for pod in pods
        if _runs_kafka(pod) and (pod["metadata"].get("labels") or {}).get(names.LABEL_NODE_ID, "").isdigit()
    )
    if not running:
        return "no broker runs yet"
    wanted = names.operator_secret(cluster)
    data = next((secret.get("data") or {} for secret in secrets if secret["metadata"]["name"] == wanted), {})
    pems = [_decoded(data, key) for key in ("ca.crt", "tls.crt", "tls.key")]
    authority, certificate, key = pems
    if authority is None or certificate is None or key is None:
        return "the operator has no certificate for this cluster yet"
    return Access(
        hosts={node: names.node_host(cluster, namespace, node) for node in running},
        authority=authority,
        certificate=certificate,
        key=key,
    )


def _runs_kafka(pod: Mapping[str, Any]) -> bool:
    """Whether this is a broker's pod whose Kafka container is running."""
    if (pod["metadata"].get("labels") or {}).get(names.LABEL_ROLE) != names.ROLE_BROKER:
        return False
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return any(
        status.get("name") == names.CONTAINER_KAFKA and "running" in (status.get("state") or {})
        for status in statuses
    )


def _decoded(data: Mapping[str, str], key: str) -> bytes | None:
    try:
        return base64.b64decode(data[key], validate=True) or None
    except (KeyError, binascii.Error):
        return None
