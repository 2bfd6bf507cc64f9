"""Writes that cannot take over somebody else's object (rule 16), whatever happens between a look and a write.

What was not seen is created, never written over; what was seen is written over only as the object that it was, by UID and resourceVersion.
"""

from collections.abc import Mapping
from typing import Any, Final

from spindle.reconcile.ownership import Owners, owner_uids
from spindle_operator.kinds import KAFKA_BROKER, KINDS
from spindle_operator.kube import ApiError, Json, Kube
from spindle_operator.ownership import taken_over

_EXISTS: Final = "AlreadyExists"


class NameTakenError(Exception):
    """Under the name of an object that is to be made stands one that is not ours.

    Attributes:
        kind, namespace, name: of the object.
    """

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        super().__init__(f"there is a {kind} {name} that is not of this KafkaCluster; it is left alone")
        self.kind, self.namespace, self.name = kind, namespace, name


class Writer:
    """Writes objects of one KafkaCluster. Every method raises ApiError and NameTakenError."""

    def __init__(self, kube: Kube, owners: Owners) -> None:
        """A writer for one pass.

        Args:
            kube: the API server.
            owners: what makes an object ours.
        """
        self._kube = kube
        self._owners = owners
        self._namespace = owners.namespace

    async def create(self, obj: Mapping[str, Any]) -> Json:
        """Create an object; one of ours that was there all along, and had lost its labels, gets them back."""
        try:
            return await self._kube.create(obj, self._namespace)
        except ApiError as error:
            if error.reason != _EXISTS:
                raise
            return await self._reclaimed(obj, error)

    async def put(self, obj: Mapping[str, Any], seen: Mapping[str, Any] | None) -> None:
        """Create an object; or apply it over the one that was seen, by its metadata.

        What the agent tells in a KafkaBroker's status changes nothing of that.
        """
        if seen is None:
            await self.create(obj)
            return
        # What a POST has set could not be taken away by an apply.
        if await self.hand_over(live := await self._over(obj, seen)):
            await self._over(obj, live["metadata"])

    async def hand_over(self, live: Json) -> bool:
        """See to it that an apply can take away what a POST set; whether that was needed.

        An object that changed meanwhile is left to its next apply.
        """
        meta, kind = live["metadata"], KINDS[live["kind"]]
        # A KafkaBroker's finalizer is taken off by a patch, and what keeps it is not to go with an apply.
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
        raise AssertionError("the last try returns or raises")

    async def _reclaimed(self, obj: Mapping[str, Any], exists: ApiError) -> Json:
        """Put back the labels of an object of ours that was there all along: lists go by label, so it was not seen."""
        kind, name, where = KINDS[obj["kind"]], obj["metadata"]["name"], self._where(obj)
        live = await self._kube.find(kind, where, name)
        if live is None:
            raise exists  # gone by now: the next pass makes it
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
    """Whether an object is the one that was seen, with the same owners, and its spec is."""
    meta = live["metadata"]
    kept = ("uid", "generation", "deletionTimestamp")
    same = all(seen.get(key) == meta.get(key) for key in kept)
    return same and owner_uids({"metadata": seen}) == owner_uids(live)
