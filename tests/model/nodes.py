"""The nodes of the model: what scheduler, volume binder, kubelet and preflight do by themselves, a step at a time."""

import json
from dataclasses import dataclass, field
from typing import Any

from spindle.api import names
from spindle.model.times import stamp
from tests.model.store import NAMESPACE, Store


@dataclass
class Nodes(Store):
    """A store with nodes that carry out what is in it."""

    formatted: dict[str, dict[str, Any]] = field(default_factory=dict)  # volume → identity on it
    formats: list[tuple[str, str]] = field(default_factory=list)
    unready: set[str] = field(default_factory=set)  # pods whose Kafka will run and not be ready

    def add_node(self, name: str, zone: str | None, disks: int) -> None:
        labels = {"kubernetes.io/hostname": name}
        if zone:
            labels["topology.kubernetes.io/zone"] = zone
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.put({"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": ready})
        for disk in range(disks):
            self.put(new_volume(f"{name}-disk{disk}", name, "local-disks", f"/mnt/disk{disk}"))

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
            elif (
                volume := self.objects.get(("PersistentVolume", str(claim["spec"].get("volumeName"))))
            ) is not None and not (volume["spec"].get("claimRef") or {}).get("uid"):
                self._tie(claim, volume)

    def _schedule(self, pod: dict[str, Any]) -> None:
        claims = [
            self.get("PersistentVolumeClaim", v["persistentVolumeClaim"]["claimName"])
            for v in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in v
        ]
        for node in self.all("Node"):
            if self._fits(pod, node, claims) and not self._kept_away(pod, node):
                for claim in claims:
                    self._bind(claim, node)
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                pod["status"] = {"phase": "Pending", "initContainerStatuses": [], "containerStatuses": []}
                self.put(pod)
                return
        apart = any(self._fits(pod, node, claims) for node in self.all("Node"))
        why = "didn't satisfy existing pods anti-affinity rules" if apart else "no persistent volume"
        told = {"type": "PodScheduled", "status": "False", "message": f"0 nodes: {why}"}
        pod["status"] = {"phase": "Pending", "conditions": [told]}
        self.put(pod)

    def _kept_away(self, pod: dict[str, Any], node: dict[str, Any]) -> bool:
        there = [p for p in self.all("Pod") if p["spec"].get("nodeName") == node["metadata"]["name"]]
        return any(keeps_away(pod, other) or keeps_away(other, pod) for other in there)

    def _fits(self, pod: dict[str, Any], node: dict[str, Any], claims: list[dict[str, Any]]) -> bool:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        if node["spec"].get("unschedulable") or node["status"]["conditions"][0]["status"] != "True":
            return False
        wanted = json.dumps(pod["spec"].get("affinity", {}).get("nodeAffinity", {}))
        zone = labels.get("topology.kubernetes.io/zone", "")
        if "topology.kubernetes.io/zone" in wanted and f'"{zone}"' not in wanted:
            return False
        if name in avoided(pod):
            return False
        if "metadata.name" in wanted and f'"{name}"' not in wanted:
            return False
        bound = [
            self.get("PersistentVolume", c["spec"]["volumeName"])
            for c in claims
            if c["spec"].get("volumeName")
        ]
        if any(host(volume) not in (None, name) for volume in bound):
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
            if host(v) == node
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
            name = f"pv-{claim['metadata']['name']}"
            while ("PersistentVolume", name) in self.objects or name in self.formatted:
                name += "-next"  # never that of another one
            volume = self.put(new_volume(name, node["metadata"]["name"], "standard", "/dyn"))
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
            status["initContainerStatuses"].append(
                ended("inspect", {"disks": self._inspect(pod), "nonce": nonce(pod)})
            )
        elif "preflight" not in init:
            if not self._preflight(pod):
                return
            status["initContainerStatuses"].append(ended("preflight", {}))
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
        clearances = answers(pod)
        ready = True
        for disk, volume in self._disks(pod):
            on_it = self.formatted.setdefault(volume, {})
            if on_it.get("id") == disk["directoryId"] and not on_it.get("state"):
                continue
            fs = on_it.get("fs", f"fs-{volume}")
            good = [c for c in clearances if c["directoryId"] == disk["directoryId"] and c["fsUuid"] == fs]
            if on_it.get("id") or on_it.get("state") or not good:
                ready = False
                continue
            on_it["id"] = disk["directoryId"]
            self.formats.append((volume, disk["directoryId"]))
        return ready


def nonce(pod: dict[str, Any]) -> str:
    """What a pod's look at its disks invented."""
    return f"look of {pod['metadata']['uid']}"


def answers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """The clearances on a pod that answer its own look."""
    given = json.loads(pod["metadata"]["annotations"].get(names.ANN_CLEARANCE, "[]"))
    mine = nonce(pod), pod["metadata"]["uid"]
    return [entry for entry in given if (entry.get("nonce"), entry.get("podUid")) == mine]


def avoided(pod: dict[str, Any]) -> set[str]:
    """Host names that the affinity of a pod excludes."""
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {"nodeSelectorTerms": []}
    parts = [part for term in required["nodeSelectorTerms"] for part in term.get("matchExpressions") or ()]
    return {
        host
        for part in parts
        if part["key"] == "kubernetes.io/hostname" and part["operator"] == "NotIn"
        for host in part["values"]
    }


def new_volume(name: str, node: str, storage_class: str, path: str) -> dict[str, Any]:
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


def keeps_away(pod: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the anti-affinity of a pod keeps another one off its node; the scheduler asks both for theirs."""
    apart = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    rules = apart.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    labels = other["metadata"].get("labels") or {}
    return any(
        all(labels.get(key) == value for key, value in rule["labelSelector"]["matchLabels"].items())
        for rule in rules
    )


def host(volume: dict[str, Any]) -> str | None:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(terms[0]["matchExpressions"][0]["values"][0])


def ended(name: str, message: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": 0, "message": json.dumps(message)}}}
