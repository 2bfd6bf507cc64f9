"""Decides whether a volume of another operator may be taken over or returned ("no disk mistaken for another", `docs/safety.md`, rule 7)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from spindle.model.disk_identity import MetaProperties, parse_meta_properties

ENV_ORDER: Final = "SPINDLE_TAKEOVER"  # the order, in the environment of the pod that executes it
RECORD: Final = "spindle-takeover.json"  # file at the volume's root with its former state
METADATA_FOLDER: Final = "__cluster_metadata-0"
KEPT_METADATA: Final = "spindle-takeover-metadata"  # folder at the root for a broker's copy of the metadata log, which it fetches again
KEPT_VOTE: Final = (
    "spindle-takeover-quorum-state"  # file at the root with the last vote of a controller under its former id
)


@dataclass(frozen=True)
class VolumePlace:
    """One volume and its expected content.

    Attributes:
        path: where it is mounted.
        folder: the log dir's folder at its root, for example ``kafka-log0``.
        node_id: id of its node.
        as_node: new id of its node, which differs only for controllers.
        controller: whether its metadata log must stay, because its node is a controller.
    """

    path: str
    folder: str
    node_id: int
    as_node: int
    controller: bool = False


@dataclass(frozen=True)
class VolumeOrder:
    """The order for the pod that changes the layout of one node's volumes.

    Attributes:
        undo: whether to restore the former layout.
    """

    cluster_id: str
    places: tuple[VolumePlace, ...]
    undo: bool = False

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), sort_keys=True)


def parse_order(text: str) -> VolumeOrder:
    """Parse an order.

    Raises:
        ValueError: it is not valid.
    """
    try:
        document = json.loads(text)
        places = tuple(VolumePlace(**place) for place in document["places"])
        return VolumeOrder(str(document["cluster_id"]), places, bool(document["undo"]))
    except (TypeError, KeyError) as error:
        raise ValueError(f"is not a valid order: {error}") from error


@dataclass(frozen=True)
class VolumeObservation:
    """The content of a volume.

    Attributes:
        entries: names at its root.
        meta: text of ``meta.properties`` in the other operator's folder; None if there is none.
        ours: text of ``meta.properties`` in Spindle's folder ``log``; None if there is none.
        record: text of `RECORD`; None if there is none.
        identity: whether Spindle's identity file exists, so that one of its pods has started on the volume.
        locked: whether a process holds the log dir.
        writable: whether the root can be written.
    """

    entries: frozenset[str] = frozenset()
    meta: str | None = None
    ours: str | None = None
    record: str | None = None
    identity: bool = False
    locked: bool = False
    writable: bool = True


@dataclass(frozen=True)
class VolumeFinding:
    """The decision for a volume.

    Attributes:
        refusal: why the volume must not be changed; empty if it may.
        done: whether it has the target layout already.
        directory_id: of its log dir.
    """

    refusal: str = ""
    done: bool = False
    directory_id: str = ""


def may_take(order: VolumeOrder, place: VolumePlace, seen: VolumeObservation) -> VolumeFinding:
    """Whether a volume may be taken over."""
    if seen.meta is not None and seen.ours is not None:
        return VolumeFinding(
            f"{place.path} has both a folder {place.folder} and a folder log: one of them does not belong to this node"
        )
    if seen.ours is not None:
        return _taken(order, place, seen)
    if seen.meta is None:
        return VolumeFinding(
            f"{place.path} has no {place.folder}/meta.properties: it is another volume, or was never used"
        )
    meta = _read(seen.meta)
    if isinstance(meta, str):
        return VolumeFinding(f"{place.path}: meta.properties cannot be parsed: {meta}")
    wrong = _of_another(order, place.node_id, meta)
    if wrong:
        return VolumeFinding(f"{place.path}: meta.properties names {wrong}")
    if meta.directory_id is None:
        return VolumeFinding(
            f"{place.path}: meta.properties has no directory.id; Kafka 3.7 and later add one at their start"
        )
    if "log" in seen.entries:
        return VolumeFinding(f"{place.path} has a folder log already, which is not a log dir")
    if seen.locked:
        return VolumeFinding(f"{place.path}/{place.folder} is in use by a process: stop Kafka first")
    if not seen.writable:
        return VolumeFinding(
            f"{place.path} is not writable for group 1000: its volume type does not apply fsGroup"
        )
    return VolumeFinding(directory_id=meta.directory_id)


def may_put_back(order: VolumeOrder, place: VolumePlace, seen: VolumeObservation) -> VolumeFinding:
    """Whether the former layout may be restored: only while no pod of Spindle has started on the volume."""
    if seen.record is None and seen.meta is not None and seen.ours is None:
        return VolumeFinding(done=True)
    if seen.record is None or (seen.meta is None) == (seen.ours is None):
        return VolumeFinding(f"{place.path} has no record of its former state")
    if seen.identity:
        return VolumeFinding(
            f"{place.path}: Spindle has started Kafka on it, and Kafka under Strimzi could not read the data written since"
        )
    if seen.locked:
        return VolumeFinding(f"{place.path} is in use by a process")
    try:
        before = restore(seen.record)
    except ValueError as error:
        return VolumeFinding(f"{place.path}: its record {error}")
    if before.folder != place.folder or _of_another(order, place.node_id, before.meta):
        return VolumeFinding(f"{place.path}: its record belongs to another volume")
    return VolumeFinding(directory_id=before.meta.directory_id or "")


@dataclass(frozen=True)
class Before:
    """The state of a volume before the take-over."""

    folder: str
    text: str
    meta: MetaProperties


def note(place: VolumePlace, meta_text: str) -> str:
    """The text of `RECORD`."""
    return json.dumps({"folder": place.folder, "metaProperties": meta_text}, indent=2) + "\n"


def restore(record: str) -> Before:
    """Parse a record.

    Raises:
        ValueError: it is not valid.
    """
    try:
        document: Mapping[str, Any] = json.loads(record)
        text = str(document["metaProperties"])
        return Before(str(document["folder"]), text, parse_meta_properties(text))
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"cannot be parsed: {error}") from error


def renumbered(meta_text: str, node_id: int) -> str:
    """A ``meta.properties`` with another node id and no other change."""
    lines = [
        f"node.id={node_id}" if line.strip().startswith("node.id") else line
        for line in meta_text.splitlines()
    ]
    return "\n".join(lines) + "\n"


def report(findings: Sequence[VolumeFinding]) -> str:
    """The pod's termination message as JSON: the refusals, or the directory id of each volume in the sequence of the order."""
    refused = [finding.refusal for finding in findings if finding.refusal]
    if refused:
        return json.dumps({"refused": "; ".join(refused)[:3000]})
    return json.dumps({"directories": [finding.directory_id for finding in findings]})


def _taken(order: VolumeOrder, place: VolumePlace, seen: VolumeObservation) -> VolumeFinding:
    meta = _read(seen.ours or "")
    if isinstance(meta, str):
        return VolumeFinding(f"{place.path}: log/meta.properties cannot be parsed: {meta}")
    if seen.record is None:
        return VolumeFinding(f"{place.path} has a folder log that does not come from this take-over")
    wrong = _of_another(order, place.as_node, meta)
    if wrong and not _of_another(order, place.node_id, meta):
        return VolumeFinding(directory_id=meta.directory_id or "")  # interrupted before the id was changed
    if wrong:
        return VolumeFinding(f"{place.path}: log/meta.properties names {wrong}")
    return VolumeFinding(done=True, directory_id=meta.directory_id or "")


def _read(text: str) -> MetaProperties | str:
    try:
        return parse_meta_properties(text)
    except ValueError as error:
        return str(error)


def _of_another(order: VolumeOrder, node_id: int, meta: MetaProperties) -> str:
    if meta.cluster_id != order.cluster_id:
        return f"another cluster, {meta.cluster_id} (this is {order.cluster_id})"
    if meta.node_id != node_id:
        return f"another node, {meta.node_id} (this is {node_id})"
    return ""
