"""The watches (by kopf), and the loops that each event wakes. No logic: every handler only wakes loops.

kopf provides watches that survive timeouts and restarts of the API server. Only ``on.event`` handlers are used, so kopf writes nothing. What
`kopf.on.create`, `update`, `delete` and daemons would do is in `spindle_operator.loop`: one loop per KafkaCluster, whose passes also end with
its finalizer. docs/adr/0008-own-loops-lease-and-finalizer.md compares the two.
"""

import datetime as dt
import enum
import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import kopf

from spindle.api import names
from spindle.moves import between_dirs
from spindle_operator.kinds import (
    BUDGET,
    CLAIM,
    CONFIG_MAP,
    CRON_JOB,
    JOB,
    KAFKA_BROKER,
    KAFKA_CLUSTER,
    KAFKA_REBALANCE,
    KAFKA_TOPIC,
    KAFKA_USER,
    NETWORK_POLICY,
    NODE,
    POD,
    SECRET,
    SERVICE,
    Kind,
)
from spindle_operator.kube import Kube
from spindle_operator.loop import Loops

log = logging.getLogger(__name__)

LABELLED: Final = (
    POD,
    CLAIM,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    BUDGET,
    CRON_JOB,
    JOB,
    NETWORK_POLICY,
)  # watched by Spindle's label only
OWN: Final = (KAFKA_CLUSTER, KAFKA_BROKER, KAFKA_REBALANCE, KAFKA_USER, KAFKA_TOPIC)
_RELOGIN: Final = dt.timedelta(minutes=10)  # ServiceAccount tokens are rotated


class Weight(enum.Enum):
    """Urgency of an event."""

    NOISE = enum.auto()  # a heartbeat, or a write of the operator itself
    CHANGE = enum.auto()  # needs a pass, together with other events of the same moment
    ALARM = enum.auto()  # a disk's verdict changed: needs a pass at once


class Digests:
    """Separates relevant changes from noise: the state of each watched object when it last woke a loop."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, bytes]] = {}

    def classify(self, kind: Kind, event_type: str | None, body: Mapping[str, Any]) -> Weight:
        """Whether an event is more than a heartbeat, and whether it can wait."""
        uid = str(body["metadata"].get("uid"))
        if event_type == "DELETED":
            self._known.pop(uid, None)
            return Weight.CHANGE
        now = _digest(digest_of(kind, body)), _digest(verdicts(kind, body))
        before = self._known.get(uid)
        if before == now:
            return Weight.NOISE
        self._known[uid] = now
        # A first observation says nothing about when the object changed.
        return Weight.ALARM if before is not None and before[1] != now[1] else Weight.CHANGE


def _digest(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def digest_of(kind: Kind, body: Mapping[str, Any]) -> Any:
    """The part of an object whose change matters.

    Node: its labels, whether pods may run there, and whether it is ready; the rest of its status changes every few
    seconds. KafkaCluster, KafkaRebalance, KafkaTopic, KafkaUser: all but the status, which only the operator writes. KafkaBroker: the same, plus the
    agent's observations, without the progress of a copy and the usage of a disk, which the next pass reads anyway.
    """
    meta = body["metadata"]
    if kind is NODE:
        status, spec = body.get("status") or {}, body.get("spec") or {}
        conditions = [(c.get("type"), c.get("status")) for c in status.get("conditions") or ()]
        return [meta.get("labels"), spec.get("taints"), spec.get("unschedulable"), conditions]
    kept = {key: meta.get(key) for key in _META}
    if kind is KAFKA_TOPIC and meta.get("annotations"):  # the operator's own note, written with each try
        kept["annotations"] = {k: v for k, v in meta["annotations"].items() if k != names.ANN_CREATING}
    rest = {key: value for key, value in body.items() if key != "metadata"}
    if kind in OWN:
        rest.pop("status", None)
    return [kept, rest, verdicts(kind, body), _moves(body) if kind is KAFKA_BROKER else None]


def verdicts(kind: Kind, body: Mapping[str, Any]) -> Any:
    """The agent's verdicts on the disks of a KafkaBroker; None for other objects."""
    if kind is not KAFKA_BROKER:
        return None
    seen = _observed(body)
    return [seen.get("node"), [{key: disk.get(key) for key in _VERDICT} for disk in seen.get("disks") or ()]]


