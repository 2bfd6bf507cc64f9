"""What a steady look at Kubernetes costs the operator, by lists and from watches: CPU, requests, bytes. The server is a stand-in in a process of its own.

.venv/bin/python -m bench.fleet.kubernetes [BROKERS ...]
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from bench.fleet.shape import DISKS
from spindle.api import names
from spindle_operator.kinds import (
    BUDGET,
    CLAIM,
    CONFIG_MAP,
    KAFKA_BROKER,
    KAFKA_REBALANCE,
    KAFKA_TOPIC,
    KAFKA_USER,
    NETWORK_POLICY,
    NODE,
    POD,
    SECRET,
    SERVICE,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from spindle_operator.kube import Kube
from spindle_operator.mirror import Mirror
from spindle_operator.observe import _Reader
from spindle_operator.rebalance_cache import RebalanceCache

_PORT = 19092
_LOOKS = 5
# Objects for each broker, and bytes of one: as the API server lists them, with managedFields.
_OBJECTS: Mapping[Kind, tuple[int, int]] = {
    POD: (1, 14_000),
    CLAIM: (DISKS, 2_500),
    VOLUME: (DISKS, 1_800),
    NODE: (1, 9_000),
    KAFKA_BROKER: (1, 22_000),
    CONFIG_MAP: (1, 6_000),
    SECRET: (1, 7_000),
    SERVICE: (0, 2_000),
    BUDGET: (0, 1_500),
    NETWORK_POLICY: (0, 1_500),
    STORAGE_CLASS: (0, 1_000),
    KAFKA_TOPIC: (0, 1_000),
    KAFKA_USER: (0, 1_000),
    KAFKA_REBALANCE: (-1, 1_000),  # none
}


def _object(kind: Kind, number: int, size: int) -> dict[str, Any]:
    meta = {
        "name": f"{kind.plural}-{number:06}",
        "uid": f"{kind.plural}-{number}",
        "resourceVersion": "100",
        "labels": {names.LABEL_CLUSTER: "demo"},
        "managedFields": [{"f:spec": {f"f:field{i}": {} for i in range(size // 60)}}],
        **({"namespace": "kafka"} if kind.namespaced else {}),
    }
    return {
        "metadata": meta,
        "spec": {f"field{i}": {"name": f"value {i}", "number": i} for i in range(size // 90)},
    }


def serve(brokers: int) -> None:
    """Answer lists page by page, and keep watches open."""
    pages: dict[str, list[bytes]] = {}
    for kind, (each, size) in _OBJECTS.items():
        objects = [json.dumps(_object(kind, number, size)) for number in range(max(0, each * brokers or 3))]
        parts = [objects[start : start + 500] for start in range(0, len(objects), 500)] or [[]]
        pages[kind.plural] = [
            (
                '{"metadata":{"resourceVersion":"100"'
                + (f',"continue":"{number + 1}"' if number + 1 < len(parts) else "")
                + '},"items":['
                + ",".join(part)
                + "]}"
            ).encode()
            for number, part in enumerate(parts)
        ]

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(600)
            return response
        found = pages[request.path.rsplit("/", 1)[-1]]
        return web.Response(
            body=found[int(request.query.get("continue", 0))], content_type="application/json"
        )

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    web.run_app(app, host="127.0.0.1", port=_PORT, print=lambda *_: None)


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
    mirror = Mirror(kube, 1 << 40, lambda *_: None)  # the size of the objects is made up
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
    reader = _Reader(kube, cluster, mirror, held)
    reader._within._left = 1 << 40  # noqa: SLF001 - likewise
    lists, _ = await asyncio.gather(reader.lists(), reader.rebalances(RebalanceCache()))
    return sum(len(found) for found in lists.values()), reader.problems


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int, nargs="*", default=[100, 300, 1000])
    for brokers in parser.parse_args().brokers:
        sys.stdout.write(f"{brokers} brokers\n")
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(brokers,), daemon=True)
        server.start()
        try:
            _wait()
            asyncio.run(measure())
        finally:
            server.kill()
            server.join()


def _wait() -> None:
    for _ in range(6000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", _PORT)) == 0:
                return
        time.sleep(0.1)  # noqa: TID251 - another process starts
    raise RuntimeError("the server did not start")


if __name__ == "__main__":
    main()
