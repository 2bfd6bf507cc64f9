"""What kopf watches for us, and whom each event wakes. No logic: every handler ends in a wake-up.

kopf gives watches that survive time-outs and restarts of the API server. It gets ``on.event`` handlers only: daemons and
change handlers write finalizers and annotations onto what they watch.
"""

import datetime as dt
import enum
import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import kopf

from spindle.cluster import names
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
)  # watched by our label only
OWN: Final = (KAFKA_CLUSTER, KAFKA_BROKER, KAFKA_REBALANCE, KAFKA_USER)
_RELOGIN: Final = dt.timedelta(minutes=10)  # tokens of service accounts change under us


class Weight(enum.Enum):
    """What an event is worth."""

    NOISE = enum.auto()  # a heartbeat, or something that we wrote ourselves
    CHANGE = enum.auto()  # worth a pass, together with what else happens in the same moment
    ALARM = enum.auto()  # a disk's verdict changed: worth a pass at once


class Digests:
    """Tells news from noise: what each watched object looked like when it last woke somebody."""

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
        # What is seen for the first time is news of this process, not of the world.
        return Weight.ALARM if before is not None and before[1] != now[1] else Weight.CHANGE


def _digest(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def digest_of(kind: Kind, body: Mapping[str, Any]) -> Any:
    """The part of an object whose change matters.

    Of a node: where it is, whether pods may run there, and whether it is well; the rest of its status is rewritten every few
    seconds. Of a KafkaCluster, KafkaRebalance or KafkaUser: all but its status, which only we write. Of a KafkaBroker likewise, but what the agent on its
    node saw; not how far a copy or how full a disk is, which the next pass sees anyway.
    """
    meta = body["metadata"]
    if kind is NODE:
        status, spec = body.get("status") or {}, body.get("spec") or {}
        conditions = [(c.get("type"), c.get("status")) for c in status.get("conditions") or ()]
        return [meta.get("labels"), spec.get("taints"), spec.get("unschedulable"), conditions]
    kept = {key: meta.get(key) for key in _META}
    rest = {key: value for key, value in body.items() if key != "metadata"}
    if kind in (KAFKA_CLUSTER, KAFKA_BROKER, KAFKA_REBALANCE, KAFKA_USER):
        rest.pop("status", None)
    return [kept, rest, verdicts(kind, body), _moves(body) if kind is KAFKA_BROKER else None]


def verdicts(kind: Kind, body: Mapping[str, Any]) -> Any:
    """Of a KafkaBroker: what its node's agent says that its disks are; nothing of any other object."""
    if kind is not KAFKA_BROKER:
        return None
    seen = _observed(body)
    return [seen.get("node"), [{key: disk.get(key) for key in _VERDICT} for disk in seen.get("disks") or ()]]


_VERDICT: Final = ("name", "verdict", "reason", "content", "fsUuid", "device")


def _moves(body: Mapping[str, Any]) -> list[Any]:
    """Where a broker's moves stand, and the throttle that its agent waits for."""
    seen = _observed(body)
    moves = [[move.get(key) for key in _MOVE] for move in seen.get("moves") or ()]
    return [between_dirs.wanted(seen), moves]


_MOVE: Final = ("topic", "partition", "fromDir", "toDir", "state")


def _observed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return (body.get("status") or {}).get("observed") or {}


_META: Final = ("labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp", "uid")


def cluster_of(body: Mapping[str, Any]) -> str | None:
    """The KafkaCluster that an object belongs to: by label, or by what its spec says."""
    label = (body["metadata"].get("labels") or {}).get(names.LABEL_CLUSTER)
    cluster = label or (body.get("spec") or {}).get("cluster")
    return str(cluster) if cluster else None


async def registry(kube: Kube, loops: Loops, namespaces: list[str]) -> kopf.OperatorRegistry:
    """Handlers for all that may be watched with the rights that we have.

    A kind that may not be (nodes, for an operator that lives in one namespace) is left out: the resync covers it, and
    kopf would end the whole operator over it.

    Args:
        kube: to find out what may be watched.
        loops: whom to wake.
        namespaces: those that are served; empty for all.
    """
    handlers = kopf.OperatorRegistry()
    digests = Digests()
    for kind in (*OWN, *LABELLED, NODE):
        places: list[str | None] = [*namespaces] if namespaces and kind.namespaced else [None]
        allowed = [await kube.probe(kind, place) for place in places]
        if all(allowed):
            _register(handlers, loops, digests, kind)
        elif kind is KAFKA_CLUSTER:
            raise PermissionError("no right to list and watch KafkaClusters: the operator can do nothing")
        else:
            log.warning("%s may not be watched: changes are seen at the next resync only", kind.plural)

    @kopf.on.login(registry=handlers)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection(kube)

    return handlers


def _register(handlers: kopf.OperatorRegistry, loops: Loops, digests: Digests, kind: Kind) -> None:
    # The explicit id: handlers of one registry are told apart by it.
    @kopf.on.event(kind.group, kind.version, kind.plural, registry=handlers, id=f"wake-by-{kind.plural}")
    async def on_event(event: Mapping[str, Any], **_: Any) -> None:
        body = event["object"]
        weight = digests.classify(kind, event["type"], body)
        if weight is not Weight.NOISE:
            wake(loops, kind, body, urgent=weight is Weight.ALARM)


def wake(loops: Loops, kind: Kind, body: Mapping[str, Any], *, urgent: bool = False) -> None:
    """Wake whoever an object's change concerns."""
    meta = body["metadata"]
    if kind is KAFKA_CLUSTER:
        loops.seen(meta["namespace"], meta["name"])
    elif kind is NODE:
        loops.wake_all()
    elif cluster := cluster_of(body):
        home = meta["namespace"]
        if home == loops.agent_namespace:
            # The operator alone writes there. Anywhere else the label is whoever's who may write an object, and wakes no cluster of another namespace.
            home = (meta.get("labels") or {}).get(names.LABEL_NAMESPACE) or home
        loops.wake(home, cluster, urgent=urgent)


async def connection(kube: Kube) -> kopf.ConnectionInfo:
    """Our credentials in kopf's terms."""
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
    """Settings that make kopf a watcher that writes nothing."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    # The definitions come with the chart and stay; watching them would ask for rights over all of them.
    chosen.scanning.disabled = True
    chosen.peering.standalone = True
    # Watches that fall silent without an error are a known ailment: end each after five minutes, and any on which not
    # even a bookmark came for more than a minute.
    chosen.watching.server_timeout = 300
    chosen.watching.client_timeout = 310
    chosen.watching.inactivity_timeout = 70
    chosen.queueing.idle_timeout = 1
    chosen.queueing.exit_timeout = 0.5
    for kind in LABELLED:
        chosen.watching.label_selectors[kind.group, kind.version, kind.plural] = names.LABEL_CLUSTER
    return chosen
