"""Moves between the dirs of a real broker: throttled, a few at a time, resumed, given up, refused."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from spindle.api.enums import Pressure
from spindle.model.view import LOG_DIRS_RATE
from spindle_agent.moves import pace
from spindle_operator import kafka_commands
from tests.kafka.cluster import Cluster
from tests.kafka.proposals import Proposals, until

BYTES = 2_000_000
THROTTLE = 400_000


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=3)
    made.up()
    made.let_agent()
    return made


async def some_moves(cluster: Cluster, desk: Proposals, topic: str, partitions: int) -> list[dict[str, Any]]:
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


@pytest.mark.slow
async def test_moves_go_on_where_a_killed_agent_left_them_and_leave_no_throttle(cluster: Cluster) -> None:
    desk = Proposals(cluster)
    moves = await some_moves(cluster, desk, "resumed", 4)
    desk.spec |= {"moves": moves, "throttleBytesPerSecond": THROTTLE}
    async with desk.agent():
        await until("two are copied", lambda: desk.states().count("Copying") == 2)
        assert desk.status["throttle"] == {"wantedBytesPerSecond": THROTTLE, "pressure": "Calm"}
        assert await desk.throttle() == str(THROTTLE)
        await until("some of it", lambda: any(move.get("copied") for move in desk.status["moves"]))
    assert "Copying" in desk.states()

    async with desk.agent():
        await until("all arrived", lambda: desk.states() == ["Done"] * 4, seconds=120)
        await desk.until_throttled(None)
    assert "throttle" not in desk.status
    assert desk.most_at_once == 2
    where = await desk.dirs()
    assert all(where["resumed", move["partition"]] == move["toDir"] for move in moves)
    assert all(move["copied"] == move["bytes"] >= BYTES for move in desk.status["moves"])


async def test_what_is_no_longer_wanted_is_given_up_and_a_users_throttle_is_left_alone(
    cluster: Cluster,
) -> None:
    desk = Proposals(cluster)
    moves = await some_moves(cluster, desk, "unwanted", 1)
    await set_throttle(cluster, "123456")
    await desk.until_throttled("123456")
    desk.spec |= {"moves": moves, "throttleBytesPerSecond": 50_000}
    async with desk.agent() as session:
        await until("it is copied", lambda: desk.states() == ["Copying"])
        assert desk.status["throttle"] == {"wantedBytesPerSecond": 50_000, "pressure": "Calm"}
        session.wants({**desk.spec, "moves": []})
        await until("no copy is left", desk_has_no_copy(desk))
        await until("no throttle is wanted", lambda: "throttle" not in desk.status)
        await until("nothing is told of it", lambda: desk.states() == [])
    assert await desk.throttle() == "123456"
    where = await desk.dirs()
    assert where["unwanted", 0] == moves[0]["fromDir"]
    await set_throttle(cluster, None)


async def test_what_an_agent_of_an_earlier_version_has_set_is_put_back_after_its_moves(
    cluster: Cluster,
) -> None:
    desk = Proposals(cluster)
    moves = await some_moves(cluster, desk, "before", 1)
    await set_throttle(cluster, "300000")
    copying = moves[0] | {"state": "Queued"}
    desk.status = {"moves": [copying], "throttle": {"ours": ["400000", "300000"], "pressure": "Calm"}}
    desk.spec |= {"moves": moves, "throttleBytesPerSecond": THROTTLE}
    async with desk.agent():
        await until("it arrived", lambda: desk.states() == ["Done"])
        await desk.until_throttled(None)
        await until("nothing of it is on record", lambda: "throttle" not in desk.status and not desk.journal)


async def set_throttle(cluster: Cluster, value: str | None) -> None:
    """As a user would."""

    def order() -> None:
        link = cluster.link()
        try:
            kafka_commands.set_configs(link, "broker", "0", {LOG_DIRS_RATE: value})
        finally:
            link.close()

    await asyncio.to_thread(order)


@pytest.mark.slow
async def test_a_disk_that_suffers_slows_its_moves_down_and_one_that_is_calm_speeds_them_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "PERIOD", 1.0)
    desk = Proposals(cluster)
    moves = await some_moves(cluster, desk, "steered", 2)
    desk.spec |= {"moves": moves, "throttleBytesPerSecond": 100_000, "throttleBytesPerSecondMin": 20_000}

    async def throttle_is(low: int, high: int) -> bool:
        return low <= int(await desk.throttle() or 0) <= high

    async with desk.agent() as session:
        await until("they are copied", lambda: desk.states() == ["Copying"] * 2)
        desk.felt = {moves[0]["toDir"]: Pressure.STRAINED}
        await until("it falls to the lower bound", lambda: throttle_is(20_000, 20_000))
        assert desk.status["throttle"]["pressure"] == "Strained"
        await until("the rate is told", lambda: all("bytesPerSecond" in m for m in desk.status["moves"]))
        desk.felt = {}
        await until("it rises again", lambda: throttle_is(28_000, 100_000))
        session.wants(
            {**desk.spec, "throttleBytesPerSecond": 9_000_000, "throttleBytesPerSecondMin": 9_000_000}
        )
        await until("all arrived", lambda: desk.states() == ["Done"] * 2)
        await desk.until_throttled(None)
    assert "throttle" not in desk.status


async def test_a_topic_that_is_deleted_during_its_move_leaves_nothing(cluster: Cluster) -> None:
    desk = Proposals(cluster)
    moves = await some_moves(cluster, desk, "deleted", 1)
    desk.spec |= {"moves": moves, "throttleBytesPerSecond": 50_000}
    async with desk.agent() as session:
        await until("it is copied", lambda: desk.states() == ["Copying"])
        await asyncio.to_thread(cluster.admin().delete_topics, ["deleted"])
        await until("no copy is left", desk_has_no_copy(desk))
        await until(
            "it waits and says why",
            lambda: "none of its log dirs" in desk.status["moves"][0].get("message", ""),
        )
        session.wants({**desk.spec, "moves": []})
        await desk.until_throttled(None)
    assert "throttle" not in desk.status


def desk_has_no_copy(desk: Proposals) -> Callable[[], Any]:
    async def ask() -> bool:
        return not await desk.copies()

    return ask


async def test_nothing_moves_while_a_dir_is_offline(cluster: Cluster) -> None:
    desk = Proposals(cluster)
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
    async with desk.agent() as session:
        await until(
            "the broker gave it up",
            lambda: session.error_of(broker.log_dir("disk2"), asyncio.get_running_loop().time()) == 56,
        )
        await until(
            "they wait", lambda: all("offline" in move.get("message", "") for move in desk.status["moves"])
        )
        assert desk.states() == ["Queued", "Queued"]
    assert await desk.copies() == {}
