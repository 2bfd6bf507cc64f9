"""What a KafkaBroker knows of its disks and a claim has to know, too: a KafkaCluster that is applied again finds only claims."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.cluster import names
from spindle.disks import facts
from spindle.disks.dir_list import DirList, newest, parse_list, read_list
from spindle.healing.maintenance import NO_REQUEST, disk_requests
from spindle.reconcile import objects
from spindle.reconcile.actions import Patch
from spindle.reconcile.dir_removal import unconfirmed
from spindle.reconcile.dynamic_config_record import ANN_DYNAMIC_CONFIG
from spindle.reconcile.inputs import disks_of
from spindle.reconcile.ownership import OWN
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.stale_records import is_stale
from spindle.reconcile.state import ClusterState

_CLAIM: Final = "PersistentVolumeClaim"
_OUT: Final = "out"  # of use: its slot waits for a new disk


def claim_annotations(state: ClusterState, broker: SnapshotObject) -> list[Patch]:
    """What is to be written on the claims of a broker's disks, so that they know what it knows; nothing while they know more."""
    if is_stale(state, broker):
        return []
    found = []
    # Only one that goes leaves it to its claims: as long as it is there it knows better.
    going = objects.deleting(broker) or objects.deleting(state.cluster)
    tuned = objects.annotation(broker, ANN_DYNAMIC_CONFIG) if going else None
    for disk in disks_of(broker):
        claim = state.claims.get(disk["claim"])
        if (_CLAIM, OWN, disk["claim"]) in state.taken:
            continue  # somebody else's is told nothing
        changed = _changed(broker, disk, claim) if claim is not None else {}
        if claim is not None and objects.annotation(claim, ANN_DYNAMIC_CONFIG) != tuned:
            changed[ANN_DYNAMIC_CONFIG] = tuned
        if claim is not None and changed:
            found.append(
                Patch(
                    kind="PersistentVolumeClaim",
                    name=objects.name(claim),
                    uid=objects.uid(claim),
                    body={"metadata": {"annotations": changed}},
                )
            )
    return found


def noted(broker: SnapshotObject, disk: Mapping[str, Any]) -> dict[str, str]:
    """Annotations about the past of a slot, for a claim that is made for it."""
    return {key: value for key, value in _past(broker, disk).items() if value is not None}


def retired_of(claims: Iterable[SnapshotObject]) -> list[str]:
    """Directory ids that were given up, by the word of a broker's claims; each of them knows all, as far as it was told."""
    told = sorted((_retired(claim) for claim in claims), key=len)
    return list(dict.fromkeys(directory_id for ids in told for directory_id in ids))


def dynamic_config_of(claims: Iterable[SnapshotObject]) -> dict[str, str]:
    """The annotation about settings that were ours on a broker, by the word of its claims; empty if there were none."""
    told = (objects.annotation(claim, ANN_DYNAMIC_CONFIG) for claim in claims)
    return next(({ANN_DYNAMIC_CONFIG: text} for text in told if text is not None), {})


def is_out(claim: SnapshotObject) -> bool:
    """Whether the slot of a claim is out of use, or was given up just now."""
    return objects.annotation(claim, names.ANN_SLOT) == _OUT or objects.annotation(
        claim, names.ANN_DIRECTORY_ID
    ) in _retired(claim)


def list_on(claims: Iterable[SnapshotObject]) -> DirList:
    """The newest list of log dirs that claims of a broker carry; an empty one if none does."""
    return newest(parse_list(objects.annotation(claim, names.ANN_LOG_DIRS)) for claim in claims)


def has_left(claim: SnapshotObject) -> bool:
    """Whether a claim is of a broker that left its cluster, so that nothing is on its disk."""
    return objects.annotation(claim, names.ANN_LEFT) == "true"


def _retired(claim: SnapshotObject) -> list[str]:
    return [entry for entry in (objects.annotation(claim, names.ANN_RETIRED) or "").split(",") if entry]


def _past(broker: SnapshotObject, disk: Mapping[str, Any]) -> dict[str, str | None]:
    # What a person had drained is as good as before; such a wish does not outlive the KafkaBroker.
    wished = disk_requests(broker).get(disk["name"], NO_REQUEST).drained
    out = disk.get("mode") == facts.ABSENT and disk["name"] not in unconfirmed(broker) and not wished
    retired = broker["spec"].get("retired") or ()
    return {
        names.ANN_RETIRED: ",".join(retired) or None,
        names.ANN_SLOT: _OUT if out else None,
        names.ANN_LEFT: "true" if broker["spec"].get("leaving") else None,
        names.ANN_LOG_DIRS: known.text() if (known := read_list(broker["spec"].get("logDirs"))) else None,
    }


def _changed(broker: SnapshotObject, disk: Mapping[str, Any], claim: SnapshotObject) -> dict[str, str | None]:
    wanted = _past(broker, disk)
    if wanted[names.ANN_LOG_DIRS] is None:  # nothing is known: what the claim carries may be all that is left
        del wanted[names.ANN_LOG_DIRS]
    carried = objects.annotation(claim, names.ANN_DIRECTORY_ID)
    if carried != disk["directoryId"] and carried in (broker["spec"].get("retired") or ()):
        wanted |= {names.ANN_DIRECTORY_ID: disk["directoryId"], names.ANN_FS_UUID: None}
    return {key: value for key, value in wanted.items() if objects.annotation(claim, key) != value}
