"""What claims record of a KafkaBroker's disks: a KafkaCluster that is applied again finds only claims."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.config.dynamic_config_record import ANN_DYNAMIC_CONFIG
from spindle.model import disk_facts, objects
from spindle.model.actions import Patch
from spindle.model.broker_disks import disks_of
from spindle.model.dir_list import DirList, newest, parse_list, read_list
from spindle.model.dir_removal import unconfirmed
from spindle.model.maintenance import NO_REQUEST, disk_requests
from spindle.model.ownership import OWN
from spindle.model.snapshot import SnapshotObject
from spindle.model.stale_records import is_stale
from spindle.model.state import ClusterState

_CLAIM: Final = "PersistentVolumeClaim"
_OUT: Final = "out"  # retired: its slot waits for a new disk


def claim_annotations(state: ClusterState, broker: SnapshotObject) -> list[Patch]:
    """Annotations to write on the claims of a broker's disks so that they match its record; none while the claims know more."""
    if is_stale(state, broker):
        return []
    found = []
    # Only a record that is being deleted hands this to its claims; until then the record is the newer one.
    going = objects.deleting(broker) or objects.deleting(state.cluster)
    values = objects.annotation(broker, ANN_DYNAMIC_CONFIG) if going else None
    history = _SlotHistory(broker)
    for disk in disks_of(broker):
        claim = state.claims.get(disk["claim"])
        if (_CLAIM, OWN, disk["claim"]) in state.taken:
            continue  # another owner's claim is not annotated
        changed = _changed(broker, history.of(disk), disk, claim) if claim is not None else {}
        if claim is not None and objects.annotation(claim, ANN_DYNAMIC_CONFIG) != values:
            changed[ANN_DYNAMIC_CONFIG] = values
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
    """Annotations about the history of a slot, for a claim that is created for it."""
    return {key: value for key, value in _SlotHistory(broker).of(disk).items() if value is not None}


def retired_of(claims: Iterable[SnapshotObject]) -> list[str]:
    """Retired directory ids that a broker's claims record; each claim lists all of them, as of its last update."""
    told = sorted((_retired(claim) for claim in claims), key=len)
    return list(dict.fromkeys(directory_id for ids in told for directory_id in ids))


def dynamic_config_of(claims: Iterable[SnapshotObject]) -> dict[str, str]:
    """The annotation about settings that Spindle set on a broker, from its claims; empty if there were none."""
    told = (objects.annotation(claim, ANN_DYNAMIC_CONFIG) for claim in claims)
    return next(({ANN_DYNAMIC_CONFIG: text} for text in told if text is not None), {})


def is_out(claim: SnapshotObject) -> bool:
    """Whether the slot of a claim is retired, or has just been."""
    return objects.annotation(claim, names.ANN_SLOT) == _OUT or objects.annotation(
        claim, names.ANN_DIRECTORY_ID
    ) in _retired(claim)


def list_on(claims: Iterable[SnapshotObject]) -> DirList:
    """The newest list of log dirs on a broker's claims; empty if none has one."""
    return newest(parse_list(objects.annotation(claim, names.ANN_LOG_DIRS)) for claim in claims)


def has_left(claim: SnapshotObject) -> bool:
    """Whether a claim belongs to a broker that was scaled in, so that its disk holds nothing."""
    return objects.annotation(claim, names.ANN_LEFT) == "true"


def _retired(claim: SnapshotObject) -> list[str]:
    return [entry for entry in (objects.annotation(claim, names.ANN_RETIRED) or "").split(",") if entry]


class _SlotHistory:
    """What the claims of one broker record of its history."""

    def __init__(self, broker: SnapshotObject) -> None:
        spec = broker["spec"]
        self._requests, self._unconfirmed = disk_requests(broker), unconfirmed(broker)
        self._of_all = {
            names.ANN_RETIRED: ",".join(spec.get("retired") or ()) or None,
            names.ANN_SLOT: None,
            names.ANN_LEFT: "true" if spec.get("leaving") else None,
            names.ANN_LOG_DIRS: known.text() if (known := read_list(spec.get("logDirs"))) else None,
        }

    def of(self, disk: Mapping[str, Any]) -> dict[str, str | None]:
        """The annotations of one disk's claim."""
        # A disk that a user had drained is healthy; the request ends with the KafkaBroker.
        wished = self._requests.get(disk["name"], NO_REQUEST).drained
        out = disk.get("mode") == disk_facts.ABSENT and disk["name"] not in self._unconfirmed and not wished
        return self._of_all | {names.ANN_SLOT: _OUT if out else None}


def _changed(
    broker: SnapshotObject, wanted: dict[str, str | None], disk: Mapping[str, Any], claim: SnapshotObject
) -> dict[str, str | None]:
    if (
        wanted[names.ANN_LOG_DIRS] is None
    ):  # nothing is known: the annotation on the claim may be the only record left
        del wanted[names.ANN_LOG_DIRS]
    noted = objects.annotations(claim)
    carried = noted.get(names.ANN_DIRECTORY_ID)
    if carried != disk["directoryId"] and carried in (broker["spec"].get("retired") or ()):
        wanted |= {names.ANN_DIRECTORY_ID: disk["directoryId"], names.ANN_FS_UUID: None}
    return {key: value for key, value in wanted.items() if noted.get(key) != value}
