"""Progress of a broker's start from Kafka's metrics, the expected rest of the time, and the grace period of a stop.

After a clean shutdown a broker only opens its logs. After an unclean one it reads and checks each log from its recovery point, which takes
as long as the disks need for it. Kafka reports this as `remainingLogsToRecover` and `remainingSegmentsToRecover` (KIP-831), which exist
only during the recovery.
"""

import math
import re
from dataclasses import dataclass
from typing import Final

from spindle.api.enums import StartKind

_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (-?[0-9.]+(?:[eE][-+]?[0-9]+)?)$", re.MULTILINE)
_KIND: Final = re.compile(r'kind="(\w+)"')
# Anybody who controls a broker's pod can serve any text in place of metrics: numbers above these limits are cut, and no pass may fail for them.
_MOST_ITEMS: Final = 10**9
_LONGEST_REST: Final = 365 * 86400.0  # seconds

# A stop: Kafka moves its leaders away within five minutes or stops trying, then flushes and closes its logs.
_HAND_OVER: Final = 330  # seconds
_CLOSE: Final = 0.05  # seconds per log, on a slow disk
_UNWRITTEN: Final = 16 * 2**30  # bytes of a disk that may be only in the page cache
_SLOW_DISK: Final = 100 * 10**6  # bytes per second
_MOST: Final = 3600


@dataclass(frozen=True)
class Start:
    """What a Kafka process reports about its start.

    Attributes:
        kind: a `StartKind`; None if not reported.
        logs_left, segments_left: number still to load; 0 once all are loaded.
    """

    kind: str | None = None
    logs_left: int = 0
    segments_left: int = 0

    @property
    def loading(self) -> bool:
        """Whether it is loading its logs."""
        return self.logs_left > 0


def read_start(text: str) -> Start:
    """Parse the output of a broker's metrics endpoint in Prometheus text format. Names of pods of earlier versions have capital letters."""
    kind, logs, segments = None, 0, 0
    for name, labels, value in _SAMPLE.findall(text):
        if name == "spindle_start" and (found := _KIND.search(labels)):
            kind = found[1] if found[1] in tuple(StartKind) else None
        elif name.lower() == "kafka_log_logmanager_remaininglogstorecover":
            logs += _count(value)
        elif name.lower() == "kafka_log_logmanager_remainingsegmentstorecover":
            segments += _count(value)
    return Start(kind, min(logs, _MOST_ITEMS), min(segments, _MOST_ITEMS))


def _count(text: str) -> int:
    """A number of logs or segments; 0 if the text is none."""
    try:
        return int(min(max(float(text), 0.0), float(_MOST_ITEMS)))
    except ValueError:
        return 0


def seconds_left(began: float, most: int, now: float, left: int) -> float | None:
    """Expected seconds for the rest at the current rate; None without any progress, or if it would take more than a year.

    Args:
        began: start time.
        most: number of items left at the start.
        now, left: current time and number of items left.
    """
    done = most - left
    if done <= 0 or now <= began:
        return None
    rest = left * (now - began) / done
    return rest if rest <= _LONGEST_REST else None


def grace_seconds(replicas: int, fullest: int) -> int:
    """Seconds that a broker may take to stop before it is killed, which would cause log recovery at its next start.

    It is an upper bound: a broker exits as soon as it is done.

    Args:
        replicas: number of logs to close.
        fullest: bytes on its fullest disk; some of them may not be flushed yet.
    """
    seconds = _HAND_OVER + replicas * _CLOSE + min(fullest, _UNWRITTEN) / _SLOW_DISK
    return min(_MOST, math.ceil(seconds / 30) * 30)
