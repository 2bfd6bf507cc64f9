"""What may be done with a volume whose log dir another operator laid out: taken over, put back, or left alone (rule 7)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from spindle.disks.identity import MetaProperties, parse_meta_properties

ENV_ORDER: Final = "SPINDLE_TAKEOVER"  # the order, in the environment of the pod that carries it out
RECORD: Final = "spindle-takeover.json"  # at the volume's root: what it was before
METADATA_FOLDER: Final = "__cluster_metadata-0"
KEPT_METADATA: Final = (
    "spindle-takeover-metadata"  # at the root: a broker's copy of the metadata log, which it fetches anew
)
KEPT_VOTE: Final = (
    "spindle-takeover-quorum-state"  # at the root: whom a controller voted for under its former number
)


@dataclass(frozen=True)
class VolumePlace:
    """One volume and what is expected on it.

    Attributes:
        path: where it is mounted.
        folder: the log dir's folder at its root, for example ``kafka-log0``.
        node_id: whose it is.
        as_node: whose it is to be; another number only for controllers.
        controller: whether it holds the metadata log that counts.
    """

    path: str
    folder: str
    node_id: int
    as_node: int
    controller: bool = False


@dataclass(frozen=True)
class VolumeOrder:
    """What a pod is to do with the volumes of one node.

    Attributes:
        undo: put them back as they were.
    """

    cluster_id: str
    places: tuple[VolumePlace, ...]
    undo: bool = False

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), sort_keys=True)


def parse_order(text: str) -> VolumeOrder:
    """An order back from its JSON.

    Raises:
        ValueError: it is none.
    """
    try:
        document = json.loads(text)
        places = tuple(VolumePlace(**place) for place in document["places"])
        return VolumeOrder(str(document["cluster_id"]), places, bool(document["undo"]))
    except (TypeError, KeyError) as error:
        raise ValueError(f"is no order: {error}") from error


@dataclass(frozen=True)
class VolumeObservation:
    """What stands on a volume.

    Attributes:
        entries: names at its root.
        meta: text of the ``meta.properties`` in the other operator's folder; None if there is none.
        ours: text of the one in our folder ``log``; None if there is none.
        record: text of `RECORD`; None if there is none.
        identity: whether our identity file is there: a pod of ours has started on it.
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
    """What follows.

    Attributes:
        refusal: why the volume is left alone; empty if it is not.
        done: whether it is as it should be already.
        directory_id: that of its log dir.
    """

    refusal: str = ""
    done: bool = False
    directory_id: str = ""


def may_take(order: VolumeOrder, place: VolumePlace, seen: VolumeObservation) -> VolumeFinding:
    """Whether a volume may be taken over."""
    if seen.meta is not None and seen.ours is not None:
        return VolumeFinding(
            f"{place.path} has both a folder {place.folder} and a folder log: one of them is not its own"
        )
    if seen.ours is not None:
        return _taken(order, place, seen)
    if seen.meta is None:
        return VolumeFinding(
            f"{place.path} has no {place.folder}/meta.properties: it is not the volume that it should be, or was never used"
        )
    meta = _read(seen.meta)
    if isinstance(meta, str):
        return VolumeFinding(f"{place.path}: meta.properties can't be understood: {meta}")
    wrong = _of_another(order, place.node_id, meta)
    if wrong:
        return VolumeFinding(f"{place.path}: meta.properties names {wrong}")
    if meta.directory_id is None:
        return VolumeFinding(
            f"{place.path}: meta.properties has no directory.id; Kafka 3.7 and later write one when they start"
        )
    if "log" in seen.entries:
        return VolumeFinding(f"{place.path} has a folder log already, which is no log dir")
    if seen.locked:
        return VolumeFinding(
            f"{place.path}/{place.folder} is in use by a process: Kafka has to be stopped first"
        )
    if not seen.writable:
        return VolumeFinding(
            f"{place.path} can't be written by group 1000: its volume type does not honour fsGroup"
        )
    return VolumeFinding(directory_id=meta.directory_id)


def may_put_back(order: VolumeOrder, place: VolumePlace, seen: VolumeObservation) -> VolumeFinding:
    """Whether a volume may be put back as it was: only as long as no pod of ours has started on it."""
    if seen.meta is not None and seen.ours is None:
        return VolumeFinding(done=True)
    if seen.record is None or seen.ours is None:
        return VolumeFinding(f"{place.path} has no record of what it was before")
    if seen.identity:
        return VolumeFinding(
            f"{place.path}: Spindle has started on it, and what was written since would not be understood"
        )
    if seen.locked:
        return VolumeFinding(f"{place.path}/log is in use by a process")
    try:
        before = restore(seen.record)
    except ValueError as error:
        return VolumeFinding(f"{place.path}: its record {error}")
    if before.folder != place.folder or _of_another(order, place.node_id, before.meta):
        return VolumeFinding(f"{place.path}: its record is of another volume")
    return VolumeFinding(directory_id=before.meta.directory_id or "")


@dataclass(frozen=True)
class Before:
    """What a volume was before it was taken over."""

    folder: str
    text: str
    meta: MetaProperties


def note(place: VolumePlace, meta_text: str) -> str:
    """The text of `RECORD`."""
    return json.dumps({"folder": place.folder, "metaProperties": meta_text}, indent=2) + "\n"


def restore(record: str) -> Before:
    """What a record says.

    Raises:
        ValueError: it can't be understood.
    """
    try:
        document: Mapping[str, Any] = json.loads(record)
        text = str(document["metaProperties"])
        return Before(str(document["folder"]), text, parse_meta_properties(text))
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"can't be understood: {error}") from error


def renumbered(meta_text: str, node_id: int) -> str:
    """A ``meta.properties`` with another node id, everything else as it was."""
    lines = [
        f"node.id={node_id}" if line.strip().startswith("node.id") else line
        for line in meta_text.splitlines()
    ]
    return "\n".join(lines) + "\n"


def report(findings: Sequence[VolumeFinding]) -> str:
    """What the pod says at its end, as JSON: why not, or the directory id of each volume in the order of the order."""
    refused = [finding.refusal for finding in findings if finding.refusal]
    if refused:
        return json.dumps({"refused": "; ".join(refused)[:3000]})
    return json.dumps({"directories": [finding.directory_id for finding in findings]})


def _taken(order: VolumeOrder, place: VolumePlace, seen: VolumeObservation) -> VolumeFinding:
    meta = _read(seen.ours or "")
    if isinstance(meta, str):
        return VolumeFinding(f"{place.path}: log/meta.properties can't be understood: {meta}")
    if seen.record is None:
        return VolumeFinding(f"{place.path} has a folder log that was not taken over")
    wrong = _of_another(order, place.as_node, meta)
    if wrong and not _of_another(order, place.node_id, meta):
        return VolumeFinding(directory_id=meta.directory_id or "")  # cut off before the number was changed
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
