"""A view of Kafka becomes the planner's columns: the same as by a reading replica by replica."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.planner.snapshot import SnapshotError
from spindle.planner.sources import from_view

Row = tuple[str, int, int]  # topic, partition, broker
_GONE = 2**60
_KEYS = [("a", 0), ("a", 1), ("b", 0)]


def plainly(
    view: KafkaView, dead: set[int], rates: dict[tuple[str, int], float], frozen: set[tuple[str, int]]
) -> tuple[dict[Row, tuple[Any, ...]], set[str]]:
    """(dir, bytes, position, rate, frozen) of each replica, and what is wrong, by looking at one after the other."""
    brokers = view.brokers or {}
    rows: dict[Row, tuple[Any, ...]] = {}
    wrong: set[str] = set()
    futures = {
        key for b in brokers.values() if b.id not in dead for d in b.log_dirs or () for key in d.futures
    }

    def reported(broker: int, key: tuple[str, int]) -> tuple[str, int] | None:
        if broker in dead or broker not in brokers:
            return None
        found = [(d.path, d.replicas[key]) for d in brokers[broker].log_dirs or () if key in d.replicas]
        return found[-1] if found else None

    def offline(broker: int) -> str | None:
        if broker in dead:
            return "(gone)"
        return (
            next((d.path for d in brokers[broker].log_dirs or () if d.error), None)
            if broker in brokers
            else None
        )

    for each in brokers.values():
        if each.log_dirs is None and each.id not in dead:
            wrong.add(f"broker {each.id} did not report")
    for p in view.partitions or ():
        key = p.topic, p.index
        fixed = bool(p.adding or p.removing) or key in frozen or key in futures
        largest = max((at[1] for b in p.replicas if (at := reported(b, key))), default=0)
        for position, broker in enumerate(p.replicas):
            at, bad = reported(broker, key), offline(broker)
            if at is None and bad is not None:
                at = bad, largest
            if at is None and broker not in brokers:
                wrong.add(f"{p.name} is assigned to broker {broker}, which is not registered")
            elif at is None and not fixed:
                wrong.add(f"{p.name} is assigned to broker {broker}, which has no log")
            elif at is None:
                at = (brokers[broker].log_dirs or (LogDir("?"),))[0].path, 0
            if at is not None:
                rows[p.topic, p.index, broker] = *at, position, rates.get(key, 0.0), fixed
    return rows, wrong


@st.composite
def views(draw: st.DrawFn) -> KafkaView:
    """Brokers whose dirs report replicas twice, of topics that are gone or of partitions that are elsewhere, and others not at all."""
    some = st.dictionaries(st.sampled_from([*_KEYS, ("gone", 0)]), st.integers(0, 99))
    dirs = [
        tuple(
            LogDir(
                f"/d{n}",
                draw(st.sampled_from([0, 0, 0, 56])),
                10**6,
                10**5,
                replicas=draw(some),
                futures=draw(
                    st.dictionaries(
                        st.sampled_from(_KEYS), st.just(1), max_size=draw(st.sampled_from([0, 0, 1]))
                    )
                ),
            )
            for n in range(2)
        )
        for _ in range(3)
    ]
    silent = draw(st.sampled_from([None, None, None, 1]))
    brokers = {b: Broker(b, "r", log_dirs=None if b == silent else dirs[b]) for b in range(3)}
    replicas = st.lists(st.sampled_from([0, 0, 1, 1, 2, 2, 7]), unique=True, max_size=3).map(tuple)
    partitions = []
    for topic, index in draw(st.permutations(_KEYS)):
        at = draw(replicas)
        adding = at[-1:] if draw(st.booleans()) else ()
        partitions.append(Partition(topic, index, None, at, at, adding=adding))
    return KafkaView(brokers=brokers, partitions=tuple(partitions))


@given(views(), st.sets(st.sampled_from([1, 2, 7])), st.sets(st.sampled_from(_KEYS)))
def test_a_view_is_read_as_one_replica_after_the_other_would_be(
    view: KafkaView, dead: set[int], frozen: set[tuple[str, int]]
) -> None:
    rates = {("a", 1): 3.0, ("gone", 0): 1.0}
    expected, wrong = plainly(view, dead, rates, frozen)
    if wrong:
        with pytest.raises(SnapshotError) as raised:
            from_view(view, dead=dead, rates=rates, frozen=frozen)
        assert len(raised.value.problems) == len(wrong)
        assert all(any(said.startswith(each) for each in wrong) for said in raised.value.problems)
        return
    made = from_view(view, dead=dead, rates=rates, frozen=frozen, reserved={(0, "/d1"): 5})
    found = {}
    for i in range(len(made.topic)):
        broker = int(made.broker[made.dir_broker[made.dir[i]]])
        at = made.dir_name[int(made.dir[i])], made.size[i], made.position[i], made.rate[i], made.frozen[i]
        if made.other[i]:
            assert (broker, *at) == (0, "/d1", 5, 0, 0, True)
        else:
            found[made.topic_name(i), int(made.partition[i]), broker] = at
    assert found == expected
