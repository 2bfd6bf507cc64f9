"""The API server: objects with versions and field owners, preconditions, finalizers, evictions, selectors, pages, watches.

Its objects are never changed in place, so a caller may keep one.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from spindle_operator.kinds import KINDS, Kind
from tests.sim import fields
from tests.sim.kernel import Kernel

Json = dict[str, Any]
Name = tuple[str, str]  # namespace (empty for none) and name
Watcher = Callable[[str, str, Json], None]  # type of the event, kind, object

NAMESPACE = "kafka"
SYSTEM = "spindle-system"
_BY_PLURAL: dict[str, Kind] = {kind.plural: kind for kind in KINDS.values()}
_OWN_STATUS = frozenset(
    {"Pod", "PersistentVolumeClaim", "PersistentVolume", "Node", "PodDisruptionBudget", "Job", "CronJob"}
)
_OWNERS_TOLD = frozenset(  # kinds that are applied: field owners of other kinds are not needed
    {
        *(
            "KafkaBroker",
            "Service",
            "ConfigMap",
            "Secret",
            "PodDisruptionBudget",
            "NetworkPolicy",
            "TLSRoute",
        ),
        *("ServiceAccount", "Role", "RoleBinding", "CronJob"),
    }
)
_UNTRACKED = frozenset({"Lease", "Event", "Node", "Pod"})  # kinds without field owners


class Refused(Exception):  # noqa: N818 - it is an answer
    """An error response."""

    def __init__(self, status: int, reason: str, message: str, causes: tuple[str, ...] = ()) -> None:
        super().__init__(f"{reason}: {message}")
        self.status, self.reason, self.message, self.causes = status, reason, message, causes


@dataclass
class Request:
    """One incoming request."""

    who: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"


@dataclass
class Api:
    """The server. `handle` answers one request at once; delays and losses are simulated by the callers."""

    kernel: Kernel
    objects: dict[str, dict[Name, Json]] = field(default_factory=dict)
    watchers: list[Watcher] = field(default_factory=list)
    posted: list[Json] = field(default_factory=list)  # events, which only users read
    away: bool = False
    on_down: Callable[[Json, str, str], None] = lambda *_: (
        None
    )  # an eviction of a pod was requested: by whom, and how
    on_write: Callable[[str, str, Json, Json | None], None] = lambda *_: (
        None
    )  # an existing object was written: by whom, how, before, after
    _owners: dict[str, fields.Owners] = field(default_factory=dict)  # by UID
    _serial: int = 1000
    _uids: int = 0

    # -- for other parts of the simulation

    def all(self, kind: str) -> list[Json]:
        """All objects of a kind, sorted by name."""
        held = self.objects.get(kind, {})
        return [held[name] for name in sorted(held)]

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Json | None:
        """One object."""
        return self.objects.get(kind, {}).get((namespace if KINDS[kind].namespaced else "", name))

    def put(self, obj: Mapping[str, Any], *, manager: str = "kubernetes") -> Json:
        """Create or replace without preconditions, for other parts of the simulation."""
        made: Json = json.loads(json.dumps(obj))
        live = self.objects.get(made["kind"], {}).get(_name(made))
        if live is None:
            return self._create(made, manager)
        return self._store(live, made, manager)

    def change(self, obj: Json, body: Json, *, manager: str = "kubernetes") -> Json | None:
        """Merge into the current object; None if it does not exist."""
        live = self.objects.get(obj["kind"], {}).get(_name(obj))
        if live is None or live["metadata"]["uid"] != obj["metadata"]["uid"]:
            return None
        after = fields.merged(live, json.loads(json.dumps(body)))
        return live if after == live else self._store(live, after, manager)

    def remove(self, obj: Json, *, grace: int | None = None) -> None:
        """Delete as an administrator."""
        live = self.objects.get(obj["kind"], {}).get(_name(obj))
        if live is not None and live["metadata"]["uid"] == obj["metadata"]["uid"]:
            self._delete(live, grace)

    def stamp(self, ahead: float = 0.0) -> str:
        """The server's time, or that of a client whose clock is ahead."""
        return datetime.fromtimestamp(int(self.kernel.now + ahead), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    # -- requests

    def handle(self, request: Request) -> Json:
        """Execute a request.

        Raises:
            Refused: it is rejected.
        """
        before = None if request.method == "GET" else self._there(request.path)
        answer = self._handle(request)
        if before is not None:
            kind, name = before["kind"], _name(before)
            self.on_write(request.who, request.method, before, self.objects[kind].get(name))
        if request.method in ("POST", "PATCH") and answer.get("kind") in _OWNERS_TOLD:
            owners = self._owners.get(answer["metadata"]["uid"], {})
            return {**answer, "metadata": {**answer["metadata"], "managedFields": fields.managed(owners)}}
        return answer

    def _there(self, path: str) -> Json | None:
        """The object that a request names, if it exists."""
        kind, namespace, name, _ = parse(path)
        if kind is None or name is None:
            return None
        return self.objects.get(kind.kind, {}).get((namespace or "" if kind.namespaced else "", name))

    def _handle(self, request: Request) -> Json:
        kind, namespace, name, sub = parse(request.path)
        if kind is None:
            return {}
        if request.method == "GET":
            return self._read(kind, namespace, name, request)
        body = json.loads(json.dumps(request.body, default=_plain))
        manager = str(request.query.get("fieldManager", request.who))
        if request.method == "POST":
            if sub == "eviction":
                return self._evict(namespace or "", name or "", body, request.who)
            body.setdefault("apiVersion", kind.api_version)
            body.setdefault("kind", kind.kind)
            if kind.namespaced:
                body["metadata"].setdefault("namespace", namespace)
            if kind.kind in _OWN_STATUS or kind.kind.startswith("Kafka"):
                body.pop("status", None)
            return self._create(body, manager)
        key = (namespace or "" if kind.namespaced else "", name or "")
        live = self.objects.get(kind.kind, {}).get(key)
        if request.method == "PATCH" and "apply" in request.content_type:
            return self._apply(kind, key, live, body, manager, sub)
        if live is None:
            raise Refused(404, "NotFound", f'{kind.plural} "{name}" not found')
        if request.method == "DELETE":
            uid = (body or {}).get("preconditions", {}).get("uid")
            if uid not in (None, live["metadata"]["uid"]):
                raise Refused(409, "Conflict", f"the UID in the precondition ({uid}) does not match")
            if live["kind"] == "Pod":
                self.on_down(live, request.who, "deletion")
            self._delete(live, (body or {}).get("gracePeriodSeconds"))
            return {}
        if request.method == "PUT":
            _guard(live, body)
            return self._store(live, body, manager)
        return self._patch(kind, live, body, manager, sub, strategic="strategic" in request.content_type)

    def _read(self, kind: Kind, namespace: str | None, name: str | None, request: Request) -> Json:
        held = self.objects.get(kind.kind, {})
        if name is not None:
            found = held.get((namespace or "" if kind.namespaced else "", name))
            if found is None:
                raise Refused(404, "NotFound", f'{kind.plural} "{name}" not found')
            return found
        selector = request.query.get("labelSelector")
        items = [
            held[key]
            for key in sorted(held)
            if (namespace in (None, key[0]))
            and _matches(held[key], selector)
            and _selected(held[key], request)
        ]
        limit, start = int(request.query.get("limit", 0)), int(request.query.get("continue", 0) or 0)
        meta: Json = {"resourceVersion": str(self._serial)}
        if limit and start + limit < len(items):
            meta["continue"] = str(start + limit)
        items = items[start : start + limit] if limit else items
        if "PartialObjectMetadata" in request.accept:
            items = [{"metadata": item["metadata"]} for item in items]
        return {"metadata": meta, "items": items}

    def _apply(
        self, kind: Kind, key: Name, live: Json | None, body: Json, manager: str, sub: str | None
    ) -> Json:
        wanted = body["metadata"]
        if live is None:
            if sub or wanted.get("resourceVersion") or wanted.get("uid"):
                raise Refused(404, "NotFound", f'{kind.plural} "{key[1]}" not found')
            body["metadata"] = {k: v for k, v in wanted.items() if k not in ("uid", "resourceVersion")}
            if kind.namespaced:
                body["metadata"]["namespace"] = key[0]
            if kind.kind.startswith("Kafka"):
                body.pop("status", None)
            made = self._create(body, "")
            self._owners[made["metadata"]["uid"]] = {(manager, "Apply "): set(fields.leaves(kind.kind, body))}
            return made
        _guard(live, body)
        owners = self._owners.setdefault(live["metadata"]["uid"], {})
        if not sub and kind.kind.startswith("Kafka"):
            body.pop("status", None)
        after = fields.applied(kind.kind, live, body, owners, manager, only=sub or "")
        return live if after == live else self._store(live, after, "")

    def _patch(
        self, kind: Kind, live: Json, body: Json, manager: str, sub: str | None, *, strategic: bool
    ) -> Json:
        _guard(live, body)
        meta = {k: v for k, v in (body.get("metadata") or {}).items() if k not in ("uid", "resourceVersion")}
        if (managed := meta.pop("managedFields", None)) is not None:
            self._owners[live["metadata"]["uid"]] = fields.reassigned(managed)
            return self._keep("MODIFIED", {**live, "metadata": dict(live["metadata"])})
        change = {**body, "metadata": meta} if meta else {k: v for k, v in body.items() if k != "metadata"}
        if sub == "status":
            change = {k: v for k, v in change.items() if k == "status"}
        elif kind.kind in _OWN_STATUS or kind.kind.startswith("Kafka"):
            change.pop("status", None)
        if strategic:
            change = _by_type(live, change)
        after = fields.merged(live, change)
        return live if after == live else self._store(live, after, manager)

    def _create(self, obj: Json, manager: str) -> Json:
        meta = obj["metadata"]
        if obj["kind"] == "Event":
            self.posted.append(obj)
            return obj
        if "name" not in meta:
            meta["name"] = f"{meta['generateName']}{self._serial}"
        held = self.objects.setdefault(obj["kind"], {})
        if _name(obj) in held:
            raise Refused(
                409, "AlreadyExists", f'{KINDS[obj["kind"]].plural} "{meta["name"]}" already exists'
            )
        self._uids += 1
        meta = {
            **{k: v for k, v in meta.items() if k not in ("resourceVersion", "deletionTimestamp")},
            "uid": f"uid-{self._uids:05d}",
            "creationTimestamp": self.stamp(),
            "generation": 1,
        }
        obj = {**obj, "metadata": meta}
        if obj["kind"] == "PersistentVolumeClaim":
            meta["finalizers"] = [*(meta.get("finalizers") or []), "kubernetes.io/pvc-protection"]
            obj.setdefault("status", {"phase": "Pending"})
        elif obj["kind"] == "Pod":
            obj.setdefault("status", {"phase": "Pending"})
        if manager and obj["kind"] not in _UNTRACKED:
            fields.updated(obj["kind"], {}, obj, self._owners.setdefault(meta["uid"], {}), manager)
        return self._keep("ADDED", obj)

    def _store(self, live: Json, after: Json, manager: str) -> Json:
        kept = ("uid", "creationTimestamp", "name", "namespace", "deletionTimestamp", "generation")
        meta = {
            **{k: v for k, v in after["metadata"].items() if k not in kept},
            **{k: v for k, v in live["metadata"].items() if k in kept},
        }
        if after.get("spec") != live.get("spec"):
            meta["generation"] = live["metadata"].get("generation", 1) + 1
        after = {**after, "metadata": meta}
        if manager and after["kind"] not in _UNTRACKED:
            fields.updated(after["kind"], live, after, self._owners.setdefault(meta["uid"], {}), manager)
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and after["kind"] != "Pod":
            return self._drop(after)
        return self._keep("MODIFIED", after)

    def _delete(self, live: Json, grace: int | None) -> None:
        meta = dict(live["metadata"])
        scheduled = live["kind"] == "Pod" and live["spec"].get("nodeName")
        if scheduled and grace != 0:
            told = live["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
            told = min(told, meta.get("deletionGracePeriodSeconds", told))
            if meta.get("deletionGracePeriodSeconds") != told:
                # Kubernetes adds the grace period to the time of the request.
                meta["deletionTimestamp"] = self.stamp(float(told))
                meta["deletionGracePeriodSeconds"] = told
                self._keep("MODIFIED", {**live, "metadata": meta})
            return
        if meta.get("finalizers"):
            if not meta.get("deletionTimestamp"):
                meta["deletionTimestamp"] = self.stamp()
                self._keep("MODIFIED", {**live, "metadata": meta})
            return
        self._drop(live)

    def _drop(self, obj: Json) -> Json:
        self._serial += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._serial)}}
        self.objects[obj["kind"]].pop(_name(obj), None)
        self._owners.pop(obj["metadata"]["uid"], None)
        self._tell("DELETED", obj)
        return obj

    def _keep(self, event: str, obj: Json) -> Json:
        self._serial += 1
        obj["metadata"]["resourceVersion"] = str(self._serial)
        self.objects.setdefault(obj["kind"], {})[_name(obj)] = obj
        self._tell(event, obj)
        return obj

    def _tell(self, event: str, obj: Json) -> None:
        for watcher in self.watchers:
            watcher(event, obj["kind"], obj)

    def _evict(self, namespace: str, name: str, body: Json, who: str) -> Json:
        pod = self.get("Pod", name, namespace)
        if pod is None:
            raise Refused(404, "NotFound", f'pods "{name}" not found')
        wanted = (body.get("deleteOptions") or {}).get("preconditions") or {}
        for key in ("uid", "resourceVersion"):
            if wanted.get(key) not in (None, pod["metadata"][key]):
                raise Refused(409, "Conflict", f"Precondition failed: {key} in precondition does not match")
        if pod["status"].get("phase") not in ("Succeeded", "Failed", "Pending") and not pod["metadata"].get(
            "deletionTimestamp"
        ):
            for budget in self.budgets(pod):
                if not self.allows(budget, pod):
                    text = f"Cannot evict pod as it would violate the pod's disruption budget {budget['metadata']['name']}."
                    raise Refused(429, "TooManyRequests", text)
        self.on_down(pod, who, "eviction")
        self._delete(pod, (body.get("deleteOptions") or {}).get("gracePeriodSeconds"))
        return {}

    def budgets(self, pod: Json) -> Iterator[Json]:
        """The disruption budgets that select a pod."""
        labels = pod["metadata"].get("labels") or {}
        for budget in self.all("PodDisruptionBudget"):
            wanted = budget["spec"]["selector"].get("matchLabels") or {}
            if wanted and all(labels.get(k) == v for k, v in wanted.items()):
                yield budget

    def allows(self, budget: Json, pod: Json) -> bool:
        """Whether a budget allows the eviction of a pod.

        A pod that is not ready does not count: it may be evicted while enough others are ready (``IfHealthyBudget``), or always (``AlwaysAllow``).
        """
        wanted = budget["spec"]["selector"].get("matchLabels") or {}
        members = [
            pod
            for pod in self.all("Pod")
            if all((pod["metadata"].get("labels") or {}).get(k) == v for k, v in wanted.items())
        ]
        well = sum(is_ready(pod) and not pod["metadata"].get("deletionTimestamp") for pod in members)
        least = int(budget["spec"].get("minAvailable", 0))
        if not is_ready(pod):
            always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            if always or well >= least > 0:
                return True
        return well > least


