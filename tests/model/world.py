"""A model of a Kubernetes cluster with Kafka in it: just enough to carry out plans and see where they lead.

It serves the unit and property tests of the core. What is real is proven elsewhere, on a real API server and real Kafka.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.config.spec_allowed import named
from spindle.model.actions import (
    Action,
    AlterUser,
    Apply,
    CopyCertificates,
    Create,
    Delete,
    ElectPreferred,
    Evict,
    GrantAdmin,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    MarkDown,
    Patch,
    Reassign,
    ReloadCertificates,
    SetPassword,
    SetPodCondition,
    TryPod,
    TurnCa,
)
from spindle.model.allowed import Allowed
from spindle.model.pod_trials import PodTrial
from spindle.model.rights import UserView
from spindle.model.snapshot import CaSource, Certificate, ClusterSnapshot, ListenerSource, SecretView
from spindle.model.spec_findings import SharedObject
from spindle.model.times import stamp
from spindle.model.view import Broker, KafkaView, LogDir, Partition, Quorum, Voter
from spindle.reconcile.batches import batch
from spindle.reconcile.plan import ReconcilePlan, plan
from spindle.users.principals import principals_to_read
from tests.model.nodes import Nodes
from tests.model.store import NAMESPACE, ConflictError, Path, at, handed_over, merge, owned_fields, without

YEARS = 1e8  # seconds that certificates last


def quickstart(**spec: Any) -> dict[str, Any]:
    """The twelve-line sample."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaCluster",
        "metadata": {"name": "demo", "namespace": NAMESPACE, "uid": "uid-demo", "generation": 1},
        "spec": {
            "version": "4.3.1",
            "controllers": {"replicas": 3, "storage": {"size": "1Gi"}},
            "brokerPools": [
                {
                    "name": "main",
                    "replicas": 3,
                    "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
                }
            ],
            "racks": {"topologyKey": "topology.kubernetes.io/zone"},
            **spec,
        },
        "status": {},
    }


_OF_THE_JOB = ("ServiceAccount", "Role", "RoleBinding", "CronJob")


