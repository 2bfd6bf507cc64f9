"""The cache against a real API server: what happens while it is disconnected, edits by hand."""

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from spindle.api import names
from spindle.reconcile.plan import plan
from spindle_operator import mirror as mirror_module
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import CONFIG_MAP, KAFKA_CLUSTER, KAFKA_REBALANCE, NODE
from spindle_operator.kube import Kube
from spindle_operator.mirror import Mirror
from spindle_operator.observe import LOOKED_AT, Surroundings, observe
from tests.kube.samples import broker as sample_broker

pytestmark = pytest.mark.kube


def config_map(name: str, **data: str) -> dict[str, Any]:
    meta = {"name": name, "labels": {names.LABEL_CLUSTER: "demo"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


@pytest.fixture
async def mirror(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mirror]:
    """A cache whose relists and pauses are short."""
    monkeypatch.setattr(mirror_module, "_PAUSES", (0.1, 0.2))
    made = Mirror(kube, 1 << 24, lambda *_: None)
    yield made
    await made.close()


async def until(mirror: Mirror, namespace: str, holds: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until the cached ConfigMaps are as they should be."""

    async def as_wanted() -> bool:
        found = await mirror.items(CONFIG_MAP, namespace, "demo", None)
        return found is not None and holds({each["metadata"]["name"]: each for each in found})

    async with asyncio.timeout(30):
        while not await as_wanted():  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.05)


async def test_it_follows_creation_edit_and_deletion_by_hand(
    kube: Kube, mirror: Mirror, namespace: str
) -> None:
    await kube.create(config_map("a"), namespace)
    await until(mirror, namespace, lambda held: set(held) == {"a"})
    made = await kube.create(config_map("b", key="1"), namespace)
    await kube.patch(CONFIG_MAP, namespace, "b", {"data": {"key": "2"}})
    await until(mirror, namespace, lambda held: "b" in held and held["b"]["data"] == {"key": "2"})
    await kube.delete(CONFIG_MAP, namespace, "b", made["metadata"]["uid"])
    await until(mirror, namespace, lambda held: set(held) == {"a"})
    await kube.patch(CONFIG_MAP, namespace, "a", {"metadata": {"labels": {names.LABEL_CLUSTER: None}}})
    await until(mirror, namespace, lambda held: held == {})  # as for a list by label


async def test_what_is_known_to_exist_is_in_the_answer(kube: Kube, mirror: Mirror, namespace: str) -> None:
    await kube.create(config_map("a"), namespace)
    await until(mirror, namespace, lambda held: set(held) == {"a"})
    for number in range(20):
        made = await kube.create(config_map(f"b{number}"), namespace)
        mirror.happened(CONFIG_MAP, made)
        found = await mirror.items(CONFIG_MAP, namespace, "demo", None)
        assert found is None or f"b{number}" in [each["metadata"]["name"] for each in found]


async def test_what_was_deleted_while_it_was_disconnected_is_gone(
    kube: Kube, mirror: Mirror, namespace: str
) -> None:
    made = await kube.create(config_map("a"), namespace)
    await kube.create(config_map("b"), namespace)
    await until(mirror, namespace, lambda held: set(held) == {"a", "b"})
    connector: Any = kube._watches().connector
    for connection in [*connector._acquired]:
        connection.transport.abort()  # the connections of all watches break
    await kube.delete(CONFIG_MAP, namespace, "a", made["metadata"]["uid"])
    await until(mirror, namespace, lambda held: set(held) == {"b"})


async def test_metadata_alone_and_kinds_without_a_namespace(
    kube: Kube, mirror: Mirror, namespace: str, cluster: dict[str, Any]
) -> None:
    assert cluster["kind"] == KAFKA_CLUSTER.kind
    async with asyncio.timeout(30):
        while None in (  # noqa: ASYNC110 - the server answers when it does
            await mirror.items(KAFKA_REBALANCE, namespace, None, None, whole=False),
            await mirror.items(NODE, None, None, None),
        ):
            await asyncio.sleep(0.05)


async def test_a_look_from_watches_is_the_look_by_lists_and_so_is_the_plan(
    kube: Kube, mirror: Mirror, namespace: str, cluster: dict[str, Any]
) -> None:
    """And a plan changes nothing of what the next pass reads."""
    await kube.create(sample_broker(), namespace)
    await kube.create(config_map("b"), namespace)
    await kube.create(config_map("a"), namespace)
    other = config_map("c")
    await kube.create(
        {**other, "metadata": {"name": "c", "labels": {names.LABEL_CLUSTER: "other"}}}, namespace
    )
    around, executor = Surroundings("image", rebalance_image="job"), KafkaExecutor("test", 1)

    async def known() -> bool:
        asked = [
            mirror.items(kind, namespace if kind.namespaced else None, "demo", None) for kind in LOOKED_AT
        ]
        return None not in await asyncio.gather(*asked)

    by_lists = await observe(kube, cluster, executor, around)
    async with asyncio.timeout(60):
        while True:
            cached = await observe(kube, cluster, executor, around, mirror=mirror)
            text = json.dumps(dataclasses.asdict(cached.snapshot), default=str, sort_keys=True)
            if await known() and len(cached.snapshot.config_maps) == 2 and cached.snapshot.brokers:
                break
            await asyncio.sleep(0.1)
    assert (by_lists.look.listed, cached.look.listed) == (True, False)
    assert cached.problems == by_lists.problems == {}
    now = time.time()
    cached_snapshot = dataclasses.replace(cached.snapshot, entropy=by_lists.snapshot.entropy)
    assert cached_snapshot == by_lists.snapshot
    assert plan(cached_snapshot, now) == plan(by_lists.snapshot, now)
    assert json.dumps(dataclasses.asdict(cached.snapshot), default=str, sort_keys=True) == text
