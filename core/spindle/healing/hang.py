"""Evidence of a hang, looked at twice: a disk counts as hung only if between two looks nothing shows that it still works.

A machine so loaded that each write takes ten seconds has disks that look hung in any one look. The write that is pending in the next look is then
another one, and what the broker leads from that disk has grown.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from spindle.cluster.view import KafkaView


@dataclass(frozen=True)
class HangEvidence:
    """What one look shows of a disk that is called hung.

    Attributes:
        write: which write of the agent's is pending; None if it does not say.
        seconds: for how long, in coarse steps.
        ends: of how far the logs are that the broker leads from there; None if it could not be asked.
    """

    write: int | None
    seconds: int
    ends: str | None


def ends(view: KafkaView, broker: int, path: str) -> str | None:
    """Of how far the logs on a dir are that its broker leads, as a hash; None if that is not known.

    By their sizes, as the broker itself has them in memory: nothing has to be read from the disk.
    """
    known = (view.brokers or {}).get(broker)
    log_dir = next((d for d in (known.log_dirs if known else None) or () if d.path == path), None)
    if log_dir is None or log_dir.error or view.partitions is None:
        return None
    led = {(p.topic, p.index) for p in view.partitions if p.leader == broker}
    found = sorted((*key, size) for key, size in log_dir.replicas.items() if key in led)
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def moved(before: HangEvidence | None, now: HangEvidence) -> bool:
    """Whether something was appended to what is led from the disk since the look before."""
    return before is not None and None not in (before.ends, now.ends) and before.ends != now.ends


def confirms(before: HangEvidence | None, now: HangEvidence) -> bool:
    """Whether this look shows the same write pending for longer than the one before, and nothing moved in between."""
    return (
        before is not None
        and now.write is not None
        and before.write == now.write
        and now.seconds > before.seconds
        and not moved(before, now)
    )


def later(before: HangEvidence | None, now: HangEvidence) -> HangEvidence:
    """What to compare the next look with: the first one that shows what this one shows."""
    same = before is not None and before.write == now.write and not moved(before, now)
    return before if same and before is not None else now


def render(noted: Mapping[str, HangEvidence]) -> str:
    """Evidence by disk as the text of an annotation."""
    return json.dumps({disk: asdict(e) for disk, e in sorted(noted.items())}, separators=(",", ":"))


def parse(text: str | None) -> dict[str, HangEvidence]:
    """Read what `render` wrote; what can't be read counts as no look."""
    try:
        return {str(disk): HangEvidence(**entry) for disk, entry in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}
