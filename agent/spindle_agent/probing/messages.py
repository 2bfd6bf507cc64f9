"""What a worker and the agent say to each other, one JSON document per datagram.

All times are seconds of the monotonic clock, which the processes of one machine share.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from spindle.disks.dir_list import DirList
from spindle.disks.facts import Found
from spindle.disks.identity import Identity, MetaProperties
from spindle_agent.scrub.messages import Scrub, Scrubbed

LARGEST: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Watch:
    """To the worker: what to look at.

    Attributes:
        path: of the volume, as this process sees it.
        cluster_id, node_id, disk, directory_id: what the identity file must say before anything is written. No file says an empty one: nothing is
            written while the cluster's id is not known.
        interval: seconds between two writes.
        root: folder around all disks, on the node's own file system; empty for the folder around this one.
        ballast: bytes of the file that is kept there as a last reserve; 0 for none.
    """

    path: str
    cluster_id: str
    node_id: int
    disk: str
    directory_id: str
    interval: float = 2.0
    root: str = ""
    ballast: int = 0


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """A whole look at the disk, sent when it may show something new."""

    at: float
    found: Found


@dataclass(frozen=True, kw_only=True)
class QuickChecked:
    """A cheap look.

    Attributes:
        mounted: whether a file system of its own is at the path (or, where one is shared, the disk's identity).
        readable: whether this process is allowed to look; if not, the rest says nothing.
        errno: what the disk answered instead; 0 if it is well.
        late: seconds by which the worker's own timers were late since it told last.
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
    """A write begins; if nothing follows, it hangs."""

    at: float


@dataclass(frozen=True, kw_only=True)
class Probed:
    """A write has come back.

    Attributes:
        seconds: from the open to the last byte read back.
        errno: why it failed; 0 if it did not.
        doing: what failed: ``open``, ``write``, ``fsync`` or ``read``.
        wrong: what was read back is not what was written.
        skipped: nothing was written, since the disk does not carry the identity that it should.
        ballast: bytes of the ballast that stands there; None if it was not looked for.
    """

    at: float
    seconds: float
    errno: int = 0
    doing: str = ""
    wrong: bool = False
    skipped: bool = False
    ballast: int | None = None


def well(checked: QuickChecked) -> bool:
    """Whether a glance shows nothing odd."""
    return checked.mounted and checked.readable and not checked.readonly and not checked.errno


@dataclass(frozen=True, kw_only=True)
class Remember:
    """To the worker: a record of how full the disk was, to be kept on it.

    Attributes:
        number, used, capacity, append, moved: as in `fill.records.Sample`.
        directory_id: of the log dir that it is about.
    """

    directory_id: str
    number: int
    used: int
    capacity: int
    append: int
    moved: int


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """A piece of what was kept on the disk.

    Attributes:
        records: as `fill.records` packs them, in Base64.
    """

    directory_id: str
    records: str


Report = Inspected | QuickChecked | Began | Probed | Recalled
Order = Watch | Scrub
_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (Watch, Remember, Inspected, QuickChecked, Began, Probed, Recalled, Scrub, Scrubbed)
}


def encode(message: Order | Remember | Report | Scrubbed) -> bytes:
    """One datagram."""
    return json.dumps([type(message).__name__, asdict(message)], separators=(",", ":")).encode()


def decode(data: bytes) -> Any:
    """The message in a datagram.

    Raises:
        ValueError: it is none.
    """
    try:
        name, fields = json.loads(data)
        if name == Inspected.__name__:
            fields["found"] = _found(fields["found"])
        return _KINDS[name](**fields)
    except (TypeError, KeyError) as error:
        raise ValueError(f"no message: {error!r}") from error


def _found(fields: dict[str, Any]) -> Found:
    for key in ("identity", "pending"):
        if fields[key] is not None:
            fields[key] = Identity(**fields[key])
    if fields["meta"] is not None:
        fields["meta"] = MetaProperties(**fields["meta"])
    fields["log_dirs"] = DirList(**fields["log_dirs"])
    fields["strangers"] = tuple(fields["strangers"])
    return Found(**fields)
