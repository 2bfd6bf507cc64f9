"""While one cluster's Kafka stalls, floods or says nothing, the operator goes on with the other clusters, and each pass ends.

The operator is a real process that talks to a real API server; the Kafka is false. Its certificate is the real one, since the tenant has it.
"""

import asyncio
import base64
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer, free_ports
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import cluster
from tests.security.false_broker import FLOODS, SILENT, STALLS, FalseBroker, serving
from tests.security.nodes import some_nodes

pytestmark = [pytest.mark.kube, pytest.mark.slow]

TIME_OUT = 1.0  # seconds for one answer
LOOK = 10 * TIME_OUT  # seconds of a look at Kafka, in which there may be one more time-out
WATCHED = 30.0  # seconds: three looks
# Of a pass. With an answer that is waited for when the look ends, the connection's end, and what a small and busy machine adds.
LONGEST = LOOK + 20.0
SOON = 10.0  # seconds until the operator has reacted to a change of another cluster


class Directed(OperatorProcess):
    """An operator that finds brokers of every name at one port of this machine."""

    def __init__(self, server: ApiServer, namespace: str, folder: Path, port: int) -> None:
        super().__init__(server.kubeconfig, namespace, folder, f"--kafka-timeout={TIME_OUT:g}", "--resync=1")
        self._command[1:3] = ["-m", "tests.security.operator_at", str(port)]

    def figure(self, name: str, labels: str) -> float | None:
        """A number of its metrics; None while there is none."""
        found = re.search(rf"^{name}\{{{re.escape(labels)}\}} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else None


@pytest.fixture(autouse=True)
def _nodes(api_server: ApiServer) -> Iterator[None]:
    yield from some_nodes(api_server, 3)


def read(server: ApiServer, namespace: str, *what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(server.kubectl("-n", namespace, "get", *what, "-o", "json"))
    return found


def exists(server: ApiServer, namespace: str, *what: str) -> bool:
    return bool(server.kubectl("-n", namespace, "get", *what, "--ignore-not-found").strip())


def runs(server: ApiServer, namespace: str, pod: str) -> None:
    """As its kubelet says it."""
    kafka = {
        "name": "kafka",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "kafka",
        "imageID": "kafka",
    }
    status = {"status": {"phase": "Running", "containerStatuses": [kafka]}}
    server.kubectl(
        "-n", namespace, "patch", "pod", pod, "--subresource=status", "--type=merge", "-p", json.dumps(status)
    )


@contextlib.asynccontextmanager
async def false_kafka(
    how: str, server: ApiServer, namespace: str, folder: Path, port: int
) -> AsyncIterator[FalseBroker]:
    """Broker 0 of ``demo``, with its certificate, at that port."""
    secret = await asyncio.to_thread(read, server, namespace, "secret", "demo-broker-0-tls")
    made = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    broker = FalseBroker(how, 0.9 * TIME_OUT, f"demo-broker-0.demo-brokers.{namespace}.svc")
    async with serving(broker, made, folder, port):
        yield broker


def begins(server: ApiServer, namespace: str, operator: Directed) -> None:
    """Two clusters, of which ``demo`` has a broker that runs."""
    for name in ("demo", "other"):
        made = cluster()
        made["metadata"]["name"] = name
        server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(made))
    for what in (("pod", "demo-broker-0"), ("secret", "demo-broker-0-tls"), ("configmap", "other-pools")):
        until(" ".join(what), lambda: exists(server, namespace, *what), 120, lambda: operator.log)  # noqa: B023 - waited for at once
    runs(server, namespace, "demo-broker-0")


def reacts(server: ApiServer, namespace: str, threads: int, operator: Directed) -> float:
    """Seconds until a change of the other cluster's spec is in effect."""
    spec = {"spec": {"config": {"num.io.threads": str(threads)}}}
    server.kubectl("-n", namespace, "patch", "kafkacluster", "other", "--type=merge", "-p", json.dumps(spec))

    def in_effect() -> bool:
        record = read(server, namespace, "configmap", "other-pools")
        return f'"num.io.threads": "{threads}"' in record["data"]["_accepted"]

    return until("the other cluster's change", in_effect, 60, lambda: operator.log)


@pytest.mark.parametrize("how", [STALLS, FLOODS, SILENT])
async def test_the_other_clusters_go_on_and_each_pass_ends(
    how: str, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    mine = f'kafka_cluster="demo",namespace="{namespace}"'
    with Directed(api_server, namespace, tmp_path, port) as operator:
        await asyncio.to_thread(begins, api_server, namespace, operator)
        async with false_kafka(how, api_server, namespace, tmp_path, port) as broker:
            await asyncio.to_thread(
                until, "Kafka is looked at", lambda: broker.connections > 0, 60, lambda: operator.log
            )
            age = partial(operator.figure, "spindle_reconcile_age_seconds", mine)
            await asyncio.to_thread(
                until, "its first pass ended", lambda: age() is not None, LONGEST, lambda: operator.log
            )
            ends, threads = time.monotonic() + WATCHED, 9
            took: list[float] = []
            ages: list[float] = []
            while time.monotonic() < ends:
                threads += 1
                took.append(await asyncio.to_thread(reacts, api_server, namespace, threads, operator))
                seen = await asyncio.to_thread(age)
                assert seen is not None
                ages.append(seen)
                assert (await asyncio.to_thread(operator.get, "/healthz"))[0] == 200
                await asyncio.sleep(1)
        print(
            f"{how}: the other cluster took at most {max(took):.1f} s, {len(took)} times; passes of this one ended at most {max(ages):.1f} s ago"
        )
        assert broker.connections > 2, "it was looked at again and again"
        assert broker.pages > 0 or how == SILENT
        assert max(took) < SOON
        assert max(ages) < LONGEST
        assert operator.process.poll() is None
        status = (await asyncio.to_thread(read, api_server, namespace, "kafkacluster", "demo"))["status"]
        assert status["conditions"]
