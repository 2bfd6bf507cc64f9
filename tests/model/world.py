"""A model of a Kubernetes cluster with Kafka in it: just enough to carry out plans and see where they lead.

It serves the unit and property tests of the core. What is real is proven elsewhere, on a real API server and real Kafka.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from spindle.cluster import names
from spindle.cluster.rights import UserView
from spindle.cluster.view import Broker, KafkaView, LogDir, Partition, Quorum, Voter
from spindle.reconcile.actions import (
    Action,
    AlterUser,
    Apply,
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
    SetPassword,
    SetPodCondition,
    TurnCa,
)
from spindle.reconcile.plan import Plan, plan
from spindle.reconcile.snapshot import CaSource, Certificate, SecretView, Snapshot
from spindle.reconcile.times import stamp

NAMESPACE = "kafka"
START = 1_790_000_000.0
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


class ConflictError(Exception):
    """An action whose guard did not hold."""


@dataclass
class World:
    """Objects by (kind, name); Kafka's replicas by topic."""

    cluster: dict[str, Any] = field(default_factory=quickstart)
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    partitions: tuple[Partition, ...] = ()
    formatted: dict[str, dict[str, Any]] = field(default_factory=dict)  # volume → identity on it
    granted: bool = False
    ca_source: CaSource | None = None
    users: dict[str, UserView] = field(default_factory=dict)  # what Kafka knows of them
    kafka_up: bool = True
    offline: set[tuple[int, str]] = field(default_factory=set)  # (broker, disk) whose log dir Kafka gave up
    unknown: frozenset[str] = frozenset()
    unready: set[str] = field(default_factory=set)  # pods whose Kafka will run and not be ready
    now: float = START
    writes: int = 0
    formats: list[tuple[str, str]] = field(default_factory=list)
    destroyed: list[str] = field(default_factory=list)  # volumes that went with their claim
    _serial: int = 0
    _as_made: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

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
                }
            )
        for index, zone in enumerate(zones, 1):
            world.add_node(f"node{index}", None if zone == "-" else f"zone-{zone}", disks)
        return world

    def add_node(self, name: str, zone: str | None, disks: int) -> None:
        labels = {"kubernetes.io/hostname": name}
        if zone:
            labels["topology.kubernetes.io/zone"] = zone
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.put({"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": ready})
        for disk in range(disks):
            self.put(_volume(f"{name}-disk{disk}", name, "local-disks", f"/mnt/disk{disk}"))

    def put(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object as the API server would: uid, resourceVersion."""
        self._serial += 1
        fresh = copy.deepcopy(dict(obj))
        meta = fresh.setdefault("metadata", {})
        meta.setdefault("uid", f"uid-{fresh['kind']}-{meta['name']}-{self._serial}")
        meta["resourceVersion"] = str(self._serial)
        if fresh["kind"] in ("Secret", "KafkaUser"):
            old = self.objects.get((fresh["kind"], meta["name"]))
            created = old["metadata"]["creationTimestamp"] if old else stamp(self.now)
            meta.setdefault("creationTimestamp", created)
        self.objects[fresh["kind"], meta["name"]] = fresh
        return fresh

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.objects[kind, name]

    def all(self, kind: str) -> tuple[dict[str, Any], ...]:
        return tuple(obj for (k, _), obj in sorted(self.objects.items()) if k == kind)

    # -- observing -----------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return copy.deepcopy(self._snapshot())

    def _snapshot(self) -> Snapshot:
        self.cluster["metadata"]["resourceVersion"] = str(self._serial)
        pick = {kind: () if plural in self.unknown else self.all(kind) for kind, plural in _PLURALS.items()}
        return Snapshot(
            ca_source=self.ca_source,
            cluster=self.cluster,
            spindle_image="spindle:test",
            entropy=f"entropy-{self._serial}".encode().ljust(32, b"."),
            nodes=pick["Node"],
            pods=pick["Pod"],
            claims=pick["PersistentVolumeClaim"],
            volumes=pick["PersistentVolume"],
            storage_classes=pick["StorageClass"],
            services=pick["Service"],
            config_maps=pick["ConfigMap"],
            secrets=tuple(_secret_view(secret) for secret in pick["Secret"]),
            budgets=pick["PodDisruptionBudget"],
            brokers=pick["KafkaBroker"],
            users=pick["KafkaUser"],
            policies=pick["NetworkPolicy"],
            operator_namespace="spindle-system",
            rebalances=pick["KafkaRebalance"],
            kafka=self.kafka(),
            admin_granted=self.granted if self.kafka().brokers else None,
            unknown=self.unknown,
        )

    def running(self, role: str) -> list[int]:
        """Node ids whose Kafka runs."""
        return sorted(
            int(pod["metadata"]["labels"][names.LABEL_NODE_ID])
            for pod in self.all("Pod")
            if pod["metadata"]["labels"].get(names.LABEL_ROLE) == role and _kafka_state(pod).get("running")
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
        return KafkaView(
            cluster_id=identity["data"]["clusterId"] if identity else None,
            brokers={i: Broker(id=i, rack=None, fenced=False, log_dirs=self._log_dirs(i)) for i in brokers},
            partitions=self.partitions,
            min_isr={partition.topic: 2 for partition in self.partitions},
            users={
                name: self.users.get(name, UserView())
                for user in self.all("KafkaUser")
                for name in [user["metadata"]["name"]]
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
                if (obj["kind"], obj["metadata"]["name"]) in self.objects:
                    raise ConflictError(obj["metadata"]["name"])
                self._created(self.put(obj))
                self._as_made[obj["kind"], obj["metadata"]["name"]] = dict(obj.get("spec") or {})
            case Apply(object=obj):
                key = (obj["kind"], obj["metadata"]["name"])
                live, before = self.objects.get(key), self._as_made.get(key, {})
                for name in [f for f, value in before.items() if obj["spec"].get(f, value) != value]:
                    del before[name]
                self.put(_merge(_without_ours(live, obj, before), obj) if live else obj)
            case Patch():
                self._guarded(action.kind, action.name, action.uid, action.resource_version)
                self.put(_merge(self.get(action.kind, action.name), action.body))
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
                made = action.source[1] if action.source else "ca"
                self._secret(action.metadata, "ca", made, (), trust=(made,))
            case IssueCertificate():
                self._issue(action)
            case TurnCa():
                self._turn(action)
            case KeepPassword() | SetPassword() | AlterUser():
                self._user(action)
            case GrantAdmin():
                self.granted = True
            case Reassign() | ElectPreferred():
                self._order(action)

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
        self.users[action.user] = UserView(rights, has.scram and not action.drop_password, quotas)

    def _in_budget(self, pod: dict[str, Any]) -> None:
        """What the API server asks before an eviction: enough others that are ready."""
        name = pod["metadata"]["labels"].get(names.LABEL_BUDGET)
        budget = self.objects.get(("PodDisruptionBudget", name)) if name else None
        if budget is None or pod.get("status", {}).get("phase") != "Running":
            return
        members = [p for p in self.all("Pod") if p["metadata"]["labels"].get(names.LABEL_BUDGET) == name]
        ready = sum(_is_ready(p) for p in members)
        if ready - _is_ready(pod) < budget["spec"]["minAvailable"]:
            raise ConflictError(f"{name}: it would violate the disruption budget")

    def _guarded(self, kind: str, name: str, uid: str, version: str | None) -> dict[str, Any]:
        obj = self.objects.get((kind, name))
        if obj is None or obj["metadata"]["uid"] != uid:
            raise ConflictError(name)
        if version is not None and obj["metadata"]["resourceVersion"] != version:
            raise ConflictError(name)
        return obj

    def _collect(self, kind: str, name: str) -> None:
        meta = self.get(kind, name)["metadata"]
        if not meta.get("deletionTimestamp") or meta.get("finalizers"):
            return
        if kind == "PersistentVolumeClaim":
            if self._used(name):
                return
            self._let_go(self.get(kind, name))
        del self.objects[kind, name]
        for key, obj in list(self.objects.items()):  # what belonged to it alone goes with it
            if [owner.get("uid") for owner in obj["metadata"].get("ownerReferences") or ()] == [meta["uid"]]:
                del self.objects[key]

    def _used(self, claim: str) -> bool:
        """Whether a pod has it; then Kubernetes does not let it go."""
        return any(
            (v.get("persistentVolumeClaim") or {}).get("claimName") == claim
            for pod in self.all("Pod")
            for v in pod["spec"]["volumes"]
            if pod.get("status", {}).get("phase") != "Succeeded"
        )

    def _let_go(self, claim: dict[str, Any]) -> None:
        """What becomes of the volume of a claim that is gone."""
        volume = self.objects.get(("PersistentVolume", claim["spec"].get("volumeName", "")))
        if volume is None or volume["status"]["phase"] != "Bound":
            return
        if volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain":
            volume["status"]["phase"] = "Released"
            self.put(volume)
        else:
            self.destroyed.append(volume["metadata"]["name"])
            del self.objects["PersistentVolume", volume["metadata"]["name"]]

    def _freed(self, name: str) -> None:
        volume = self.get("PersistentVolume", name)
        if volume["status"]["phase"] == "Released" and not volume["spec"].get("claimRef"):
            volume["status"]["phase"] = "Available"

    def _created(self, obj: dict[str, Any]) -> None:
        if obj["kind"] == "PersistentVolumeClaim":
            obj["spec"].setdefault("storageClassName", "standard")
            obj["status"] = {"phase": "Pending"}
            if obj["spec"].get("volumeName"):  # is bound to that one, whether or not a pod asks for it
                self.get("PersistentVolume", obj["spec"]["volumeName"])["status"]["phase"] = "Bound"
                obj["status"] = {"phase": "Bound"}

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

    # -- what Kubernetes and preflight do by themselves -------------------------------------------------------------

    def breathe(self) -> None:
        """Let the scheduler, the volume binder, the kubelet, preflight and Kafka do their next step everywhere."""
        self.now += 5
        self._volumes()
        for pod in self.all("Pod"):
            if pod["metadata"].get("deletionTimestamp"):
                del self.objects["Pod", pod["metadata"]["name"]]
            elif not pod["spec"].get("nodeName"):
                self._schedule(pod)
            else:
                self._start(pod)

    def _volumes(self) -> None:
        """The volume controller: claims for which a volume is kept are bound, and those that nobody uses any more go."""
        for claim in self.all("PersistentVolumeClaim"):
            if claim["metadata"].get("deletionTimestamp"):
                self._collect("PersistentVolumeClaim", claim["metadata"]["name"])
            elif claim["status"]["phase"] == "Pending":
                kept = [v for v in self.all("PersistentVolume") if _kept_for(v, claim)]
                if kept:
                    self._tie(claim, kept[0])

    def _schedule(self, pod: dict[str, Any]) -> None:
        claims = [
            self.get("PersistentVolumeClaim", v["persistentVolumeClaim"]["claimName"])
            for v in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in v
        ]
        for node in self.all("Node"):
            if self._fits(pod, node, claims):
                for claim in claims:
                    self._bind(claim, node)
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                pod["status"] = {"phase": "Pending", "initContainerStatuses": [], "containerStatuses": []}
                self.put(pod)
                return
        pod["status"] = {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "message": "0 nodes: no persistent volume"}
            ],
        }
        self.put(pod)

    def _fits(self, pod: dict[str, Any], node: dict[str, Any], claims: list[dict[str, Any]]) -> bool:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        role = pod["metadata"]["labels"].get(names.LABEL_ROLE)
        taken = [p for p in self.all("Pod") if p["spec"].get("nodeName") == name]
        if role and any(p["metadata"]["labels"].get(names.LABEL_ROLE) == role for p in taken):
            return False
        if node["spec"].get("unschedulable") or node["status"]["conditions"][0]["status"] != "True":
            return False
        wanted = json.dumps(pod["spec"].get("affinity", {}).get("nodeAffinity", {}))
        zone = labels.get("topology.kubernetes.io/zone", "")
        if "topology.kubernetes.io/zone" in wanted and f'"{zone}"' not in wanted:
            return False
        if "metadata.name" in wanted and f'"{name}"' not in wanted:
            return False
        bound = [
            self.get("PersistentVolume", c["spec"]["volumeName"])
            for c in claims
            if c["spec"].get("volumeName")
        ]
        if any(_host(volume) not in (None, name) for volume in bound):
            return False
        local = [
            c
            for c in claims
            if not c["spec"].get("volumeName") and c["spec"]["storageClassName"] == "local-disks"
        ]
        return len(self._free(name)) >= len(local)

    def _free(self, node: str) -> list[dict[str, Any]]:
        return [
            v
            for v in self.all("PersistentVolume")
            if _host(v) == node
            and v["status"]["phase"] == "Available"
            and not v["spec"].get("claimRef")
            and v["spec"]["storageClassName"] == "local-disks"
        ]

    def _bind(self, claim: dict[str, Any], node: dict[str, Any]) -> None:
        if claim["spec"].get("volumeName"):
            return
        if claim["spec"]["storageClassName"] == "local-disks":
            volume = self._free(node["metadata"]["name"])[0]
        else:
            volume = self.put(
                _volume(f"pv-{claim['metadata']['name']}", node["metadata"]["name"], "standard", "/dyn")
            )
        self._tie(claim, volume)

    def _tie(self, claim: dict[str, Any], volume: dict[str, Any]) -> None:
        volume["status"]["phase"] = "Bound"
        volume["spec"]["claimRef"] = {
            "namespace": NAMESPACE,
            "name": claim["metadata"]["name"],
            "uid": claim["metadata"]["uid"],
        }
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        claim["status"] = {"phase": "Bound", "capacity": dict(volume["spec"]["capacity"])}
        self.put(volume)
        self.put(claim)

    def _start(self, pod: dict[str, Any]) -> None:
        """inspect, then preflight, then Kafka: one step at a time."""
        status = pod["status"]
        if names.LABEL_ROLE not in pod["metadata"]["labels"]:
            status["phase"] = "Succeeded"  # a pod that only asks for a volume
            self.put(pod)
            return
        init = {entry["name"]: entry for entry in status["initContainerStatuses"]}
        if "inspect" not in init:
            status["initContainerStatuses"].append(_ended("inspect", {"disks": self._inspect(pod)}))
        elif "preflight" not in init:
            if not self._preflight(pod):
                return
            status["initContainerStatuses"].append(_ended("preflight", {}))
        elif not status["containerStatuses"]:
            status["containerStatuses"].append(
                {
                    "name": "kafka",
                    "state": {"running": {"startedAt": stamp(self.now)}},
                    "restartCount": 0,
                    "ready": pod["metadata"]["name"] not in self.unready,
                }
            )
            status["phase"] = "Running"
        else:
            return
        self.put(pod)

    def _disks(self, pod: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
        claims = {
            v["persistentVolumeClaim"]["claimName"]
            for v in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in v
        }
        found = []
        for disk in json.loads(pod["metadata"]["annotations"][names.ANN_DISKS]):
            node_id = pod["metadata"]["labels"][names.LABEL_NODE_ID]
            claim = names.claim_name("demo", int(node_id), disk["name"])
            if claim in claims:
                found.append((disk, self.get("PersistentVolumeClaim", claim)["spec"]["volumeName"]))
        return found

    def _inspect(self, pod: dict[str, Any]) -> list[dict[str, Any]]:
        report = []
        for disk, volume in self._disks(pod):
            on_it = self.formatted.get(volume, {})
            state = on_it.get("state") or (
                "blank"
                if not on_it.get("id")
                else "ours"
                if on_it["id"] == disk["directoryId"]
                else "foreign"
            )
            report.append(
                {
                    "name": disk["name"],
                    "state": state,
                    "fsUuid": on_it.get("fs", f"fs-{volume}"),
                    "mount": f"/dev/{volume}",
                }
            )
        return report

    def _preflight(self, pod: dict[str, Any]) -> bool:
        """Format what is cleared; True when every disk is ours."""
        clearances = json.loads(pod["metadata"]["annotations"].get(names.ANN_CLEARANCE, "[]"))
        ready = True
        for disk, volume in self._disks(pod):
            on_it = self.formatted.setdefault(volume, {})
            if on_it.get("id") == disk["directoryId"] and not on_it.get("state"):
                continue
            fs = on_it.get("fs", f"fs-{volume}")
            good = [c for c in clearances if c["directoryId"] == disk["directoryId"] and c["fsUuid"] == fs]
            if on_it.get("id") or on_it.get("state") or not good or good[0]["expires"] < self.now:
                ready = False
                continue
            on_it["id"] = disk["directoryId"]
            self.formats.append((volume, disk["directoryId"]))
        return ready

    # -- running -------------------------------------------------------------------------------------------------

    def reconcile(self, stop_after: int | None = None) -> Plan:
        """One pass; dies after so many actions if told to."""
        made = plan(self.snapshot(), self.now)
        for count, action in enumerate(made.actions):
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
        for name, status in made.rebalance_statuses.items():
            if ("KafkaRebalance", name) in self.objects:
                self.get("KafkaRebalance", name)["status"] = copy.deepcopy(dict(status))
        return made

    def settle(self, passes: int = 60) -> Plan:
        """Reconcile and breathe until a pass does nothing."""
        quiet = 0
        made = Plan()
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
    "NetworkPolicy": "networkpolicies",
    "KafkaRebalance": "kafkarebalances",
}


def _volume(name: str, node: str, storage_class: str, path: str) -> dict[str, Any]:
    affinity = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [affinity]}},
        },
        "status": {"phase": "Available"},
    }


def _kept_for(volume: dict[str, Any], claim: dict[str, Any]) -> bool:
    ref = volume["spec"].get("claimRef") or {}
    return (
        ref.get("name") == claim["metadata"]["name"]
        and not ref.get("uid")
        and claim["spec"].get("volumeName") in (None, volume["metadata"]["name"])
    )


def _host(volume: dict[str, Any]) -> str | None:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(terms[0]["matchExpressions"][0]["values"][0])


def _ended(name: str, message: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": 0, "message": json.dumps(message)}}}


def _kafka_state(pod: dict[str, Any]) -> dict[str, Any]:
    for entry in (pod.get("status") or {}).get("containerStatuses") or ():
        if entry["name"] == "kafka":
            return dict(entry["state"])
    return {}


def _set_condition(pod: dict[str, Any], kind: str, value: bool) -> None:
    rows = [c for c in pod["status"].get("conditions") or () if c["type"] != kind]
    pod["status"]["conditions"] = [*rows, {"type": kind, "status": str(value)}]


def _is_ready(pod: dict[str, Any]) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions") or ()
    )


def _set_ready(pod: dict[str, Any]) -> None:
    gate = any(
        c["type"] == names.READINESS_GATE and c["status"] == "True" for c in pod["status"]["conditions"]
    )
    _set_condition(pod, "Ready", gate and bool(_kafka_state(pod).get("running")))


def _without_ours(live: Mapping[str, Any], obj: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """What we applied before and leave out now goes, as server-side apply has it; a person's fields stay.

    So do those that it was created with (``made``) and that no apply has given another value since: creation is another owner.
    """
    result = copy.deepcopy(dict(live))
    if obj["kind"] == "KafkaBroker":
        kept = (
            "stopped",
            "nodeGone",
            "wishes",
            "goesFirst",
            *made,
            *(key for key in obj["spec"] if key not in ("thresholds", "scrub")),
        )
        result["spec"] = {key: value for key, value in result["spec"].items() if key in kept}
    return result


def _merge(live: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch."""
    result = copy.deepcopy(dict(live))
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = _merge(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _secret_view(secret: dict[str, Any]) -> SecretView:
    view = secret["view"]

    def certificate(fingerprint: str | None) -> Certificate | None:
        if fingerprint is None:
            return None
        ends, issued = view["issued"] + YEARS, view["issued"]
        return Certificate(view["cn"], tuple(view["dns"]), view["issuer"], fingerprint, ends, issued)

    return SecretView(
        secret["metadata"],
        ("ca.crt", "keystore.pem"),
        certificate(view["fingerprint"]),
        tuple(view["trust"]),
        view.get("password"),
        certificate(view.get("following")),
        certificate(view.get("former")),
    )
