"""Writes that cannot overwrite an object of somebody else (only owned objects are changed, docs/safety.md), whatever happens between read and write.

An object that was not seen is created, never overwritten; one that was seen is overwritten only with its UID and resourceVersion as preconditions.
"""

from collections.abc import Mapping
from typing import Any, Final

from spindle.model.ownership import Owners, owner_uids
from spindle_operator.kinds import KAFKA_BROKER, KINDS
from spindle_operator.kube import Kube
from spindle_operator.ownership import taken_over
from spindle_shared.api_answers import ApiError, Json

_EXISTS: Final = "AlreadyExists"


class NameTakenError(Exception):
    """The name of an object to create is taken by one that is not ours.

    Attributes:
        kind, namespace, name: of the object.
    """

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        super().__init__(f"{kind} {name} exists and does not belong to this KafkaCluster; it is not changed")
        self.kind, self.namespace, self.name = kind, namespace, name


class Writer:
    """Writes objects of one KafkaCluster. Every method raises ApiError and NameTakenError."""

    def __init__(self, kube: Kube, owners: Owners) -> None:
        """A writer for one pass.

        Args:
            kube: the API server.
            owners: ownerReferences that make an object ours.
        """
        self._kube = kube
        self._owners = owners
        self._namespace = owners.namespace

    async def create(self, obj: Mapping[str, Any]) -> Json:
        """Create an object; if it exists, is ours, and had lost its labels, restore them."""
        try:
            return await self._kube.create(obj, self._namespace)
        except ApiError as error:
            if error.reason != _EXISTS:
                raise
            return await self._reclaimed(obj, error)

    async def put(self, obj: Mapping[str, Any], seen: Mapping[str, Any] | None) -> None:
        """Create an object, or apply it over the one that was seen (by its metadata).

        Reports of an agent in a KafkaBroker's status do not count as a change.
        """
        if seen is None:
            await self.create(obj)
            return
        # Otherwise an apply could not remove what a POST has set.
        if await self.hand_over(live := await self._over(obj, seen)):
            await self._over(obj, live["metadata"])

    async def hand_over(self, live: Json) -> bool:
        """Make sure that an apply can remove what a POST set; returns whether that was needed.

        If the object changed meanwhile, its next apply does it.
        """
        meta, kind = live["metadata"], KINDS[live["kind"]]
        # A patch removes a KafkaBroker's finalizer; an apply must not do so.
        fields = taken_over(meta.get("managedFields") or (), spec_only=kind is KAFKA_BROKER)
        if fields is None:
            return False
        body = {"metadata": {"managedFields": fields, "resourceVersion": meta["resourceVersion"]}}
        try:
            await self._kube.patch(kind, meta.get("namespace") or self._namespace, meta["name"], body)
        except ApiError as error:
            if not error.conflict:
                raise
            return False
        return True

    async def _over(self, obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Json:
        version = seen["resourceVersion"]
        for last in (False, False, True):
            guard = {"uid": seen["uid"], "resourceVersion": version}
            guarded = {**obj, "metadata": {**obj["metadata"], **guard}}
            try:
                return await self._kube.apply(guarded, self._namespace)
            except ApiError as error:
                if last or not error.conflict:
                    raise
                live = await self._kube.find(KINDS[obj["kind"]], self._where(obj), obj["metadata"]["name"])
                if live is None or not _same(seen, live):
                    raise
                version = live["metadata"]["resourceVersion"]
        raise AssertionError("the last attempt returns or raises")

    async def _reclaimed(self, obj: Mapping[str, Any], exists: ApiError) -> Json:
        """Restore the labels of an existing object of ours: lists select by label, so it was not seen."""
        kind, name, where = KINDS[obj["kind"]], obj["metadata"]["name"], self._where(obj)
        live = await self._kube.find(kind, where, name)
        if live is None:
            raise exists  # deleted meanwhile: the next pass creates it
        if not self._owners.hold({**live, "kind": kind.kind}):
            raise NameTakenError(kind.kind, where, name)
        wanted = obj["metadata"].get("labels") or {}
        there = live["metadata"].get("labels") or {}
        missing = {key: value for key, value in wanted.items() if there.get(key) != value}
        if not missing:
            raise exists
        meta = live["metadata"]
        guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        return await self._kube.patch(kind, where, name, {"metadata": {**guard, "labels": missing}})

    def _where(self, obj: Mapping[str, Any]) -> str:
        return str(obj["metadata"].get("namespace") or self._namespace)


def _same(seen: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether an object is the one that was seen, with the same owners and spec."""
    meta = live["metadata"]
    kept = ("uid", "generation", "deletionTimestamp")
    same = all(seen.get(key) == meta.get(key) for key in kept)
    return same and owner_uids({"metadata": seen}) == owner_uids(live)
