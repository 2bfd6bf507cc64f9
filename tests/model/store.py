"""The API server of the model: objects with their guards, what goes when its owner goes, volumes and their claims, budgets."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from spindle.api import names
from spindle.model.times import stamp

NAMESPACE = "kafka"
START = 1_790_000_000.0


class ConflictError(Exception):
    """An action whose guard did not hold."""


@dataclass
class Store:
    """Objects by (kind, name)."""

    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    now: float = START
    destroyed: list[str] = field(default_factory=list)  # volumes that went with their claim
    _serial: int = 0

    def put(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object as the API server would: uid, resourceVersion."""
        self._serial += 1
        fresh = copy.deepcopy(dict(obj))
        meta = fresh.setdefault("metadata", {})
        meta.setdefault("uid", f"uid-{fresh['kind']}-{meta['name']}-{self._serial}")
        meta["resourceVersion"] = str(self._serial)
        if fresh["kind"] in ("Secret", "KafkaUser", "KafkaTopic", "KafkaBroker"):
            old = self.objects.get((fresh["kind"], meta["name"]))
            created = old["metadata"]["creationTimestamp"] if old else stamp(self.now)
            meta.setdefault("creationTimestamp", created)
        self.objects[fresh["kind"], meta["name"]] = fresh
        return fresh

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.objects[kind, name]

    def all(self, kind: str) -> tuple[dict[str, Any], ...]:
        return tuple(obj for (k, _), obj in sorted(self.objects.items()) if k == kind)

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
        self.collect_garbage(meta["uid"])

    def collect_garbage(self, uid: str) -> None:
        """What belonged to one that is gone, and to nobody else, goes with it."""
        for key, obj in list(self.objects.items()):
            if [owner.get("uid") for owner in obj["metadata"].get("ownerReferences") or ()] == [uid]:
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

    def _in_budget(self, pod: dict[str, Any]) -> None:
        """What the API server asks before an eviction: enough others that are ready."""
        name = pod["metadata"]["labels"].get(names.LABEL_BUDGET)
        budget = self.objects.get(("PodDisruptionBudget", name)) if name else None
        if budget is None or pod.get("status", {}).get("phase") != "Running":
            return
        members = [p for p in self.all("Pod") if p["metadata"]["labels"].get(names.LABEL_BUDGET) == name]
        ready = sum(_ready(p) for p in members)
        if ready - _ready(pod) < budget["spec"]["minAvailable"]:
            raise ConflictError(f"{name}: it would violate the disruption budget")


def _ready(pod: dict[str, Any]) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions") or ()
    )


Path = tuple[str, ...]
_MANY_OWNERS = ("metadata", "spec", "data", "binaryData")


def owned_fields(obj: Mapping[str, Any]) -> frozenset[Path]:
    """The fields of an object that whoever writes it owns then: each leaf, a list as a whole."""
    parts = {key: value for key, value in obj.items() if key in _MANY_OWNERS}
    meta = {key: value for key, value in obj.get("metadata", {}).items() if key in ("labels", "annotations")}
    return frozenset(_leaves({**parts, "metadata": meta}, ()))


def handed_over(obj: Mapping[str, Any]) -> frozenset[Path]:
    """The fields of an object that the operator creates which its next apply removes if it leaves them out (`spindle_operator.ownership.taken_over`)."""
    if obj["kind"] == "KafkaBroker":
        return frozenset(path for path in owned_fields(obj) if path[0] == "spec")
    noted = ("metadata", "annotations")
    return frozenset(
        path for path in owned_fields(obj) if path[:2] != noted or not path[-1].startswith(f"{names.GROUP}/")
    )


def _leaves(value: Mapping[str, Any], at: Path) -> Iterator[Path]:
    for key, below in value.items():
        if isinstance(below, Mapping) and below:
            yield from _leaves(below, (*at, key))
        else:
            yield (*at, key)


def at(obj: Mapping[str, Any], path: Path) -> Any:
    """The value of a field; None without one."""
    for key in path:
        if not isinstance(obj, Mapping) or key not in obj:
            return None
        obj = obj[key]
    return obj


def without(live: Mapping[str, Any], fields: Iterable[Path]) -> dict[str, Any]:
    """An object without some of its fields, as server-side apply leaves it if their owner does not apply them any more."""
    result = copy.deepcopy(dict(live))
    for path in sorted(fields, key=len):
        part = at(result, path[:-1])
        if isinstance(part, dict) and not (isinstance(part.get(path[-1]), dict) and part[path[-1]]):
            part.pop(path[-1], None)  # in what was empty when it was applied, somebody may have put something
        for end in range(len(path) - 1, 1, -1):  # what is empty then goes as well
            if at(result, path[:end]) == {}:
                at(result, path[: end - 1]).pop(path[end - 1])
    return result


def merge(live: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch."""
    result = copy.deepcopy(dict(live))
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merge(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result
