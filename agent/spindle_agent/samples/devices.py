"""I/O rates of the disks' devices between two samples, and the devices' kinds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle_agent.probing.diskstats import Traffic

_SYS: Final = "/sys/dev/block"
_UNITS: Final = ("B", "K", "M", "G", "T", "P", "E")


@dataclass(frozen=True)
class Rates:
    """Rates of one device over an interval; latencies are mean milliseconds per request, None without requests."""

    reads_per_s: float
    writes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    read_ms: float | None
    write_ms: float | None


def rates(before: Traffic, after: Traffic, seconds: float) -> Rates | None:
    """Rates between two readings of the counters; None if the counters were reset, for example for a replaced device."""
    reads, writes = after.reads - before.reads, after.writes - before.writes
    read, written = after.read_bytes - before.read_bytes, after.written_bytes - before.written_bytes
    read_ms, write_ms = after.read_ms - before.read_ms, after.write_ms - before.write_ms
    if min(reads, writes, read, written, read_ms, write_ms) < 0 or seconds <= 0:
        return None
    return Rates(
        reads_per_s=reads / seconds,
        writes_per_s=writes / seconds,
        read_bytes_per_s=read / seconds,
        write_bytes_per_s=written / seconds,
        read_ms=read_ms / reads if reads else None,
        write_ms=write_ms / writes if writes else None,
    )


def kind(device: str | None, capacity: int | None, sys: str = _SYS) -> str | None:
    """Class of comparable disks: ``rotational-4T``, ``ssd-512G``; ``unknown-1T`` if the kernel does not report the type.

    Sizes are rounded to a power of two, so that a file system slightly smaller than its device does not form a separate class.

    Args:
        device: ``major:minor``; None if there is none.
        capacity: bytes of the file system; without it there is no class.
        sys: folder in which the kernel describes block devices.
    """
    if not capacity:
        return None
    exponent = round(math.log2(capacity))
    size = f"{2 ** (exponent % 10)}{_UNITS[min(exponent // 10, len(_UNITS) - 1)]}"
    return f"{_made(device, sys)}-{size}"


def _made(device: str | None, sys: str) -> str:
    if device is None:
        return "unknown"
    for place in (
        "queue/rotational",
        "../queue/rotational",
    ):  # of the device, or of the device that it is a partition of
        try:
            said = Path(f"{sys}/{device}/{place}").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        return "rotational" if said == "1" else "ssd"
    return "unknown"


def between(
    before: Mapping[str, Traffic], after: Mapping[str, Traffic], device: str | None, seconds: float
) -> Rates | None:
    """Rates of one device; None if unknown."""
    if device is None or device not in before or device not in after:
        return None
    return rates(before[device], after[device], seconds)
