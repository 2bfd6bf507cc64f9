"""The lag of consumer groups: what is exported, what is left out, and what a Kafka that misbehaves costs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, NotCoordinatorError
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest

from spindle.api.metrics import ConsumerLag
from spindle.metrics import table
from spindle.metrics.consumer_lag import GroupOffsets, lag_samples, matching
from spindle.model.view import KafkaView, Partition
from spindle_operator import group_offsets, metrics
from spindle_operator.connection import Access, Connection, TooMuchError
from spindle_operator.lag_exporter import LagExporter, wanted_lag
from tests.model.world import World

DEMO = ("team-a", "demo")
ACCESS = Access({0: "h"}, b"", b"", b"")


def lags(offsets: GroupOffsets, ends: Mapping[Any, int]) -> dict[tuple[str, ...], float]:
    found = lag_samples(DEMO, offsets, ends)
    return {each.labels[2:]: each.value for each in found if each.metric is table.CONSUMER_LAG}


def groups_of(offsets: GroupOffsets) -> dict[str, float]:
    found = lag_samples(DEMO, offsets, {})
    return {each.labels[2]: each.value for each in found if each.metric is table.LAG_GROUPS}


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ([], ["a", "ab", "b*", "c"]),
        (["a"], ["a"]),
        (["a*"], ["a", "ab"]),
        (["c", "ab*"], ["ab", "c"]),
        (["*"], ["a", "ab", "b*", "c"]),
        (["none"], []),
    ],
)
def test_which_groups_are_meant(patterns: list[str], found: list[str]) -> None:
    assert matching({"c", "b*", "ab", "a"}, patterns) == found


def test_a_lag_is_the_distance_to_the_end() -> None:
    offsets = GroupOffsets()
    offsets.add("g", {("t", 0): 3, ("t", 1): 10, ("gone", 0): 1, ("anew", 0): 50})
    ends = {("t", 0): 10, ("t", 1): 10, ("anew", 0): 2}
    assert lags(offsets, ends) == {("g", "t", "0"): 7, ("g", "t", "1"): 0}
    assert groups_of(offsets) == {"exported": 1, "left_out": 0, "unread": 0}


def test_a_group_that_does_not_fit_is_left_out_as_a_whole() -> None:
    offsets = GroupOffsets(most=5)
    for group, size in (("a", 3), ("b", 3), ("c", 2), ("d", 1)):
        offsets.add(group, {("t", index): 0 for index in range(size)})
    assert list(offsets.committed) == ["a", "c"]
    assert offsets.full
    assert groups_of(offsets) == {"exported": 2, "left_out": 2, "unread": 0}


# The requests


class FakeLink(Connection):
    """Brokers that answer from a table.

    Attributes:
        groups: broker → group → offsets of ``t``, or an error code.
        ends: broker → partition of ``t`` → end.
        deaf: brokers that do not answer.
        sent: requests by name.
    """

    def __init__(
        self, groups: Mapping[int, Mapping[str, Any]], ends: Mapping[int, Mapping[int, int]]
    ) -> None:
        self._cluster, self.timeout_ms, self.silent, self._unsaid = "team-a/demo", 1000, set(), []
        self.groups, self.ends = groups, ends
        self.hosts = {node: f"host-{node}" for node in {*groups, *ends}}
        self.deaf: set[int] = set()
        self.kinds: dict[str, tuple[str, str]] = {}
        self.sent: list[str] = []
        self.limit: int | None = None

    def send(self, request: Any, node: int) -> Any:
        assert self.budget is not None
        self.budget.spend()
        self.sent.append(type(request).__name__)
        if self.limit is not None and len(self.sent) > self.limit:
            raise TooMuchError("too slow")
        if node in self.deaf:
            raise KafkaTimeoutError
        if isinstance(request, ListGroupsRequest):
            return SimpleNamespace(error_code=0, groups=[self._listed(g) for g in self.groups.get(node, {})])
        if isinstance(request, OffsetFetchRequest):
            return SimpleNamespace(groups=[self._told(node, each.group_id) for each in request.groups])
        assert isinstance(request, ListOffsetsRequest)
        return SimpleNamespace(topics=[self._ends(node, topic) for topic in request.topics])

    def _listed(self, group: str) -> Any:
        protocol, kind = self.kinds.get(group, ("consumer", "classic"))
        return SimpleNamespace(group_id=group, protocol_type=protocol, group_type=kind)

    def _told(self, node: int, group: str) -> Any:
        told = self.groups[node][group]
        if isinstance(told, int):
            return SimpleNamespace(group_id=group, error_code=told, topics=[])
        partitions = [
            SimpleNamespace(partition_index=index, committed_offset=offset, error_code=0)
            for index, offset in told.items()
        ]
        topics = [SimpleNamespace(name="t", partitions=partitions)]
        return SimpleNamespace(group_id=group, error_code=0, topics=topics)

    def _ends(self, node: int, topic: Any) -> Any:
        partitions = [
            SimpleNamespace(
                partition_index=each.partition_index,
                error_code=0 if each.partition_index in self.ends.get(node, {}) else 6,
                offset=self.ends.get(node, {}).get(each.partition_index, -1),
            )
            for each in topic.partitions
        ]
        return SimpleNamespace(name=topic.name, partitions=partitions)


LEADERS: dict[tuple[str, int], int | None] = {("t", 0): 0, ("t", 1): 1, ("t", 2): None, ("t", 3): 9}


def test_groups_are_read_from_their_coordinators_and_ends_from_the_leaders() -> None:
    link = FakeLink({0: {"a": {0: 1, 1: 2}}, 1: {"b": {1: 4, 7: 1}}}, {0: {0: 10}, 1: {1: 20}})
    offsets, ends = group_offsets.read(link, (), LEADERS)
    assert lags(offsets, ends) == {("a", "t", "0"): 9, ("a", "t", "1"): 18, ("b", "t", "1"): 16}
    assert link.budget is None


def test_partitions_without_a_leader_that_answers_have_no_lag() -> None:
    link = FakeLink({0: {"a": {0: 1, 1: -1, 2: 2, 3: 3}}}, {0: {}, 1: {1: 20}})
    offsets, ends = group_offsets.read(link, (), LEADERS)
    assert ends == {}
    assert offsets.committed == {"a": {("t", 0): 1, ("t", 2): 2, ("t", 3): 3}}


def test_a_deleted_group_is_gone_and_one_without_a_coordinator_is_unread() -> None:
    link = FakeLink({0: {"gone": 69, "loading": 14, "moved": 16, "fine": {0: 1}}}, {0: {0: 5}})
    offsets, ends = group_offsets.read(link, (), LEADERS)
    assert lags(offsets, ends) == {("fine", "t", "0"): 4}
    assert groups_of(offsets) == {"exported": 1, "left_out": 0, "unread": 2}


def test_a_broker_that_does_not_answer_costs_only_its_own_groups() -> None:
    link = FakeLink({0: {"a": {0: 1}}, 1: {"b": {0: 1}}}, {0: {0: 5}})
    link.deaf = {1}
    offsets, ends = group_offsets.read(link, (), LEADERS)
    assert lags(offsets, ends) == {("a", "t", "0"): 4}


def test_groups_without_offsets_of_topics_are_not_asked_for() -> None:
    link = FakeLink({0: {"connect": 1, "share": 1, "streams": {0: 1}, "manual": {0: 2}}}, {0: {0: 5}})
    link.kinds = {
        "connect": ("connect", "classic"),
        "share": ("", "share"),
        "streams": ("streams", "streams"),
        "manual": ("", "classic"),
    }
    offsets, _ = group_offsets.read(link, (), LEADERS)
    assert set(offsets.committed) == {"streams", "manual"}


def test_reading_ends_when_nothing_more_fits() -> None:
    groups = {f"g{i:04}": {0: 1, 1: 1} for i in range(3000)}
    link = FakeLink({0: groups}, {0: {0: 5}, 1: {1: 5}})
    offsets, _ = group_offsets.read(link, (), LEADERS, most=10)
    assert groups_of(offsets) == {"exported": 5, "left_out": 2995, "unread": 0}
    assert link.sent.count("OffsetFetchRequest") == 50  # one page of 500 groups


def test_a_slow_kafka_ends_the_reading_and_what_was_read_counts() -> None:
    groups = {f"g{i:04}": {0: 1} for i in range(700)}
    link = FakeLink({0: groups}, {0: {0: 5}})
    link.limit = 55  # the list, the first page, and a part of the second
    with pytest.raises(TooMuchError):
        group_offsets.read(link, (), LEADERS)  # not even the ends
    link.sent.clear()

    class Slow(FakeLink):
        def send(self, request: Any, node: int) -> Any:
            self.limit = 55 if isinstance(request, OffsetFetchRequest) else None
            return super().send(request, node)

    slow = Slow({0: groups}, {0: {0: 5}})
    offsets, ends = group_offsets.read(slow, (), LEADERS)
    assert groups_of(offsets) == {"exported": 500, "left_out": 0, "unread": 200}
    assert ends == {("t", 0): 5}
    assert slow.budget is None


# The exporter beside the passes


class FakeKafka:
    """In place of a connection: what it answers, and how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.error: Exception | None = None
        self.hang: asyncio.Event | None = None
        self.closed = self.ended = 0

    async def read_lag(self, _: Access, groups: Sequence[str], leaders: Mapping[Any, Any]) -> Any:
        self.asked.append(tuple(groups))
        if self.hang is not None:
            await self.hang.wait()
        if self.error is not None:
            raise self.error
        offsets = GroupOffsets()
        offsets.add("g", dict.fromkeys(leaders, 1))
        return offsets, dict.fromkeys(leaders, 4)

    async def close(self) -> None:
        self.closed += 1

    async def shutdown(self) -> None:
        self.ended += 1


