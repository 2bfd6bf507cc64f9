"""What a disk should be, and what was found in its place."""

from dataclasses import dataclass
from typing import Final

from spindle.disks.dir_list import NO_LIST, DirList
from spindle.disks.identity import Identity, MetaProperties

ACTIVE: Final = "Active"
PLACEHOLDER: Final = "Placeholder"
ABSENT: Final = "Absent"

# States that inspect reports.
OURS: Final = "ours"
BLANK: Final = "blank"
FOREIGN: Final = "foreign"
UNKNOWN: Final = "unknown"
NOT_MOUNTED: Final = "not-mounted"
DEAD: Final = "dead"
READONLY: Final = "readonly"
IS_PLACEHOLDER: Final = "placeholder"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One disk as it is on record.

    Attributes:
        fs_uuid: of the file system that was cleared for this directory id; None if none was when the pod was made.
        controller: whether Kafka's own tool formats it, in Kafka's container.
        shared_filesystem: whether the disk may be a folder of the node's own file system.
        retired: directory ids of disks of this broker that were evacuated; what carries one is foreign.
    """

    cluster_id: str
    node_id: int
    disk: str
    directory_id: str
    fs_uuid: str | None = None
    mode: str = ACTIVE
    controller: bool = False
    shared_filesystem: bool = False
    retired: tuple[str, ...] = ()

    @property
    def identity(self) -> Identity:
        """What its identity file is to say."""
        return Identity(self.cluster_id, self.node_id, self.disk, self.directory_id)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found where a disk should be mounted.

    Attributes:
        mounted: whether another file system than that of the pod's own folders is mounted there; False also where
            nothing is there at all.
        error: why the disk could not be read (an I/O error, a time-out), in words; None if it could.
        writable: None where it could not be tried.
        readonly: whether the file system is mounted read-only.
        source, device: of the mount, from mountinfo: ``/dev/sdb1`` or a folder's path; ``8:17``.
        total_bytes, used_bytes: of the file system.
        identity, pending: from our identity file, and from the one that marks a format that Kafka's own tool has yet
            to do.
        meta: from ``meta.properties``.
        garbled: which file can't be understood, and why; None if none.
        partitions: whether the log dir holds anything but ``meta.properties``.
        strangers: names at the volume's root that are neither ours nor the file system's own.
        replicas: how many replicas stand in the log dir, half-moved ones included.
        log_dirs: the list of its broker's log dirs, from our identity file.
    """

    mounted: bool
    error: str | None = None
    writable: bool | None = None
    readonly: bool = False
    fs_uuid: str | None = None
    fs_type: str | None = None
    source: str | None = None
    device: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    identity: Identity | None = None
    pending: Identity | None = None
    meta: MetaProperties | None = None
    garbled: str | None = None
    partitions: bool = False
    replicas: int = 0
    strangers: tuple[str, ...] = ()
    log_dirs: DirList = NO_LIST


@dataclass(frozen=True, kw_only=True)
class Clearance:
    """The operator's word that one blank file system may take one directory id (rule 1, rule 13).

    Attributes:
        nonce: what the look invented that this answers; None in a word for a pod of a version that invented none.
        pod_uid: of the pod that it is for; None as before.
    """

    disk: str
    directory_id: str
    fs_uuid: str | None
    pv_uid: str | None
    nonce: str | None
    pod_uid: str | None


@dataclass(frozen=True, kw_only=True)
class InspectionId:
    """Which look at the disks a clearance has to answer. No clock tells whether it is still good: the next look invents another nonce.

    Attributes:
        nonce: random, invented by this look.
        pod_uid: of the pod that looks.
    """

    nonce: str
    pod_uid: str
