"""Moves between the dirs of a real broker: throttled, a few at a time, resumed, given up, refused."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from spindle.cluster import names
from spindle_agent.broker.keeper import Keeper
from spindle_agent.broker.link import Link
from spindle_agent.broker.wire import Access, Wire
from spindle_agent.moves.mover import Mover
from spindle_agent.options import parse
from tests.kafka.cluster import Cluster

BYTES = 2_000_000
THROTTLE = 400_000
NAME = ("test", "demo-broker-0")


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=3)
    made.up()
    made.ca.client(made.base / "agent", names.PRINCIPAL_AGENT)
    return made


class Secrets:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def of(self, namespace: str, cluster: str) -> tuple[bytes, bytes, bytes]:
        authority, certificate, key = (
            (self.folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")
        )
        return authority, certificate, key

    def doubt(self, namespace: str, cluster: str) -> None:
        pass


class Desk:
    """What stands around a keeper: the spec, and the status, which is written as soon as it is offered."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.status: dict[str, Any] = {}
        self.spec: dict[str, Any] = {"cluster": "demo", "id": 0, "moves": []}
        self.most_at_once = 0

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[Keeper]:
        """An agent's life; at its end it is gone without a word."""
        secrets = cast("Any", Secrets(self.cluster.base / "agent"))
        options = parse([f"--broker-host={self.cluster.brokers[0].address}"])
        mover = Mover("demo", self.status, lambda: self.status)
        keeper = Keeper(NAME, options, secrets, mover, lambda: self.told(mover))
        keeper.wants(self.spec)
        task = asyncio.create_task(keeper.run())
        try:
            yield keeper
        finally:
            task.cancel()
            await asyncio.wait([task])

    def told(self, mover: Mover) -> None:
        self.status = mover.fields()
        copying = [move for move in self.status["moves"] if move["state"] == "Copying"]
        self.most_at_once = max(self.most_at_once, len(copying))

    def states(self) -> list[str]:
        return [move["state"] for move in self.status.get("moves", ())]

    @contextlib.asynccontextmanager
    async def link(self) -> AsyncIterator[Link]:
        secrets = await Secrets(self.cluster.base / "agent").of("", "")
        access = Access(self.cluster.brokers[0].address, names.PORT_REPLICATION, *secrets)
        link = Link(Wire(access, 5), 0)
        try:
            yield link
        finally:
            link.close()

    async def throttle(self) -> str | None:
        async with self.link() as link:
            return await link.throttle()

    async def dirs(self) -> dict[tuple[str, int], str]:
        async with self.link() as link:
            return {replica: each.path for each in await link.log_dirs() for replica in each.replicas}

    async def copies(self) -> dict[tuple[str, int], str]:
        async with self.link() as link:
            return {replica: each.path for each in await link.log_dirs() for replica in each.copies}


async def until(what: str, question: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while True:
            answer = question()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(0.2)
    raise AssertionError(what)


async def some_moves(cluster: Cluster, desk: Desk, topic: str, partitions: int) -> list[dict[str, Any]]:
    """Full partitions, and moves of all of them to another dir each."""
    await asyncio.to_thread(cluster.make_topic, topic, [[0]] * partitions)
    for partition in range(partitions):
        values = [random.randbytes(50_000) for _ in range(BYTES // 50_000)]
        await asyncio.to_thread(cluster.produce, topic, partition, values)
    where = await desk.dirs()
    paths = [cluster.brokers[0].log_dir(name) for name in ("disk0", "disk1")]
    return [
        {
            "topic": topic,
            "partition": partition,
            "fromDir": where[topic, partition],
            "toDir": next(path for path in paths if path != where[topic, partition]),
        }
        for partition in range(partitions)
    ]


async def test_moves_go_on_where_a_killed_agent_left_them_and_leave_no_throttle(cluster: Cluster) -> None:
    desk = Desk(cluster)
    moves = await some_moves(cluster, desk, "resumed", 4)
    desk.spec |= {"moves": moves, "throttleBytesPerSecond": THROTTLE}
    async with desk.agent():
        await until("two are copied", lambda: desk.states().count("Copying") == 2)
        assert desk.status["throttle"] == {"ours": [str(THROTTLE)]}
        assert await desk.throttle() == str(THROTTLE)
        await until("some of it", lambda: any(move.get("copied") for move in desk.status["moves"]))
    assert "Copying" in desk.states()

    async with desk.agent():
        await until("all arrived", lambda: desk.states() == ["Done"] * 4, seconds=120)
        await until("the throttle is put back", lambda: "throttle" not in desk.status)
    assert await desk.throttle() is None
    assert desk.most_at_once == 2
    where = await desk.dirs()
    assert all(where["resumed", move["partition"]] == move["toDir"] for move in moves)
    assert all(move["copied"] == move["bytes"] >= BYTES for move in desk.status["moves"])


async def test_what_is_no_longer_wanted_is_given_up_and_a_former_throttle_comes_back(
    cluster: Cluster,
) -> None:
    desk = Desk(cluster)
    moves = await some_moves(cluster, desk, "unwanted", 1)
    async with desk.link() as link:
        await link.set_throttle("123456")
    desk.spec |= {"moves": moves, "throttleBytesPerSecond": 50_000}
    async with desk.agent() as keeper:
        await until("it is copied", lambda: desk.states() == ["Copying"])
        assert desk.status["throttle"] == {"before": "123456", "ours": ["50000"]}
        keeper.wants({**desk.spec, "moves": []})
        await until("no copy is left", desk_has_no_copy(desk))
        await until("the throttle is put back", lambda: "throttle" not in desk.status)
        await until("nothing is told of it", lambda: desk.states() == [])
    assert await desk.throttle() == "123456"
    where = await desk.dirs()
    assert where["unwanted", 0] == moves[0]["fromDir"]
    async with desk.link() as link:
        await link.set_throttle(None)


def desk_has_no_copy(desk: Desk) -> Callable[[], Any]:
    async def ask() -> bool:
        return not await desk.copies()

    return ask


async def test_nothing_moves_while_a_dir_is_offline(cluster: Cluster) -> None:
    desk = Desk(cluster)
    moves = await some_moves(cluster, desk, "held", 2)
    broker = cluster.brokers[0]
    where = await desk.dirs()
    if broker.log_dir("disk2") not in where.values():
        await asyncio.to_thread(cluster.make_topic, "there", [[0]] * 9)
        where = await desk.dirs()
    disk = broker.slots["disk2"].disk
    assert disk is not None
    disk.die()
    topic, partition = next(replica for replica, path in where.items() if path == broker.log_dir("disk2"))

    def poke() -> None:
        with contextlib.suppress(Exception):
            cluster.produce(topic, partition, [b"one"], request_timeout_ms=2000, retries=0)

    await asyncio.to_thread(poke)
    desk.spec |= {"moves": moves}
    async with desk.agent() as keeper:
        await until(
            "the broker gave it up",
            lambda: keeper.error_of(broker.log_dir("disk2"), asyncio.get_running_loop().time()) == 56,
        )
        await until(
            "they wait", lambda: all("offline" in move.get("message", "") for move in desk.status["moves"])
        )
        assert desk.states() == ["Queued", "Queued"]
    assert await desk.copies() == {}