VIEW = KafkaView(partitions=(Partition("t", 0, 0, (0,), (0,)),))
ON = ConsumerLag(enabled=True)


@pytest.fixture
async def kafka() -> FakeKafka:
    return FakeKafka()


@pytest.fixture
async def exporter(kafka: FakeKafka) -> AsyncIterator[LagExporter]:
    made = LagExporter("team-a/demo", kafka, asyncio.Semaphore(2), every=0.01)  # type: ignore[arg-type]
    yield made
    await made.close()


def exported() -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels[key] for key in ("consumergroup", "topic", "partition")): sample.value
        for family in metrics.SAMPLES.collect()
        for sample in family.samples
        if sample.name == table.CONSUMER_LAG.name
    }


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - what is waited for is no event
            await asyncio.sleep(0.005)


async def test_off_by_default(exporter: LagExporter, kafka: FakeKafka) -> None:
    await exporter.follow(ConsumerLag(), ACCESS, VIEW)
    await asyncio.sleep(0.05)
    assert kafka.asked == []


async def test_it_is_read_again_and_again_until_it_is_turned_off(
    exporter: LagExporter, kafka: FakeKafka
) -> None:
    await exporter.follow(ON, ACCESS, VIEW)
    await until(lambda: len(kafka.asked) > 2)
    assert exported() == {("g", "t", "0"): 3}
    await exporter.follow(ConsumerLag(enabled=True, groups=["g"]), ACCESS, VIEW)
    await until(lambda: kafka.asked[-1] == ("g",))
    await exporter.follow(ConsumerLag(), ACCESS, VIEW)
    assert exported() == {}
    assert kafka.closed == 1
    count = len(kafka.asked)
    await asyncio.sleep(0.05)
    assert len(kafka.asked) == count


