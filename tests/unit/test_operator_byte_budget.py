"""What one look may read of a namespace: whoever makes objects there ends it for that KafkaCluster alone."""

import asyncio
import contextlib
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from spindle.model.allowed import Allowed
from spindle_operator import observe as module
from spindle_operator.kinds import CONFIG_MAP, KAFKA_REBALANCE
from spindle_operator.kube import ByteBudget, Kube
from spindle_operator.observe import Surroundings, observe
from spindle_shared.api_answers import ApiError
from tests.unit.operator_fakes import FakeKube, cluster
from tests.unit.test_operator_observe import Gate

LARGE = {"x": "x" * 20_000}
CHUNK = b"x" * 65_536


async def test_a_list_without_end_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(2000):
                await response.write(CHUNK)
                sent += 1
        return response

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/ns/configmaps", endless)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    kube = Kube(Configuration(host=f"http://{host}:{port}"))
    try:
        with pytest.raises(ApiError, match="more than 1 MiB") as told:
            await asyncio.wait_for(kube.items(CONFIG_MAP, "ns", within=ByteBudget(1 << 20)), 30)
    finally:
        await kube.close()
        await runner.cleanup()
    assert told.value.reason == "TooMuch"
    assert sent < 1000


async def test_a_namespace_with_too_much_in_it_is_unknown_and_nodes_are_known(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "LOOK", 10_000)
    kube = FakeKube()
    assert not (await observe(kube, cluster(), Gate(), Surroundings("image"))).snapshot.unknown
    kube.objects["/api/v1/namespaces/ns/configmaps/large"] = {
        "metadata": {"name": "large", "labels": {}},
        "data": {"x": "x" * 20_000},
    }
    kube.objects["/api/v1/nodes/n"] = {"metadata": {"name": "n", "annotations": {"x": "x" * 20_000}}}
    seen = await observe(kube, cluster(), Gate(), Surroundings("image"))
    assert "configmaps" in seen.snapshot.unknown
    assert "nodes" not in seen.snapshot.unknown
    assert "too many or too large objects" in seen.problems["configmaps"]


async def test_more_is_read_where_more_disks_are_allowed(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "LOOK", 10_000)
    kube = FakeKube()
    kube.objects["/api/v1/namespaces/ns/configmaps/large"] = {
        "metadata": {"name": "large", "labels": {}},
        "data": {"x": "x" * 15_000},
    }
    seen = await observe(kube, cluster(), Gate(), Surroundings("image", allowed=Allowed(disks=9_999)))
    assert "configmaps" not in seen.snapshot.unknown


async def test_annotations_of_kafkarebalances_count_too(monkeypatch: Any) -> None:
    """Each may have 256 KiB of them, and a user may create any number."""
    monkeypatch.setattr(module, "LOOK", 10_000)
    kube = FakeKube()
    kube.objects[KAFKA_REBALANCE.path("ns", "large")] = {
        "metadata": {"name": "large", "uid": "u", "resourceVersion": "1", "annotations": LARGE},
        "spec": {"cluster": "demo", "moves": []},
    }
    seen = await observe(kube, cluster(), Gate(), Surroundings("image"))
    assert "kafkarebalances" in seen.snapshot.unknown