@dataclass
class World(Nodes):
    """Nodes, Kafka on them, and the operator's passes."""

    cluster: dict[str, Any] = field(default_factory=quickstart)
    partitions: tuple[Partition, ...] = ()
    granted: bool = False
    ca_source: CaSource | None = None
    listener_sources: dict[str, ListenerSource] = field(default_factory=dict)
    undelivered: set[int] = field(default_factory=set)  # brokers whose node did not get a changed Secret
    # Whatever a test asks for is allowed, unless it is about that.
    allowed: Allowed = field(default_factory=lambda: Allowed(images=("*",), annotations=("*",)))
    lent: dict[str, SharedObject] = field(default_factory=dict)
    users: dict[str, UserView] = field(default_factory=dict)  # what Kafka knows of them
    kafka_up: bool = True
    offline: set[tuple[int, str]] = field(default_factory=set)  # (broker, disk) whose log dir Kafka gave up
    unknown: frozenset[str] = frozenset()
    writes: int = 0
    rejected: dict[tuple[str, str], str] = field(default_factory=dict)  # by Kafka, in the last pass
    namespace_ends: bool | None = False
    gateway_api: bool = True  # whether the CRDs of the Gateway API are installed
    pod_refusal: str = ""  # what the API server says of a pod that it checks
    trials: dict[str, PodTrial] = field(default_factory=dict)
    joined: set[int] = field(default_factory=set)  # ran once: Kafka keeps them, fenced while away
    # Object → what the operator's create owns, and which fields its apply owns: two owners in the API server.
    _as_made: dict[tuple[str, str], dict[Path, Any]] = field(default_factory=dict)
    _as_applied: dict[tuple[str, str], frozenset[Path]] = field(default_factory=dict)

    # -- building ------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, zones: str = "abcab", disks: int = 3, **spec: Any) -> Self:
        """One node per letter, in that zone (``-`` for no label), with so many free local disks each."""
        world = cls(cluster=quickstart(**spec))
        for name, provisioner, default in (
            ("local-disks", "kubernetes.io/no-provisioner", False),
            ("standard", "x", True),
        ):
            world.put(
                {
                    "kind": "StorageClass",
                    "metadata": {
                        "name": name,
                        "annotations": {"storageclass.kubernetes.io/is-default-class": str(default).lower()},
                    },
                    "provisioner": provisioner,
                    "volumeBindingMode": "WaitForFirstConsumer",
                }
            )
        for index, zone in enumerate(zones, 1):
            world.add_node(f"node{index}", None if zone == "-" else f"zone-{zone}", disks)
        return world

    # -- observing -----------------------------------------------------------------------------------------------

    def snapshot(self) -> ClusterSnapshot:
        return copy.deepcopy(self._snapshot())

    def _snapshot(self) -> ClusterSnapshot:
        self.cluster["metadata"]["resourceVersion"] = str(self._serial)
        pick = {kind: () if plural in self.unknown else self.all(kind) for kind, plural in _PLURALS.items()}
        return ClusterSnapshot(
            ca_source=self.ca_source,
            listener_sources=self.listener_sources,
            pod_trials=self.trials,
            allowed=self.allowed,
            shared_objects=self._lent(),
            cluster=self.cluster,
            spindle_image="spindle:test",
            entropy=f"entropy-{self._serial}".encode().ljust(32, b"."),
            nodes=pick["Node"],
            pods=pick["Pod"],
            claims=pick["PersistentVolumeClaim"],
            volumes=pick["PersistentVolume"],
            storage_classes=pick["StorageClass"],
            services=pick["Service"],
            config_maps=tuple(m for m in pick["ConfigMap"] if _labelled(m)),
            secrets=tuple(_secret_view(secret) for secret in pick["Secret"]),
            budgets=pick["PodDisruptionBudget"],
            brokers=pick["KafkaBroker"],
            users=pick["KafkaUser"],
            topics=tuple(t for t in pick["KafkaTopic"] if t["spec"].get("cluster") == "demo"),
            rejected=self.rejected,
            namespace_ends=self.namespace_ends,
            policies=pick["NetworkPolicy"],
            tls_routes=pick["TLSRoute"] if self.gateway_api else (),
            gateway_api=self.gateway_api,
            operator_namespace="spindle-system",
            rebalances=pick["KafkaRebalance"],
            rebalance_objects=tuple(obj for kind in _OF_THE_JOB for obj in self.all(kind)),
            kafka=self.kafka(),
            admin_granted=self.granted if self.kafka().brokers else None,
            unknown=self.unknown,
        )

    def _lent(self) -> dict[str, SharedObject]:
        """Owners lend whatever a spec names, but for what a test says otherwise of."""
        found = named(KafkaClusterSpec.model_validate(self.cluster["spec"]))
        return {f"{kind}/{name}": SharedObject(label=names.ANYONE) for kind, name, _ in found} | self.lent

    def running(self, role: str) -> list[int]:
        """Node ids whose Kafka runs."""
        return sorted(
            int(pod["metadata"]["labels"][names.LABEL_NODE_ID])
            for pod in self.all("Pod")
            if pod["metadata"]["labels"].get(names.LABEL_ROLE) == role and kafka_state(pod).get("running")
        )

    def is_ready(self, name: str) -> None:
        """The kubelet finds a pod's Kafka ready."""
        pod = self.get("Pod", name)
        for entry in pod["status"]["containerStatuses"]:
            entry["ready"] = True
        self.put(pod)

    def quorum(self) -> Quorum | None:
        """What the controllers' leader says; None without a majority."""
        controllers = self.running("controller")
        identity = self.objects.get(("ConfigMap", "demo-identity"))
        voters = json.loads(identity["data"]["voters"]) if identity else []
        if 2 * len(controllers) <= len(voters):
            return None
        return Quorum(
            leader=controllers[0],
            voters=tuple(Voter(v["id"], v["directoryId"], v["id"] in controllers) for v in voters),
        )

    def kafka(self) -> KafkaView:
        brokers, quorum = self.running("broker"), self.quorum()
        identity = self.objects.get(("ConfigMap", "demo-identity"))
        if not brokers or quorum is None or not self.kafka_up:
            return KafkaView(error="no broker runs yet")
        self.joined |= set(brokers)
        away = {i: Broker(id=i, rack=None, fenced=True) for i in sorted(self.joined)}
        return KafkaView(
            cluster_id=identity["data"]["clusterId"] if identity else None,
            brokers=away
            | {i: Broker(id=i, rack=None, fenced=False, log_dirs=self._log_dirs(i)) for i in brokers},
            partitions=self.partitions,
            min_isr={partition.topic: 2 for partition in self.partitions},
            users={
                name: self.users.get(name, UserView())
                for name in principals_to_read(self.all("KafkaUser"), self.cluster.get("status") or {})
            },
            quorum=quorum,
        )

    def _log_dirs(self, broker_id: int) -> tuple[LogDir, ...]:
        pod = self.get("Pod", f"demo-broker-{broker_id}")
        disks = json.loads(pod["metadata"]["annotations"][names.ANN_DISKS])
        held = {(p.topic, p.index): 100 for p in self.partitions if broker_id in p.replicas}
        return tuple(
            LogDir(
                names.log_dir(disk["name"]),
                error=0 if disk["mode"] == "Active" and (broker_id, disk["name"]) not in self.offline else 56,
                replicas=held if index == 0 else {},
                total_bytes=1000,
                usable_bytes=900,
            )
            for index, disk in enumerate(disks)
        )

    # -- acting --------------------------------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        """Carry out one action as the edge does, guards included."""
        self.writes += 1
        self._serial += 1
        match action:
            case Create(object=obj):
                self._create(obj)
            case TryPod():
                self.trials[action.key] = PodTrial(self.now, self.pod_refusal)
            case Apply():
                self._apply(action)
            case Patch():
                self._guarded(action.kind, action.name, action.uid, action.resource_version)
                self.put(merge(self.get(action.kind, action.name), action.body))
                self._collect(action.kind, action.name)
                if action.kind == "PersistentVolume":
                    self._freed(action.name)
            case SetPodCondition():
                pod = self._guarded("Pod", action.pod, action.uid, None)
                _set_condition(pod, action.type, action.status)
                _set_ready(pod)
                self.put(pod)
            case Delete(kind=kind, name=name):
                live = self._guarded(kind, name, action.uid, None)
                live["metadata"].setdefault("deletionTimestamp", stamp(self.now))
                self._collect(kind, name)
            case Evict():
                self._in_budget(self._guarded("Pod", action.pod, action.uid, action.resource_version))
                del self.objects["Pod", action.pod]
            case MarkDown():
                if action.resource_version != self.cluster["metadata"]["resourceVersion"]:
                    raise ConflictError("takingDown")
                self.cluster["status"]["takingDown"] = [dict(entry) for entry in action.entries]
            case IssueCa():
                self._issue_ca(action)
            case IssueCertificate() | TurnCa():
                self._with_the_ca(action)
            case CopyCertificates() | ReloadCertificates():
                self._own_certificates(action)
            case KeepPassword() | SetPassword() | AlterUser():
                self._user(action)
            case GrantAdmin():
                self.granted = True
            case Reassign() | ElectPreferred():
                self._order(action)

    def _create(self, obj: Mapping[str, Any]) -> None:
        """Create-only; a ConfigMap that is there and not listed gets its labels."""
        key = obj["kind"], obj["metadata"]["name"]
        there = self.objects.get(key)
        if there is not None and there["kind"] == "ConfigMap" and not _labelled(there):
            there["metadata"]["labels"] = dict(obj["metadata"]["labels"])
            return
        if there is not None:
            raise ConflictError(obj["metadata"]["name"])
        self._created(self.put(obj))
        self._owned(obj)

    def _owned(self, obj: Mapping[str, Any]) -> None:
        """Note who owns the fields of an object that was created just now."""
        key = obj["kind"], obj["metadata"]["name"]
        self._as_applied[key] = handed_over(obj)
        self._as_made[key] = {path: at(obj, path) for path in owned_fields(obj) - self._as_applied[key]}

    def _apply(self, action: Apply) -> None:
        """Server-side apply; over what was seen, if that is said."""
        obj = action.object
        key = (obj["kind"], obj["metadata"]["name"])
        if action.seen is None and key in self.objects:
            raise ConflictError(f"{obj['metadata']['name']} is there")
        there = self.objects.get(key, {})
        if action.seen is not None and (
            there.get("spec") != action.seen.get("spec")
            or there["metadata"]["uid"] != action.seen["metadata"]["uid"]
        ):
            raise ConflictError(obj["metadata"]["name"])
        if key not in self.objects:
            self.put(obj)
            self._owned(obj)
            return
        # The create keeps what was not handed over, until an apply gives it another value. What else is in the object is somebody's.
        made = {k: v for k, v in self._as_made.get(key, {}).items() if at(obj, k) in (None, v)}
        fields = owned_fields(obj)
        gone = self._as_applied.get(key, frozenset()) - fields - made.keys()
        self._as_made[key], self._as_applied[key] = made, fields
        self.put(merge(without(self.objects[key], gone), obj))

    def _order(self, action: Reassign | ElectPreferred) -> None:
        """What Kafka does with another order of a partition's replicas, and with an election."""
        if isinstance(action, Reassign):
            orders = {(topic, index): order for topic, index, order in action.assignments if order}
            self.partitions = tuple(
                replace(p, replicas=orders.get((p.topic, p.index), p.replicas)) for p in self.partitions
            )
            return
        self.partitions = tuple(
            replace(p, leader=p.replicas[0])
            if (p.topic, p.index) in action.partitions and p.replicas[0] in p.isr
            else p
            for p in self.partitions
        )

    def _user(self, action: KeepPassword | SetPassword | AlterUser) -> None:
        """What users have in Kafka, and their passwords."""
        if isinstance(action, KeepPassword):
            name = str(action.metadata["name"])
            old = self.objects.get(("Secret", name))
            before = old["metadata"].get("annotations", {}) if old else {}
            written = {names.ANN_WRITTEN: action.since or stamp(self.now)}
            metadata = {**action.metadata, "annotations": {**before, **written}}
            mark = old["view"]["password"] if old else f"password-{self._serial}"
            self._secret(metadata, "ca", "ca", (), trust=action.trusted)
            self.get("Secret", name)["view"] |= {"fingerprint": action.trusted[0], "password": mark}
            return
        has = self.users.get(action.user, UserView())
        if isinstance(action, SetPassword):
            secret = self._guarded("Secret", action.secret, action.uid, None)
            secret["metadata"].setdefault("annotations", {})[names.ANN_PASSWORD] = secret["view"]["password"]
            self.put(secret)
            self.users[action.user] = replace(has, scram=True)
            return
        quotas = {key: value for key, value in {**has.quotas, **action.quotas}.items() if value is not None}
        rights = (has.rights | set(action.give)) - set(action.take)
        denied = has.denied if action.deny is None else action.deny
        out = has.kept_out if action.keep_out is None else action.keep_out
        self.users[action.user] = UserView(
            rights, has.scram and not action.drop_password, quotas, denied, out
        )

    def _secret(
        self,
        metadata: Mapping[str, Any],
        name: str,
        issuer: str,
        hosts: tuple[str, ...],
        *,
        trust: tuple[str, ...],
    ) -> None:
        view = {
            "cn": name,
            "issuer": issuer,
            "fingerprint": issuer if name == "ca" else f"{name}-{self._serial}",
            "dns": list(hosts),
            "trust": list(trust),
            "issued": self.now,
        }
        self.put({"kind": "Secret", "metadata": dict(metadata), "view": view})

    def _issue_ca(self, action: IssueCa) -> None:
        made = action.source[1] if action.source else "ca"
        self._secret(action.metadata, "ca", made, (), trust=(made,))

    def _with_the_ca(self, action: IssueCertificate | TurnCa) -> None:
        if isinstance(action, TurnCa):
            self._turn(action)
        else:
            self._issue(action)

    def _issue(self, action: IssueCertificate) -> None:
        authority = self.get("Secret", "demo-ca")["view"]
        trust = (
            authority["fingerprint"],
            *(authority[k] for k in ("following", "former") if authority.get(k)),
        )
        if trust != action.trusted:
            raise ConflictError("the authority changed")
        old = self.objects.get(("Secret", str(action.metadata["name"])), {}).get("metadata", {})
        written = {names.ANN_WRITTEN: action.since or stamp(self.now)}
        metadata = {
            **old,
            **action.metadata,
            "annotations": {**old.get("annotations", {}), **written},
        }
        self._secret(metadata, action.common_name, trust[0], action.dns_names, trust=trust)

    def _own_certificates(self, action: CopyCertificates | ReloadCertificates) -> None:
        if isinstance(action, ReloadCertificates):
            self.act(action.begin)
            if not action.paths or action.broker not in self.undelivered:
                self.act(action.record)
            return
        name = str(action.metadata["name"])
        there = self.objects.get(("Secret", name))
        had = there["view"]["listeners"] if there else {}
        kept = {listener: each for listener, each in had.items() if listener in action.keep}
        made = {
            listener: self.listener_sources[source].certificate
            for listener, (source, _) in action.sources.items()
        }
        metadata = {**action.metadata, "annotations": {names.ANN_WRITTEN: stamp(self.now)}}
        view: dict[str, Any] = {"fingerprint": None, "trust": [], "listeners": {**kept, **made}}
        self.put(
            {"kind": "Secret", "metadata": {**(there or {}).get("metadata", {}), **metadata}, "view": view}
        )

    def _turn(self, action: TurnCa) -> None:
        secret = self._guarded("Secret", action.secret, action.uid, action.resource_version)
        view = secret["view"]
        if action.step == "announce":
            view["following"] = action.source[1] if action.source else f"ca-{self._serial}"
        elif action.step == "switch":
            made = view.pop("following")
            view |= {"former": view["fingerprint"], "fingerprint": made, "issuer": made, "issued": self.now}
        else:
            view.pop("former")
        secret["metadata"].setdefault("annotations", {}).update(action.annotations)
        self.put(secret)

    # -- running -------------------------------------------------------------------------------------------------

    def reconcile(self, stop_after: int | None = None) -> ReconcilePlan:
        """One pass; dies after so many actions if told to."""
        made = plan(self.snapshot(), self.now)
        self.rejected = {key: why for key, why in self.rejected.items() if key[0] == "CreateTopic"}
        for count, action in enumerate(batch(made.actions)):
            if stop_after is not None and count >= stop_after:
                return made
            self.act(action)
        self.cluster["status"] |= copy.deepcopy(dict(made.status))
        # The report is guarded by what the pass has read, so what the pass itself has changed gets its status in the next one.
        changed = {a.object["metadata"]["name"] for a in made.actions if isinstance(a, Apply)}
        changed |= {a.name for a in made.actions if isinstance(a, Patch) and a.kind == "KafkaBroker"}
        patched = {a.name for a in made.actions if isinstance(a, Patch) and a.kind == "KafkaUser"}
        for name, status in made.broker_statuses.items():
            if ("KafkaBroker", name) in self.objects and name not in changed:
                broker = self.get("KafkaBroker", name)
                seen = {k: v for k, v in (broker.get("status") or {}).items() if k == "observed"}
                broker["status"] = {**copy.deepcopy(dict(status)), **seen}
        for name, status in made.user_statuses.items():
            if ("KafkaUser", name) in self.objects and name not in patched:
                self.get("KafkaUser", name)["status"] = copy.deepcopy(dict(status))
        for name, status in made.topic_statuses.items():
            if ("KafkaTopic", name) in self.objects:
                self.get("KafkaTopic", name)["status"] = copy.deepcopy(dict(status))
        for name, status in made.rebalance_statuses.items():
            if ("KafkaRebalance", name) in self.objects:
                self.get("KafkaRebalance", name)["status"] = copy.deepcopy(dict(status))
        return made

    def settle(self, passes: int = 60) -> ReconcilePlan:
        """Reconcile and breathe until a pass does nothing."""
        quiet = 0
        made = ReconcilePlan()
        for _ in range(passes):
            made = self.reconcile()
            quiet = 0 if made.actions else quiet + 1
            if quiet >= 6:
                return made
            self.breathe()
        raise AssertionError(f"not settled after {passes} passes: {[type(a).__name__ for a in made.actions]}")


