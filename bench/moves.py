"""The benchmark of moves between the dirs of a broker: how fast, next to a plain copy, and how near to their cap.

    python -m bench.moves [--mb 200] [--logs 1] [--caps 20 3] [--uncapped 2]

A real broker (one of each, on loop-mounted disks of this machine) has so many megabytes in one or several logs, and the agent's own
parts move them to and fro between two disks. Around the moves the same files are copied by reading and writing them in order, from the
same disk to the same disk: the median of these copies is what a move is measured against. Both end when the target's file system has
everything on the disk, and both begin without the files in memory.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.page_cache import forget
from spindle_operator import kafka_commands
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.kafka.proposals import Proposals, until

_MB: Final = 1_000_000
_CHUNK: Final = 1 << 20
_TOPIC: Final = "bench"
_UNBOUND: Final = 10_000 * _MB
_WINDOW: Final = (
    12.0  # seconds: Kafka limits the average of eleven, so what was not used before may be copied at once
)


@dataclass(frozen=True)
class Run:
    """One measurement.

    Attributes:
        what: ``copy``, or the cap of a move in bytes per second.
        bytes: that were copied.
        seconds: until they were all on the target's disk.
        steady: bytes per second between the first and the last look at a copy that grows, its beginning and its taking over left out.
    """

    what: str
    bytes: int
    seconds: float
    cap: int | None = None
    steady: float | None = None

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds


def segments(log_dir: Path) -> list[Path]:
    """The files with records of all logs of the topic, in order."""
    return sorted(log_dir.glob(f"{_TOPIC}-*/*.log"))


def plain_copy(log_dir: Path, target: Path) -> Run:
    """Copy a dir's files to another disk in order, as one sequential stream."""
    forget(segments(log_dir))
    began, copied = time.perf_counter(), 0
    scratch = target / "copy"
    with scratch.open("wb") as out:
        for path in segments(log_dir):
            with path.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    out.write(chunk)
                    copied += len(chunk)
        out.flush()
        os.fsync(out.fileno())
    seconds = time.perf_counter() - began
    scratch.unlink()
    return Run("copy", copied, seconds)


def flush(log_dir: Path) -> None:
    """Have everything that has arrived in a dir on its disk."""
    for path in segments(log_dir):
        with path.open("rb") as opened:
            os.fsync(opened.fileno())


async def move(reconciler: Proposals, logs: int, source: str, target: str, cap: int) -> Run:
    """Move the logs with the agent's own parts; from the beginning of the first until all have taken over and are on the disk."""
    reconciler.status = {}
    reconciler.spec |= {
        "moves": [
            {"topic": _TOPIC, "partition": number, "fromDir": source, "toDir": target}
            for number in range(logs)
        ],
        "throttleBytesPerSecond": cap,
        "throttleBytesPerSecondMin": cap,
    }
    async with reconciler.agent() as session:
        await until("one is copied", lambda: "Copying" in reconciler.states())
        began = time.perf_counter()
        looks: list[tuple[float, int]] = []

        def arrived() -> bool:
            sizes = copied(reconciler.status["moves"])
            if "Copying" in reconciler.states() and sizes and (not looks or sizes != looks[-1][1]):
                looks.append((time.perf_counter(), sizes))
            return reconciler.states() == ["Done"] * logs

        await until("all have arrived", arrived, 900)
        await asyncio.to_thread(flush, Path(target))
        seconds = time.perf_counter() - began
        size = sum(int(each["bytes"]) for each in reconciler.status["moves"])
        session.wants({**reconciler.spec, "moves": []})
        await until("the throttle is put back", lambda: "throttle" not in reconciler.status)
        await reconciler.until_throttled(None)  # or the next move begins with this one's
    return Run(f"{cap / _MB:.0f} MB/s", size, seconds, cap, steady(looks))


def copied(moves: list[dict[str, Any]]) -> int:
    """Bytes of all logs that have reached the target."""
    return sum(int(each.get("bytes" if each["state"] == "Done" else "copied", 0)) for each in moves)