@pytest.mark.parametrize(
    "error", [NotCoordinatorError(), TimeoutError(), RuntimeError("x"), ValueError("malformed")]
)
async def test_an_error_ends_no_reading_and_leaves_no_old_lag(
    exporter: LagExporter, kafka: FakeKafka, error: Exception
) -> None:
    await exporter.follow(ON, ACCESS, VIEW)
    await until(exported)
    kafka.error = error
    await until(lambda: not exported())
    kafka.error = None
    await until(exported)


@pytest.mark.parametrize(
    ("access", "view"), [("no broker runs yet", VIEW), (ACCESS, KafkaView(error="not reachable"))]
)
async def test_nothing_is_exported_while_kafka_cannot_be_asked(
    exporter: LagExporter, kafka: FakeKafka, access: Access | str, view: KafkaView
) -> None:
    await exporter.follow(ON, ACCESS, VIEW)
    await until(exported)
    await exporter.follow(ON, access, view)
    await until(lambda: not exported())
    count = len(kafka.asked)
    await asyncio.sleep(0.05)
    assert len(kafka.asked) == count


async def test_a_reading_that_hangs_holds_up_no_pass_and_no_end(
    exporter: LagExporter, kafka: FakeKafka
) -> None:
    kafka.hang = asyncio.Event()
    await exporter.follow(ON, ACCESS, VIEW)
    await until(lambda: kafka.asked)
    async with asyncio.timeout(1):
        await exporter.follow(ON, ACCESS, VIEW)
        await exporter.close()
    assert kafka.ended == 1


def test_the_spec_in_effect_decides() -> None:
    world = World.of(metrics={"consumerLag": {"enabled": True, "groups": ["a*"]}})
    world.settle()
    assert wanted_lag(world.snapshot()) == ConsumerLag(enabled=True, groups=["a*"])
    world.cluster["spec"]["metrics"]["consumerLag"]["groups"] = ["*a"]  # refused
    for _ in range(3):
        world.reconcile()
        world.breathe()
    assert wanted_lag(world.snapshot()).groups == ["a*"]
    bare = replace(world.snapshot(), config_maps=())
    assert wanted_lag(bare) == ConsumerLag()