def parse(path: str) -> tuple[Kind | None, str | None, str | None, str | None]:
    """Kind, namespace, name and subresource of a URL."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = None
    if len(parts) >= 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    if not parts:
        return None, None, None, None
    name = parts[1] if len(parts) > 1 else None
    return _BY_PLURAL[parts[0]], namespace, name, parts[2] if len(parts) > 2 else None


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's condition Ready is true."""
    return condition(pod, "Ready") == "True"


def condition(obj: Mapping[str, Any], what: str) -> str | None:
    """The status of one of an object's conditions."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((str(c["status"]) for c in found if c["type"] == what), None)


def _name(obj: Mapping[str, Any]) -> Name:
    meta = obj["metadata"]
    return (meta.get("namespace", NAMESPACE) if KINDS[obj["kind"]].namespaced else "", meta["name"])


def _guard(live: Json, body: Json) -> None:
    wanted = body.get("metadata") or {}
    if wanted.get("resourceVersion") not in (None, live["metadata"]["resourceVersion"]):
        raise Refused(
            409, "Conflict", "the object has been modified; please apply your changes to the latest version"
        )
    if wanted.get("uid") not in (None, live["metadata"]["uid"]):
        raise Refused(422, "Invalid", "metadata.uid: Invalid value: field is immutable", ("metadata.uid",))


def _selected(obj: Json, request: Request) -> bool:
    """Whether an object is among those of the field selector: the only one that the definitions allow is by node."""
    node = request.query.get("fieldSelector", "").removeprefix("spec.node=")
    return not node or obj["spec"].get("node") == node


def _matches(obj: Json, selector: str | None) -> bool:
    if not selector:
        return True
    labels = obj["metadata"].get("labels") or {}
    for term in selector.split(","):
        key, sep, value = term.partition("=")
        if (sep and labels.get(key) != value) or (not sep and key not in labels):
            return False
    return True


def _by_type(live: Json, change: Json) -> Json:
    """A strategic merge patch of conditions, as a merge patch."""
    new = (change.get("status") or {}).get("conditions")
    if new is None:
        return change
    entries = {c["type"]: c for c in (live.get("status") or {}).get("conditions") or ()}
    for entry in new:
        entries[entry["type"]] = {**entries.get(entry["type"], {}), **entry}
    return {**change, "status": {**change["status"], "conditions": list(entries.values())}}


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(type(value).__name__)