_VERDICT: Final = ("name", "verdict", "reason", "content", "fsUuid", "device")


def _moves(body: Mapping[str, Any]) -> list[Any]:
    """State of a broker's moves, and the throttle that its agent waits for."""
    seen = _observed(body)
    moves = [[move.get(key) for key in _MOVE] for move in seen.get("moves") or ()]
    return [between_dirs.wanted(seen), moves]


_MOVE: Final = ("topic", "partition", "fromDir", "toDir", "state")


def _observed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return (body.get("status") or {}).get("observed") or {}


_META: Final = ("labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp", "uid")


def cluster_of(body: Mapping[str, Any]) -> str | None:
    """The KafkaCluster that an object belongs to: by label, or by its spec."""
    label = (body["metadata"].get("labels") or {}).get(names.LABEL_CLUSTER)
    cluster = label or (body.get("spec") or {}).get("cluster")
    return str(cluster) if cluster else None


async def registry(kube: Kube, loops: Loops, namespaces: list[str]) -> kopf.OperatorRegistry:
    """Handlers for all kinds that the operator may watch.

    A kind that it may not watch (nodes, for an operator with rights in one namespace) is skipped: the resync covers it, and
    kopf would end the whole operator because of it.

    Args:
        kube: to find out what may be watched.
        loops: to be woken.
        namespaces: managed namespaces; empty for all.
    """
    handlers = kopf.OperatorRegistry()
    digests = Digests()
    for kind in (*OWN, *LABELLED, NODE):
        places: list[str | None] = [*namespaces] if namespaces and kind.namespaced else [None]
        allowed = [await kube.probe(kind, place) for place in places]
        if all(allowed):
            _register(handlers, loops, digests, kind)
        elif kind is KAFKA_CLUSTER:
            raise PermissionError("no right to list and watch KafkaClusters: the operator cannot work")
        else:
            log.warning("no right to watch %s: changes are observed only at the next resync", kind.plural)

    @kopf.on.login(registry=handlers)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection(kube)

    return handlers


def _register(handlers: kopf.OperatorRegistry, loops: Loops, digests: Digests, kind: Kind) -> None:
    # The explicit id distinguishes the handlers of one registry.
    @kopf.on.event(kind.group, kind.version, kind.plural, registry=handlers, id=f"wake-by-{kind.plural}")
    async def on_event(event: Mapping[str, Any], **_: Any) -> None:
        body = event["object"]
        weight = digests.classify(kind, event["type"], body)
        if weight is not Weight.NOISE:
            wake(loops, kind, body, urgent=weight is Weight.ALARM)


def wake(loops: Loops, kind: Kind, body: Mapping[str, Any], *, urgent: bool = False) -> None:
    """Wake the loops that a change concerns."""
    meta = body["metadata"]
    loops.happened(kind, body)
    if kind is KAFKA_CLUSTER:
        loops.seen(meta["namespace"], meta["name"])
    elif kind is NODE:
        loops.wake_all()
    elif cluster := cluster_of(body):
        home = meta["namespace"]
        if home == loops.agent_namespace:
            # Only the operator writes there. Elsewhere anyone who may write objects can set the label, so it must not wake a cluster of another namespace.
            home = (meta.get("labels") or {}).get(names.LABEL_NAMESPACE) or home
        loops.wake(home, cluster, urgent=urgent)


async def connection(kube: Kube) -> kopf.ConnectionInfo:
    """The operator's credentials, in kopf's format."""
    configuration = kube.configuration
    token = await kube.token()
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        token=token,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        expiration=dt.datetime.now(dt.UTC) + _RELOGIN if token else None,
    )


def settings() -> kopf.OperatorSettings:
    """Settings that prevent kopf from writing to objects."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    # The chart installs the CRDs, and they stay; watching them would need rights on all CRDs.
    chosen.scanning.disabled = True
    chosen.peering.standalone = True
    # Watches can stall without an error: end each one after five minutes, and any that got not even a bookmark
    # for more than a minute.
    chosen.watching.server_timeout = 300
    chosen.watching.client_timeout = 310
    chosen.watching.inactivity_timeout = 70
    chosen.queueing.idle_timeout = 1
    chosen.queueing.exit_timeout = 0.5
    for kind in LABELLED:
        chosen.watching.label_selectors[kind.group, kind.version, kind.plural] = names.LABEL_CLUSTER
    return chosen