_PLURALS = {
    "Node": "nodes",
    "Pod": "pods",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PersistentVolume": "persistentvolumes",
    "StorageClass": "storageclasses",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "KafkaBroker": "kafkabrokers",
    "KafkaUser": "kafkausers",
    "KafkaTopic": "kafkatopics",
    "NetworkPolicy": "networkpolicies",
    "TLSRoute": "tlsroutes",
    "KafkaRebalance": "kafkarebalances",
}


def kafka_state(pod: dict[str, Any]) -> dict[str, Any]:
    for entry in (pod.get("status") or {}).get("containerStatuses") or ():
        if entry["name"] == "kafka":
            return dict(entry["state"])
    return {}


def _labelled(obj: dict[str, Any]) -> bool:
    """Whether an object is listed: the operator lists by label."""
    return names.LABEL_CLUSTER in (obj["metadata"].get("labels") or {})


def _set_condition(pod: dict[str, Any], kind: str, value: bool) -> None:
    rows = [c for c in pod["status"].get("conditions") or () if c["type"] != kind]
    pod["status"]["conditions"] = [*rows, {"type": kind, "status": str(value)}]


def _set_ready(pod: dict[str, Any]) -> None:
    gate = any(
        c["type"] == names.READINESS_GATE and c["status"] == "True" for c in pod["status"]["conditions"]
    )
    _set_condition(pod, "Ready", gate and bool(kafka_state(pod).get("running")))


def _secret_view(secret: dict[str, Any]) -> SecretView:
    view = secret["view"]

    def certificate(fingerprint: str | None) -> Certificate | None:
        if fingerprint is None:
            return None
        ends, issued = view["issued"] + YEARS, view["issued"]
        servers = bool(view.get("servers"))
        return Certificate(view["cn"], tuple(view["dns"]), view["issuer"], fingerprint, ends, issued, servers)

    return SecretView(
        secret["metadata"],
        ("ca.crt", "keystore.pem", *(secret.get("data") or {})),
        certificate(view["fingerprint"]),
        tuple(view["trust"]),
        view.get("password"),
        certificate(view.get("following")),
        certificate(view.get("former")),
        view.get("listeners") or {},
    )
