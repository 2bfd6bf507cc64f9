"""Reads and writes any Kubernetes object as a raw dict: take-over, backup and restore need more than Spindle's own kinds."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names
from spindle_cli.kube import FIELD_MANAGER, Json, Kube, KubeError, NotFoundError, no_object
from spindle_cli.libraries import kubernetes

_MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    Attributes:
        name: as shown to the user.
        stem: of the client's method names, for kinds of the core group; else the plural.
        group: None for the core group.
        versions: of a group, the newest first; the first one that the API server serves is used.
    """

    name: str
    stem: str
    group: str | None = None
    versions: tuple[str, ...] = ()
    namespaced: bool = True


CLAIM: Final = Kind("PersistentVolumeClaim", "persistent_volume_claim")
VOLUME: Final = Kind("PersistentVolume", "persistent_volume", namespaced=False)
NODE: Final = Kind("Node", "node", namespaced=False)
POD: Final = Kind("Pod", "pod")
CONFIG_MAP: Final = Kind("ConfigMap", "config_map")
SECRET: Final = Kind("Secret", "secret")
CLUSTER: Final = Kind("KafkaCluster", "kafkaclusters", names.GROUP, (names.VERSION,))
BROKER: Final = Kind("KafkaBroker", "kafkabrokers", names.GROUP, (names.VERSION,))
TOPIC: Final = Kind("KafkaTopic", "kafkatopics", names.GROUP, (names.VERSION,))
USER: Final = Kind("KafkaUser", "kafkausers", names.GROUP, (names.VERSION,))
KINDS: Final = {
    kind.name: kind for kind in (CLAIM, VOLUME, NODE, POD, CONFIG_MAP, SECRET, CLUSTER, TOPIC, USER)
}


class Objects:
    """Objects of one namespace, and cluster-scoped ones. Every method raises KubeError."""

    def __init__(self, kube: Kube) -> None:
        self.namespace = kube.namespace
        self._kube = kube
        self._core = kubernetes.client.CoreV1Api(kube.api)
        self._custom: Any = kubernetes.client.CustomObjectsApi(kube.api)
        self._served: dict[Kind, str] = {}

    def every(self, kind: Kind, selector: str | None = None) -> list[Json]:
        """All of a kind, in the namespace if the kind is namespaced."""
        chosen = {"label_selector": selector} if selector else {}
        if kind.group is not None:
            version = self._version(kind)
            return _typed(self._list_custom(kind, version, **chosen), kind, f"{kind.group}/{version}")
        suffix = f"namespaced_{kind.stem}" if kind.namespaced else kind.stem
        call = getattr(self._core, f"list_{suffix}")
        where = (self.namespace,) if kind.namespaced else ()
        answer = self._kube.ask(f"{kind.name}s", call, *where, _preload_content=False, **chosen)
        return _typed(json.loads(answer.data)["items"], kind, "v1")

    def find(self, kind: Kind, name: str) -> Json | None:
        """One object; None if it does not exist."""
        try:
            return self._call("read", kind, name)
        except NotFoundError:
            return None

    def get(self, kind: Kind, name: str) -> Json:
        """One object."""
        found = self.find(kind, name)
        if found is None:
            raise NotFoundError(f"there is no {kind.name} {name} in namespace {self.namespace}")
        return found

    def apply(self, obj: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Server-side apply with force: take over these fields from other field managers.

        Args:
            dry_run: only check whether the API server would accept it.
        """
        kind, name = KINDS[obj["kind"]], str(obj["metadata"]["name"])
        self._call(
            "patch",
            kind,
            name,
            dict(obj),
            field_manager=FIELD_MANAGER,
            force=True,
            _content_type=_APPLY,
            **_only_asked(dry_run),
        )

    def patch(self, kind: Kind, name: str, body: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Merge-patch one object."""
        self._call(
            "patch",
            kind,
            name,
            dict(body),
            field_manager=FIELD_MANAGER,
            _content_type=_MERGE,
            **_only_asked(dry_run),
        )

    def create(self, kind: Kind, obj: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Create an object of the core group; it is an error if it exists already."""
        call = getattr(self._core, f"create_namespaced_{kind.stem}")
        name = obj["metadata"]["name"]
        self._kube.ask(
            f"{kind.name} {name}",
            call,
            self.namespace,
            dict(obj),
            field_manager=FIELD_MANAGER,
            _preload_content=False,
            **_only_asked(dry_run),
        )

    def delete(self, kind: Kind, name: str, uid: str | None = None, *, dry_run: bool = False) -> None:
        """Delete one object, if it exists; with a uid only that object, not another one of the same name."""
        body: Json = {"preconditions": {"uid": uid}} if uid else {}
        if dry_run:  # the API server ignores the parameter of this name where there is a body
            body["dryRun"] = ["All"]
        try:
            self._call("delete", kind, name, body=body)
        except NotFoundError:
            return

    def serves(self, kind: Kind) -> bool:
        """Whether the API server serves the kind."""
        try:
            self._version(kind)
        except NotFoundError:
            return False
        return True

    def _call(self, verb: str, kind: Kind, name: str, *args: Any, **kwargs: Any) -> Json:
        what = f"{kind.name} {name}"
        where: tuple[str, ...] = (self.namespace,) if kind.namespaced else ()
        if kind.group is None:
            scope = "namespaced_" if kind.namespaced else ""
            call = getattr(self._core, f"{verb}_{scope}{kind.stem}")
            answer = self._kube.ask(what, call, name, *where, *args, _preload_content=False, **kwargs)
            return dict(json.loads(answer.data))
        call = getattr(self._custom, f"{'get' if verb == 'read' else verb}_namespaced_custom_object")
        place = (kind.group, self._version(kind), *where, kind.stem, name)
        found = self._kube.ask(what, call, *place, *args, **kwargs) or {}
        if not isinstance(found, dict):
            raise no_object(what)
        return found

    def _list_custom(self, kind: Kind, version: str, **chosen: str) -> list[Json]:
        call = self._custom.list_namespaced_custom_object
        answer = self._kube.ask(
            f"{kind.name}s", call, kind.group, version, self.namespace, kind.stem, **chosen
        )
        if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
            raise no_object(f"{kind.name}s")
        return list(answer["items"])

    def _version(self, kind: Kind) -> str:
        """The newest served version of the kind."""
        if kind not in self._served:
            for version in kind.versions:
                try:
                    self._list_custom(kind, version)
                except NotFoundError:
                    continue
                self._served[kind] = version
                break
            else:
                raise NotFoundError(f"the API server does not know the kind {kind.name} of {kind.group}")
        return self._served[kind]


def _only_asked(dry_run: bool) -> Json:
    return {"dry_run": "All"} if dry_run else {}


def _typed(items: Iterable[Json], kind: Kind, version: str) -> list[Json]:
    """Items of a list, with kind and apiVersion added, which the API server omits from list items."""
    return [{**each, "apiVersion": version, "kind": kind.name} for each in items]


__all__ = ["Kind", "KubeError", "Objects"]
