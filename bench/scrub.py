"""The benchmark of the scrubber: how near it keeps to its pace, what it costs, and how fast checksums are made.

    python -m bench.scrub [--mb 1500] [--rates 2 10 30] [--seconds 20] [--segment-mb 32] [--batch 16000] [--flat-out 3]

Segments of batches as a broker writes them lie on a loop-mounted XFS of this machine; the agent's own process for a disk reads them, past
the page cache, at each rate that is given (MB/s), and without a limit, next to plain direct reads of the same files. Checksums: the CRC-32C that the agent uses and google-crc32c alone, one after the other
over the same bytes in the same process, in batches of 16 KB and of 1 MB. Memory: what that process has alone at its highest, beside what it
shares with the agent that it was forked from; it grows with the index of a segment (``--segment-mb 1000 --batch 4000`` is the largest
that Kafka's defaults make).
"""

import argparse
import mmap
import os
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import crc32c
import google_crc32c
from rich.console import Console
from rich.table import Table

from bench.page_cache import forget
from spindle.model.disk_identity import Identity, render_identity
from spindle.scrub.catalog import file_name
from spindle.scrub.rate import piece
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.probing.messages import LARGEST, decode
from spindle_agent.scrub.messages import Scrub, Scrubbed
from tests.kafka.disks import Disk, unmount_all_below

_Sum = Callable[[bytes], int]

_MB: Final = 1_000_000
_CLUSTER: Final = "bench"
_ID: Final = "A" * 22
_ROUNDS: Final = 5
_UNBOUND: Final = 100_000 * _MB
_LOOK: Final = 0.02  # seconds between two looks
_WARM: Final = 3.0  # seconds before the pace is taken
_pause: Final = threading.Event()  # nobody sets it


@dataclass(frozen=True)
class Pace:
    """Bytes per second: set, and read; the share of one core that it took; and bytes of memory that are its own, at the most."""

    set: float
    read: float
    core: float
    memory: int

    @property
    def off(self) -> float:
        """How far from what was set, as a share of it."""
        return self.read / self.set - 1


