"""The controllers of Kubernetes: scheduling, volume binding, garbage collection, node lifecycle."""

from dataclasses import dataclass, field
from typing import Any

from tests.sim.api import NAMESPACE, Api, Json
from tests.sim.kernel import Kernel

_LOCAL = "kubernetes.io/no-provisioner"
_HOSTNAME = "kubernetes.io/hostname"
_NOT_READY_AFTER = 40.0
_POD_GC = 45.0


@dataclass
class Controllers:
    """Each reacts to changes, with a short delay."""

    kernel: Kernel
    api: Api
    heard: dict[str, float] = field(default_factory=dict)  # node → time of its kubelet's last heartbeat
    on_volume_made: Any = None
    on_volume_lost: Any = None
    _due: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.api.watchers.append(self._changed)
        self.kernel.call_later(10.0, self._nodes)

    def _changed(self, event: str, kind: str, obj: Json) -> None:
        if event == "DELETED":
            self._soon("collect", self._collect, 0.3)
        if kind in ("Pod", "PersistentVolumeClaim", "PersistentVolume", "Node", "StorageClass"):
            self._soon("volumes", self._volumes, 0.1)
            self._soon("schedule", self._schedule, 0.2)

    def _soon(self, what: str, do: Any, least: float) -> None:
        """Run once, with a short delay, however many changes there are until then."""
        if what in self._due:
            return
        self._due.add(what)

        def run() -> None:
            self._due.discard(what)
            if self.api.away:
                self._soon(what, do, 1.0)
            else:
                do()

        self.kernel.call_later(least * (1 + self.kernel.rng.random()), run)

    # -- owners

    def _collect(self) -> None:
        alive = {obj["metadata"]["uid"] for held in self.api.objects.values() for obj in held.values()}
        for kind in sorted(self.api.objects):
            for obj in self.api.all(kind):
                owners = [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()]
                if owners and not alive.intersection(owners) and not obj["metadata"].get("deletionTimestamp"):
                    self.api.remove(obj)

    # -- volumes

    def _volumes(self) -> None:
        pods = self.api.all("Pod")
        # A pod protects its claims only once it is scheduled (`podUsesPVC` in Kubernetes).
        used = {
            claim
            for pod in pods
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed")
            for claim in claims_of(pod)
        }
        for claim in self.api.all("PersistentVolumeClaim"):
            meta = claim["metadata"]
            if meta.get("deletionTimestamp"):
                if meta["name"] not in used:
                    self._let_go(claim)
            elif claim["status"].get("phase") == "Pending":
                self._bind_kept(claim)
            elif self._lost(claim):
                self.api.change(claim, {"status": {"phase": "Lost"}})
        for volume in self.api.all("PersistentVolume"):
            self._settle(volume)

    def _lost(self, claim: Json) -> bool:
        gone = self.api.get("PersistentVolume", claim["spec"].get("volumeName", "")) is None
        return gone and claim["status"].get("phase") != "Lost"

    def _bind_kept(self, claim: Json) -> None:
        named = claim["spec"].get("volumeName")
        for volume in self.api.all("PersistentVolume"):
            ref = volume["spec"].get("claimRef") or {}
            mine = (
                ref.get("name") == claim["metadata"]["name"] and ref.get("namespace", NAMESPACE) == NAMESPACE
            )
            if (
                mine
                and ref.get("uid") in (None, claim["metadata"]["uid"])
                and named in (None, volume["metadata"]["name"])
            ):
                self.tie(claim, volume)
                return
            if named == volume["metadata"]["name"] and not ref:
                self.tie(claim, volume)
                return

    def tie(self, claim: Json, volume: Json) -> None:
        """Bind a claim to a volume."""
        ref = {"namespace": NAMESPACE, "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]}
        ref["fieldPath"] = None  # Kubernetes replaces the reference
        self.api.change(volume, {"spec": {"claimRef": ref}, "status": {"phase": "Bound"}})
        self.api.change(
            claim,
            {
                "spec": {"volumeName": volume["metadata"]["name"]},
                "status": {"phase": "Bound", "capacity": volume["spec"]["capacity"]},
            },
        )

    def _settle(self, volume: Json) -> None:
        ref, phase = volume["spec"].get("claimRef"), volume["status"].get("phase")
        if volume["metadata"].get("deletionTimestamp"):
            if not ref or self._claim_of(volume) is None:
                self.api.change(volume, {"metadata": {"finalizers": None}})
            return
        if not ref:
            if phase != "Available":
                self.api.change(volume, {"status": {"phase": "Available"}})
        elif ref.get("uid") and self._claim_of(volume) is None and phase == "Bound":
            if volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain":
                self.api.change(volume, {"status": {"phase": "Released"}})
            elif self.on_volume_lost is not None:
                self.on_volume_lost(volume)

    def _claim_of(self, volume: Json) -> Json | None:
        ref = volume["spec"].get("claimRef") or {}
        claim = self.api.get("PersistentVolumeClaim", ref.get("name", ""))
        return claim if claim is not None and ref.get("uid") in (None, claim["metadata"]["uid"]) else None

    def _let_go(self, claim: Json) -> None:
        left = [f for f in claim["metadata"].get("finalizers") or () if f != "kubernetes.io/pvc-protection"]
        self.api.change(claim, {"metadata": {"finalizers": left or None}})

    # -- scheduling

    def _schedule(self) -> None:
        for pod in self.api.all("Pod"):
            if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
                continue
            claims = [self.api.get("PersistentVolumeClaim", name) for name in claims_of(pod)]
            found = None
            if None not in claims and not any(c["metadata"].get("deletionTimestamp") for c in claims if c):
                nodes = self.api.all("Node")
                self.kernel.rng.shuffle(nodes)
                found = next((node for node in nodes if self._fits(pod, node, claims)), None)
            if found is None:
                self._unschedulable(pod)
                continue
            for claim in claims:
                self._bind_on(claim, found)
            if all(self._is_bound(name) for name in claims_of(pod)):
                self.api.change(pod, {"spec": {"nodeName": found["metadata"]["name"]}})

    def _is_bound(self, name: str) -> bool:
        claim = self.api.get("PersistentVolumeClaim", name)
        return claim is not None and claim["status"]["phase"] == "Bound"

    def _unschedulable(self, pod: Json) -> None:
        missing = [c for c in claims_of(pod) if self.api.get("PersistentVolumeClaim", c) is None]
        text = (
            f'persistentvolumeclaim "{missing[0]}" not found'
            if missing
            else "0/9 nodes are available: none fits."
        )
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
        if pod["status"].get("conditions") != [told]:
            self.api.change(pod, {"status": {"conditions": [told]}})

    def _fits(self, pod: Json, node: Json, claims: list[Any]) -> bool:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        if node["spec"].get("unschedulable") or not _ready(node):
            return False
        if not _tolerates(pod, node):
            return False
        affinity = pod["spec"].get("affinity") or {}
        required = (affinity.get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or {}
        terms = required.get("nodeSelectorTerms")
        if terms and not any(_term(term, labels, name) for term in terms):
            return False
        if any(labels.get(k) != v for k, v in (pod["spec"].get("nodeSelector") or {}).items()):
            return False
        for other in self.api.all("Pod"):
            if other["spec"].get("nodeName") == name and (_apart(pod, other) or _apart(other, pod)):
                return False
        local = 0
        for claim in claims:
            volume = self.api.get("PersistentVolume", claim["spec"].get("volumeName", ""))
            if claim["spec"].get("volumeName") and volume is None:
                return False
            if volume is not None and host_of(volume) not in (None, name):
                return False
            if volume is None and self._is_local(claim):
                local += 1
        return len(self.free(name)) >= local

    def _is_local(self, claim: Json) -> bool:
        found = self.api.get("StorageClass", claim["spec"].get("storageClassName") or "standard")
        return found is not None and found.get("provisioner") == _LOCAL

    def free(self, node: str) -> list[Json]:
        """Free local volumes of a node."""
        return [
            v
            for v in self.api.all("PersistentVolume")
            if host_of(v) == node
            and v["status"].get("phase") == "Available"
            and not v["spec"].get("claimRef")
            and v["spec"]["storageClassName"] == "local-disks"
        ]

    def _bind_on(self, claim: Any, node: Json) -> None:
        claim = self.api.get("PersistentVolumeClaim", claim["metadata"]["name"])
        if claim["status"]["phase"] == "Bound":
            return
        if claim["spec"].get("volumeName"):
            self._bind_kept(claim)
            return
        name = node["metadata"]["name"]
        if self._is_local(claim):
            self.tie(claim, self.free(name)[0])
        else:
            self.tie(claim, self.on_volume_made(claim, name))

    # -- nodes

    def _nodes(self) -> None:
        self.kernel.call_later(10.0, self._nodes)
        if self.api.away:
            return
        for node in self.api.all("Node"):
            name = node["metadata"]["name"]
            silent = self.kernel.now - self.heard.get(name, self.kernel.now) > _NOT_READY_AFTER
            if silent == _ready(node):
                self._told(node, silent=silent)
            if silent and any(
                t["key"] == "node.kubernetes.io/out-of-service" for t in node["spec"].get("taints") or ()
            ):
                self._force_away(name)
        known = {node["metadata"]["name"] for node in self.api.all("Node")}
        for pod in self.api.all("Pod"):
            where = pod["spec"].get("nodeName")
            if where and where not in known and self.kernel.now - self.heard.get(where, 0.0) > _POD_GC:
                self.api.remove(pod, grace=0)

    def _told(self, node: Json, *, silent: bool) -> None:
        status = "Unknown" if silent else "True"
        taints = [t for t in node["spec"].get("taints") or () if t["key"] != "node.kubernetes.io/unreachable"]
        if silent:
            taints += [
                {"key": "node.kubernetes.io/unreachable", "effect": effect}
                for effect in ("NoSchedule", "NoExecute")
            ]
        self.api.change(
            node,
            {
                "status": {
                    "conditions": [
                        {"type": "Ready", "status": status, "lastTransitionTime": self.api.stamp()}
                    ]
                },
                "spec": {"taints": taints or None},
            },
        )
        if silent:
            for pod in self.api.all("Pod"):
                if pod["spec"].get("nodeName") == node["metadata"]["name"]:
                    set_condition(self.api, pod, "Ready", "False")

    def _force_away(self, node: str) -> None:
        for pod in self.api.all("Pod"):
            if pod["spec"].get("nodeName") == node:
                self.api.remove(pod, grace=0)


def set_condition(api: Api, pod: Json, what: str, status: str) -> None:
    """Set one condition of a pod's current object."""
    live = api.get("Pod", pod["metadata"]["name"])
    if live is None or live["metadata"]["uid"] != pod["metadata"]["uid"]:
        return
    held = live["status"].get("conditions") or []
    if any(c["type"] == what and c["status"] == status for c in held):
        return
    kept = [c for c in held if c["type"] != what]
    made = [*kept, {"type": what, "status": status, "lastTransitionTime": api.stamp()}]
    api.change(live, {"status": {"conditions": made}})


def claims_of(pod: Json) -> list[str]:
    """Names of the claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v]


def host_of(volume: Json) -> str | None:
    """The node that a volume is pinned to."""
    terms = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        for entry in term["matchExpressions"]:
            if entry["key"] == _HOSTNAME:
                return str(entry["values"][0])
    return None


def _ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _apart(pod: Json, other: Json) -> bool:
    """Whether the anti-affinity of a pod keeps another one off its node; the scheduler asks both for theirs."""
    affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    labels = other["metadata"].get("labels") or {}
    return any(
        all(labels.get(k) == v for k, v in rule["labelSelector"]["matchLabels"].items())
        for rule in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    )


def _tolerates(pod: Json, node: Json) -> bool:
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] == "PreferNoSchedule":
            continue
        wanted = pod["spec"].get("tolerations") or ()
        if not any(
            t.get("key") in (None, taint["key"]) and t.get("effect") in (None, taint["effect"])
            for t in wanted
        ):
            return False
    return True


def _term(term: Json, labels: Json, name: str) -> bool:
    for entry in term.get("matchExpressions") or ():
        value = labels.get(entry["key"])
        inside = value in entry.get("values", ())
        if (entry["operator"] == "In" and not inside) or (entry["operator"] == "NotIn" and inside):
            return False
    return all(name in entry["values"] for entry in term.get("matchFields") or ())