def steady(looks: list[tuple[float, int]]) -> float | None:
    """Bytes per second over most of a copy; None if it was over before that could be seen."""
    if len(looks) < 5:
        return None
    (start, first), (end, last) = looks[0], looks[-1]
    return (last - first) / (end - start)


async def measure(cluster: Cluster, logs: int, caps: list[int]) -> list[Run]:
    """Copies and moves in turn, each from where the last move left the logs."""
    reconciler, runs = Proposals(cluster), []
    paths = [cluster.brokers[0].log_dir(name) for name in ("disk0", "disk1")]
    for cap in caps:
        here = (await reconciler.dirs())[_TOPIC, 0]
        there = next(path for path in paths if path != here)
        runs.append(await asyncio.to_thread(plain_copy, Path(here), Path(there).parent))
        forget(segments(Path(here)))
        await asyncio.sleep(_WINDOW)
        runs.append(await move(reconciler, logs, here, there, cap))
        await until_deleted(Path(here))
    return runs


async def until_deleted(log_dir: Path) -> None:
    """Wait until Kafka has deleted what moved away: it would go on working beside the next copy."""
    await until("the old logs are deleted", lambda: not list(log_dir.glob(f"{_TOPIC}-*")), 120)


def values(size: int) -> Iterator[bytes]:
    """Records that do not compress."""
    for _ in range(0, size, 500_000):
        yield random.randbytes(500_000)  # noqa: S311 - filling, no secret


def fill(cluster: Cluster, megabytes: int, logs: int) -> None:
    """Write the logs, all to the first disk."""
    cluster.make_topic(_TOPIC, [[0]] * logs)
    first = cluster.brokers[0].log_dir("disk0")
    link = cluster.link()
    try:
        kafka_commands.place(link, 0, [(_TOPIC, number, first) for number in range(logs)])
    finally:
        link.close()
    wait_for("all logs on one disk", lambda: len(list(Path(first).glob(f"{_TOPIC}-?"))) == logs)
    for number in range(megabytes // 10):  # a few at a time: a busy machine is slow to acknowledge
        cluster.produce(_TOPIC, number % logs, values(10 * _MB), request_timeout_ms=120_000, acks=1)


def table(runs: list[Run]) -> Table:
    """What came of it."""
    plain = statistics.median(run.rate for run in runs if run.cap is None)
    made = Table("run", "MB", "s", "MB/s", "of a copy", "steady, of the cap")
    for run in runs:
        bound = run.cap is not None and run.cap < _UNBOUND
        made.add_row(
            "move, no cap" if run.cap == _UNBOUND else f"move, {run.what}" if run.cap else run.what,
            f"{run.bytes / _MB:.0f}",
            f"{run.seconds:.1f}",
            f"{run.rate / _MB:.1f}",
            f"{run.rate / plain:.0%}" if run.cap else "",
            f"{run.steady / run.cap:.1%}" if bound and run.cap and run.steady else "",
        )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(
        prog="bench.moves", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--mb", type=int, default=200, help="size of all logs together")
    parser.add_argument("--logs", type=int, default=1, help="number of logs; the agent copies two at a time")
    parser.add_argument("--uncapped", type=int, default=2, help="number of moves without a cap")
    parser.add_argument("--caps", type=float, nargs="*", default=[20, 3], help="in MB/s, besides none")
    options = parser.parse_args(arguments)
    more = {"log.segment.bytes": str(64 << 20), "log.segment.delete.delay.ms": "1000"}
    with tempfile.TemporaryDirectory(prefix="bench-moves-") as folder:
        size = 4 * options.mb * _MB + (320 << 20)
        cluster = Cluster(Path(folder) / "kafka", brokers=1, disks=2, config=more, disk_size=size)
        try:
            cluster.up()
            cluster.let_agent()
            fill(cluster, options.mb, options.logs)
            caps = [*(int(cap * _MB) for cap in options.caps), *[_UNBOUND] * options.uncapped]
            runs = asyncio.run(measure(cluster, options.logs, caps))
        finally:
            cluster.down()
    Console(width=110).print(table(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