def write_segments(folder: Path, size: int, segment: int, batch_size: int) -> None:
    """A partition with contiguous segments of random batches, indexed every few batches, and an empty active one."""
    folder.mkdir(parents=True)
    offset = 0
    for _ in range(max(1, size // segment)):
        base = offset
        data, index, times = bytearray(), bytearray(), bytearray()
        while len(data) < segment:
            index += struct.pack(">ii", offset - base, len(data))
            times += struct.pack(">qi", 1000 + offset, offset - base)
            data += batch(offset, batch_size)
            offset += 1
        for extension, content in (("log", data), ("index", index), ("timeindex", times)):
            (folder / file_name(base, extension)).write_bytes(bytes(content))
    (folder / file_name(offset, "log")).touch()
    os.sync()
    for file in folder.iterdir():
        os.utime(file, (time.time() - 3600,) * 2)


def batch(offset: int, size: int) -> bytes:
    """One batch of one record, of random bytes."""
    body = struct.pack(">hiqqqhii", 0, 0, 1000 + offset, 1000 + offset, -1, -1, -1, 1) + os.urandom(size)
    return struct.pack(">qiibI", offset, len(body) + 9, 0, 2, crc32c.crc32c(body)) + body


def measure(fork_server: ForkServer, volume: Path, rate: int, seconds: float) -> Pace:
    """Let a process read at a rate for a while, everything anew."""
    (volume / ".spindle-scrub").unlink(missing_ok=True)
    order = Scrub(
        path=str(volume),
        cluster_id=_CLUSTER,
        node_id=0,
        disk="disk0",
        directory_id=_ID,
        rate=rate,
        every_days=30,
    )
    before = children(fork_server.pid)
    channel = fork_server.spawn(order)
    channel.setblocking(True)
    try:
        first = last = _said(channel, _WARM)
        (pid,) = children(fork_server.pid) - before
        began, used, memory = time.monotonic(), cpu(pid), own_memory(pid)
        while time.monotonic() - began < seconds:
            last = _said(channel, 0)
            memory = max(memory, own_memory(pid))
        took = time.monotonic() - began
        return Pace(rate, (last.read - first.read) / took, (cpu(pid) - used) / took, memory)
    finally:
        channel.close()


def flat_out(fork_server: ForkServer, image: Path, volume: Path) -> tuple[float, float]:
    """Let a process read everything without a pause; bytes per second, and the share of a core that it took."""
    (volume / ".spindle-scrub").unlink(missing_ok=True)
    order = Scrub(
        path=str(volume), cluster_id=_CLUSTER, node_id=0, disk="disk0", directory_id=_ID, rate=_UNBOUND, every_days=30
    )  # fmt: skip
    before = children(fork_server.pid)
    forget([image])
    channel = fork_server.spawn(order)
    try:
        while not (mine := children(fork_server.pid) - before):
            _pause.wait(_LOOK)
        (pid,), size = mine, sum(path.stat().st_size for path in (volume / "log").rglob("*.log"))
        looks = [(time.monotonic(), from_disk(pid), cpu(pid))]
        while looks[-1][1] < 0.95 * size:
            _pause.wait(_LOOK)
            looks.append((time.monotonic(), from_disk(pid), cpu(pid)))
    finally:
        channel.close()
    start, first, used = next(look for look in looks if look[1] > 0.05 * size)
    end, last, taken = looks[-1]
    return (last - first) / (end - start), (taken - used) / (end - start)


def plainly(image: Path, volume: Path) -> float:
    """Bytes per second of direct reads of the same files, one after the other, in the same pieces."""
    forget([image])
    began, size, buffer = time.perf_counter(), 0, mmap.mmap(-1, piece(_UNBOUND))
    for path in sorted((volume / "log").rglob("*.log")):
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        at = 0
        while count := os.preadv(file, [buffer], at):
            at += count
        size += at
        os.close(file)
    return size / (time.perf_counter() - began)


def both(fork_server: ForkServer, image: Path, volume: Path, scrub_first: bool) -> tuple[float, float, float]:
    """`plainly` and `flat_out`; what comes second may find more in the caches below this machine."""
    if scrub_first:
        rate, core = flat_out(fork_server, image, volume)
        return plainly(image, volume), rate, core
    return plainly(image, volume), *flat_out(fork_server, image, volume)


def from_disk(pid: int) -> int:
    """Bytes that a process has had read from disks."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def _said(channel: socket.socket, after: float) -> Scrubbed:
    """The first word that comes later than so many seconds from now."""
    until = time.monotonic() + after
    while True:
        report = decode(channel.recv(LARGEST))
        if time.monotonic() >= until:
            assert isinstance(report, Scrubbed)  # noqa: S101 - nothing else is said there
            return report


def children(pid: int) -> set[int]:
    """Processes that a process has started."""
    return {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def own_memory(pid: int) -> int:
    """Bytes of memory that a process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024


def cpu(pid: int) -> float:
    """Seconds of processor that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def checksums(size: int) -> list[tuple[str, float]]:
    """Bytes per second of each library over pieces of a size; the median of some rounds, in turn."""
    known: dict[str, _Sum] = {"crc32c (the agent's)": crc32c.crc32c, "google-crc32c": google_crc32c.value}
    data = os.urandom(64 * _MB)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    rates: dict[str, list[float]] = {name: [] for name in known}
    for _ in range(_ROUNDS):
        for name, function in known.items():
            began = time.perf_counter()
            for each in pieces:
                function(each)
            rates[name].append(len(data) / (time.perf_counter() - began))
    return [(name, statistics.median(found)) for name, found in rates.items()]


def main() -> int:
    """Run it; exits with 1 where the pace is more than a tenth off."""
    parser = argparse.ArgumentParser(prog="bench.scrub")
    parser.add_argument("--mb", type=int, default=1500, help="what there is to be read")
    parser.add_argument("--rates", type=float, nargs="+", default=[2, 10, 30], help="MB/s")
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    parser.add_argument("--segment-mb", type=int, default=32, help="size of a segment")
    parser.add_argument(
        "--batch", type=int, default=16_000, help="bytes of a batch, each with an entry in the index"
    )
    parser.add_argument("--flat-out", type=int, default=3, help="rounds without a limit")
    args = parser.parse_args()
    fork_server = ForkServer.start()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        volume = Path(folder) / "disk0"
        image = Path(folder) / "disk.img"
        disk = Disk(image, size=(args.mb + 700) * _MB)
        try:
            disk.mount(volume)
            (volume / "spindle.json").write_text(render_identity(Identity(_CLUSTER, 0, "disk0", _ID), None))
            write_segments(volume / "log" / "bench-0", args.mb * _MB, args.segment_mb * _MB, args.batch)
            flat = [both(fork_server, image, volume, number % 2 == 1) for number in range(args.flat_out)]
            paces = [measure(fork_server, volume, int(rate * _MB), args.seconds) for rate in args.rates]
        finally:
            unmount_all_below(Path(folder))
    table = Table("set", "read", "off", "of a core", "memory of its own", title="Pace of one disk's process")
    for pace in paces:
        table.add_row(
            f"{pace.set / _MB:.1f} MB/s",
            f"{pace.read / _MB:.2f} MB/s",
            f"{pace.off:+.1%}",
            f"{pace.core:.1%}",
            f"{pace.memory / _MB:.0f} MB",
        )
    console.print(table)
    table = Table("plain reads", "scrubbed", "of plain reads", "of a core", title="Without a limit, MB/s")
    for plain, rate, core in flat:
        table.add_row(f"{plain / _MB:.0f}", f"{rate / _MB:.0f}", f"{rate / plain:.0%}", f"{core:.0%}")
    console.print(table)
    table = Table("library", "16 KB", "1 MB", title="CRC-32C, GB/s, one core")
    small, large = checksums(16_384), checksums(1 << 20)
    for (name, one), (_, other) in zip(small, large, strict=True):
        table.add_row(name, f"{one / 1e9:.2f}", f"{other / 1e9:.2f}")
    console.print(table)
    return 1 if any(abs(pace.off) > 0.1 for pace in paces) else 0


if __name__ == "__main__":
    sys.exit(main())
