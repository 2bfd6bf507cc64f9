"""What a steady look at Kubernetes costs the operator, by lists and from watches: CPU, requests, bytes. The server is a stand-in in a process of its own.

.venv/bin/python -m bench.fleet.kubernetes [BROKERS ...]
"""

import argparse
import asyncio
import multiprocessing
import resource
import socket
import subprocess
import sys
import time
from typing import Any

from kubernetes.aio.client.configuration import Configuration

from spindle_operator.kube import Kube
from spindle_operator.mirror import Mirror
from spindle_operator.observe import _Reader
from spindle_operator.rebalance_cache import RebalanceCache
from spindle_shared.freed_memory import use_one_heap

_PORT = 19092
_LOOKS = 5


class _Counting(Kube):
    """Counts requests."""

    requests = 0

    async def request(self, *args: Any, **more: Any) -> dict[str, Any]:
        self.requests += 1
        return await super().request(*args, **more)


async def measure() -> None:
    """Several looks by lists, then from watches, then by lists while the watches run, as a pass that writes looks; the median of each counts."""
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{_PORT}"
    kube = _Counting(configuration)
    mirror = Mirror(kube, 1 << 40, lambda *_: None)  # no limit
    cluster = {"metadata": {"name": "demo", "namespace": "kafka"}}
    for how, source, held in (
        ("lists", None, None),
        ("watches", mirror, None),
        ("lists beside watches", None, mirror),
    ):
        if source is not None:
            await _reading(kube, cluster, source)  # starts the watches
            await asyncio.sleep(20)
        figures = []
        for _ in range(_LOOKS):
            before, cpu, began = kube.requests, time.process_time(), time.monotonic()
            read, problems = await _reading(kube, cluster, source, held)
            figures.append(
                (
                    time.process_time() - cpu,
                    time.monotonic() - began,
                    kube.requests - before,
                    read,
                    len(problems),
                )
            )
        cpu, took, requests, read, failed = sorted(figures)[len(figures) // 2]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(
            f"  {how}: {cpu:.3f} s of CPU, {took:.2f} s, {requests} requests, {read} objects, {failed} kinds failed, peak {peak:.0f} MiB\n"
        )
        sys.stdout.flush()
    await mirror.close()
    await kube.close()


async def _reading(
    kube: Kube, cluster: dict[str, Any], mirror: Mirror | None, held: Mirror | None = None
) -> tuple[int, dict[str, str]]:
    reader = _Reader(kube, cluster, 1 << 40, mirror, held)
    lists, _ = await asyncio.gather(reader.lists(), reader.rebalances(RebalanceCache()))
    return sum(len(found) for found in lists.values()), reader.problems


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int, nargs="*", default=[100, 300, 1000])
    for brokers in parser.parse_args().brokers:
        sys.stdout.write(f"{brokers} brokers\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "bench.fleet.api_server", str(brokers), str(_PORT)]
        with subprocess.Popen(command) as server:
            try:
                _wait()
                # In a process of its own, whose peak is that of this size.
                measuring = multiprocessing.get_context("spawn").Process(target=_measured)
                measuring.start()
                measuring.join()
                if measuring.exitcode:
                    raise SystemExit(measuring.exitcode)
            finally:
                server.kill()


def _measured() -> None:
    use_one_heap()  # as the operator does
    asyncio.run(measure())


def _wait() -> None:
    for _ in range(6000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", _PORT)) == 0:
                return
        time.sleep(0.1)  # noqa: TID251 - another process starts
    raise RuntimeError("the server did not start")


if __name__ == "__main__":
    main()
