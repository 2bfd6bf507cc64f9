"""How a start goes: what Kafka's metrics tell while it loads its logs, how much time that leaves, how long a stop may take.

A broker that was stopped cleanly opens its logs; one that was not reads each log from its recovery point on and checks it, which takes as long as the disks take to
deliver that. Kafka tells by `remainingLogsToRecover` and `remainingSegmentsToRecover` (KIP-831), which exist only meanwhile.
"""

import math
import re
from dataclasses import dataclass
from typing import Final

from spindle.cluster.start_kinds import KINDS

_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (-?[0-9.]+(?:[eE][-+]?[0-9]+)?)$", re.MULTILINE)
_KIND: Final = re.compile(r'kind="(\w+)"')

# A stop: Kafka hands over its leaders within five minutes or gives up, then flushes and closes its logs.
_HAND_OVER: Final = 330  # seconds
_CLOSE: Final = 0.05  # seconds for a log, on a slow disk
_UNWRITTEN: Final = 16 * 2**30  # bytes of a disk that may be in memory only
_SLOW_DISK: Final = 100 * 10**6  # bytes per second
_MOST: Final = 3600


@dataclass(frozen=True)
class Start:
    """What a process tells of its own start; None where it does not tell.

    Attributes:
        kind: one of `KINDS`.
        logs_left, segments_left: still to load; 0 once all are.
    """

    kind: str | None = None
    logs_left: int = 0
    segments_left: int = 0

    @property
    def loading(self) -> bool:
        """Whether it loads its logs."""
        return self.logs_left > 0


def read_start(text: str) -> Start:
    """From what a broker's metrics endpoint says, in Prometheus' text format."""
    kind, logs, segments = None, 0.0, 0.0
    for name, labels, value in _SAMPLE.findall(text):
        if name == "spindle_start" and (found := _KIND.search(labels)):
            kind = found[1] if found[1] in KINDS else None
        elif name == "kafka_log_LogManager_remainingLogsToRecover":
            logs += float(value)
        elif name == "kafka_log_LogManager_remainingSegmentsToRecover":
            segments += float(value)
    return Start(kind, int(logs), int(segments))


def seconds_left(began: float, most: int, now: float, left: int) -> float | None:
    """How long the rest takes at the pace so far; None before anything was done.

    Args:
        began: when so many were left.
        most: how many.
        now, left: the same now.
    """
    done = most - left
    if done <= 0 or now <= began:
        return None
    return left * (now - began) / done


def grace_seconds(replicas: int, fullest: int) -> int:
    """How long a broker may take to stop before it is killed, which would make its next start a dirty one.

    It is a bound: a broker ends as soon as it is done.

    Args:
        replicas: how many logs it has to close.
        fullest: bytes on its fullest disk; some of them may not be written yet.
    """
    seconds = _HAND_OVER + replicas * _CLOSE + min(fullest, _UNWRITTEN) / _SLOW_DISK
    return min(_MOST, math.ceil(seconds / 30) * 30)
