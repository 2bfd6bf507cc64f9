"""Messages between a worker and the agent, one JSON document per datagram.

All times are seconds of the monotonic clock, which the processes of one machine share.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from spindle.model.dir_list import DirList
from spindle.model.disk_facts import Found
from spindle.model.disk_identity import Identity, MetaProperties
from spindle_agent.scrub.messages import Scrub, Scrubbed

LARGEST: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Watch:
    """To the worker: the disk to probe.

    Attributes:
        path: path of the volume, as this process sees it.
        cluster_id, node_id, disk, directory_id: required contents of the identity file before anything is written. An empty cluster id never matches: nothing is
            written while the cluster id is unknown.
        interval: seconds between two writes.
        root: folder around all disks, on the node's own file system; empty for the parent folder of this one.
        ballast: bytes of the reserve file; 0 for none.
        beneath: folder below which no part of the path may be a link (`volume.open_root`); empty for none.
    """

    path: str
    cluster_id: str
    node_id: int
    disk: str
    directory_id: str
    interval: float = 2.0
    root: str = ""
    ballast: int = 0
    beneath: str = ""


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """Result of a full check of the disk, sent when it may contain something new."""

    at: float
    found: Found


@dataclass(frozen=True, kw_only=True)
class QuickChecked:
    """Result of a quick check.

    Attributes:
        mounted: whether a separate file system is mounted at the path (or, on a shared file system, the disk's identity is there).
        readable: whether this process has the permission to check; if not, the rest is meaningless.
        errno: the disk's error; 0 if there is none.
        late: seconds by which the worker's timers were late since its last report.
    """

    at: float
    mounted: bool
    readable: bool = True
    readonly: bool = False
    errno: int = 0
    total_bytes: int = 0
    used_bytes: int = 0
    late: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Began:
    """A write starts; if nothing follows, it hangs."""

    at: float


@dataclass(frozen=True, kw_only=True)
class Probed:
    """A write has completed or failed.

    Attributes:
        seconds: from the open until the last byte was read back.
        errno: error of the failure; 0 for success.
        doing: what failed: ``open``, ``write``, ``fsync`` or ``read``.
        wrong: the data read back differs from the data written.
        skipped: nothing was written, because the disk does not have the recorded identity.
        ballast: present bytes of ballast; None if it was not checked.
    """

    at: float
    seconds: float
    errno: int = 0
    doing: str = ""
    wrong: bool = False
    skipped: bool = False
    ballast: int | None = None


def well(checked: QuickChecked) -> bool:
    """Whether a quick check found no problem."""
    return checked.mounted and checked.readable and not checked.readonly and not checked.errno


@dataclass(frozen=True, kw_only=True)
class Remember:
    """To the worker: a usage record to store on the disk.

    Attributes:
        number, used, capacity, append, moved: as in `usage.records.Sample`.
        directory_id: directory id of the log dir.
    """

    directory_id: str
    number: int
    used: int
    capacity: int
    append: int
    moved: int


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """A part of the usage records stored on the disk.

    Attributes:
        records: as packed by `usage.records`, in Base64.
    """

    directory_id: str
    records: str


Report = Inspected | QuickChecked | Began | Probed | Recalled
Order = Watch | Scrub
_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (Watch, Remember, Inspected, QuickChecked, Began, Probed, Recalled, Scrub, Scrubbed)
}

_ENCODER: Final = json.JSONEncoder(
    separators=(",", ":"), default=vars
)  # vars: the parts of a message are dataclasses, too


def encode(message: Order | Remember | Report | Scrubbed) -> bytes:
    """Encode a message as one datagram."""
    return _ENCODER.encode([type(message).__name__, vars(message)]).encode()


def decode(data: bytes) -> Any:
    """The message in a datagram.

    Raises:
        ValueError: it is not a message.
    """
    try:
        name, fields = json.loads(data)
        if name == Inspected.__name__:
            fields["found"] = _found(fields["found"])
        return _KINDS[name](**fields)
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a message: {error!r}") from error


def _found(fields: dict[str, Any]) -> Found:
    for key in ("identity", "pending"):
        if fields[key] is not None:
            fields[key] = Identity(**fields[key])
    if fields["meta"] is not None:
        fields["meta"] = MetaProperties(**fields["meta"])
    fields["log_dirs"] = DirList(**fields["log_dirs"])
    fields["strangers"] = tuple(fields["strangers"])
    return Found(**fields)
