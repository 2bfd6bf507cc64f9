"""Evidence of a hang from two observations: a disk counts as hung only if nothing between them shows that it still works.

On a node so overloaded that each write takes ten seconds, disks look hung in any single observation. In the next observation a different write is
pending, and the logs that the broker leads on that disk have grown. But logs also grow in the page cache of a disk that does not answer at all: on
XFS, a broker that gets little accepted records for more than two minutes so. So growth counts only for as long as a slow disk may take.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from spindle.model.view import KafkaView

SURELY_SECONDS: Final = (
    120  # after which a pending write is a hang whatever grows; the kernel's hung_task_timeout_secs
)


@dataclass(frozen=True)
class HangEvidence:
    """One observation of a disk that is reported as hung.

    Attributes:
        write: which write of the agent is pending; None if it does not report that.
        seconds: for how long, in coarse steps.
        ends: hash of the sizes of the logs that the broker leads on the disk; None if it could not be asked.
    """

    write: int | None
    seconds: int
    ends: str | None


def ends(view: KafkaView, broker: int, path: str) -> str | None:
    """A hash of the sizes of the logs on a dir that its broker leads; None if they are not known.

    The broker has the sizes in memory: nothing has to be read from the disk.
    """
    known = (view.brokers or {}).get(broker)
    log_dir = next((d for d in (known.log_dirs if known else None) or () if d.path == path), None)
    if log_dir is None or log_dir.error or view.partitions is None:
        return None
    there = view.partition_index.by_key
    found = sorted(
        (*key, size)
        for key, size in log_dir.replicas.items()
        if (p := there.get(key)) is not None and p.leader == broker
    )
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def moved(before: HangEvidence | None, now: HangEvidence) -> bool:
    """Whether something was appended to the logs led from the disk since the previous observation."""
    return before is not None and None not in (before.ends, now.ends) and before.ends != now.ends


def confirms(before: HangEvidence | None, now: HangEvidence) -> bool:
    """Whether this observation shows the same write pending for longer than the previous one, and no progress in between, or none that counts."""
    return (
        before is not None
        and now.write is not None
        and before.write == now.write
        and now.seconds > before.seconds
        and (now.seconds >= SURELY_SECONDS or not moved(before, now))
    )


def later(before: HangEvidence | None, now: HangEvidence) -> HangEvidence:
    """The observation to compare the next one with: the first one that shows the same as this one."""
    same = before is not None and before.write == now.write and not moved(before, now)
    return before if same and before is not None else now


def render(noted: Mapping[str, HangEvidence]) -> str:
    """Evidence by disk as the text of an annotation."""
    return json.dumps({disk: asdict(e) for disk, e in sorted(noted.items())}, separators=(",", ":"))


def parse(text: str | None) -> dict[str, HangEvidence]:
    """Parse what `render` wrote; invalid text counts as no observation."""
    try:
        return {str(disk): HangEvidence(**entry) for disk, entry in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}
