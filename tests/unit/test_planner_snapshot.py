"""Snapshots: what is refused and in which words, canonical order, hash, constructors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.cases import small
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.planner.snapshot import DirState, PlannerSnapshot, SnapshotError, build
from spindle.planner.sources import from_tables, from_view


def tables() -> tuple[dict[str, list[Any]], dict[str, list[Any]], dict[str, list[Any]]]:
    return (
        {"broker": [1, 2, 3], "rack": ["a", "b", "c"], "state": ["alive", "alive", "alive"]},
        {
            "broker": [1, 1, 2, 2, 3, 3],
            "dir": ["/d0", "/d1"] * 3,
            "capacity": [1000] * 6,
            "state": ["online"] * 6,
        },
        {
            "topic": ["t", "t", "t", "u", "u", "u"],
            "partition": [0] * 6,
            "broker": [1, 2, 3, 3, 2, 1],
            "dir": [0, 1, 0, 1, 1, 0],
            "position": [0, 1, 2, 0, 1, 2],
            "size": [100, 100, 100, 50, 50, 50],
            "write_rate": [1.0] * 6,
        },
    )


def test_tables_become_arrays_in_canonical_order() -> None:
    s = from_tables(*tables())
    assert s.broker.tolist() == [1, 2, 3]
    assert s.topic_names == ("t", "u")
    assert s.used.tolist() == [150, 0, 0, 150, 100, 50]
    assert s.start.tolist() == [0, 3, 6]
    assert s.dir_label(3) == "broker 2 /d1"


@pytest.mark.parametrize(
    ("table", "column", "row", "value", "words"),
    [
        pytest.param(0, "rack", 1, None, "broker 2 has no rack while others have one", id="rack-missing"),
        pytest.param(0, "broker", 1, 1, "broker 1 is listed twice", id="broker-twice"),
        pytest.param(0, "state", 0, "asleep", "a broker has the unknown state asleep", id="broker-state"),
        pytest.param(1, "broker", 0, 9, "a dir refers to broker 9", id="dir-of-nobody"),
        pytest.param(1, "capacity", 0, 0, "broker 1 /d0: the capacity is not", id="no-capacity"),
        pytest.param(1, "capacity", 0, -5, "broker 1 /d0: the capacity is not", id="negative-capacity"),
        pytest.param(
            1,
            "capacity",
            0,
            120,
            "broker 1 /d0 holds 150 of 120 bytes, more than its capacity",
            id="overfull",
        ),
        pytest.param(1, "state", 2, "strange", "a dir has the unknown state strange", id="dir-state"),
        pytest.param(2, "broker", 0, 7, "a replica refers to broker 7", id="unknown-broker"),
        pytest.param(2, "dir", 0, 2, "t-0 on broker 1: dir 2 does not exist", id="unknown-dir"),
        pytest.param(2, "dir", 0, -1, "t-0 on broker 1: dir -1 does not exist", id="negative-dir"),
        pytest.param(2, "size", 3, -1, "u-0: size -1.0 is not a valid number of bytes", id="negative-size"),
        pytest.param(2, "write_rate", 3, float("nan"), "u-0: write rate nan", id="nan-rate"),
        pytest.param(2, "broker", 1, 1, "t-0 has two replicas on broker 1", id="twice-on-a-broker"),
    ],
)
def test_nonsense_is_named(table: int, column: str, row: int, value: Any, words: str) -> None:
    data = tables()
    data[table][column][row] = value
    with pytest.raises(SnapshotError) as caught:
        from_tables(*data)
    assert any(words in problem for problem in caught.value.problems), caught.value.problems


def test_a_missing_column_is_named() -> None:
    brokers, dirs, replicas = tables()
    del replicas["size"]
    with pytest.raises(SnapshotError, match="a column is missing: size"):
        from_tables(brokers, dirs, replicas)


def test_empty_clusters() -> None:
    with pytest.raises(SnapshotError, match="there is no broker"):
        build(
            {"broker": [], "rack": [], "alive": []},
            {"broker": [], "dir": [], "capacity": [], "state": []},
            {k: np.zeros(0) for k in ("topic", "partition", "broker", "dir", "position", "size")},
        )


def shuffled(s: PlannerSnapshot, seed: int) -> PlannerSnapshot:
    """The same cluster read in another order; dirs keep their order within a broker, which is what numbers them."""
    rng = np.random.default_rng(seed)
    b, r = rng.permutation(len(s.broker)), rng.permutation(len(s.topic))
    d = np.concatenate([np.arange(s.first_dir[k], s.first_dir[k + 1]) for k in b])
    return build(
        {"broker": s.broker[b], "rack": [s.rack_names[k] for k in s.rack[b]], "alive": s.alive[b]},
        {
            "broker": s.broker[s.dir_broker[d]],
            "dir": [s.dir_name[k] for k in d],
            "capacity": s.capacity[d],
            "state": s.dir_state[d],
        },
        {
            "topic": s.topic[r],
            "partition": s.partition[r],
            "broker": s.broker[s.dir_broker[s.dir[r]]],
            "dir": s.dir_row[s.dir[r]],
            "position": s.position[r],
            "size": s.size[r],
            "rate": s.rate[r],
        },
    )


@pytest.mark.parametrize("seed", range(5))
def test_digest_ignores_the_order_of_rows_and_nothing_else(seed: int) -> None:
    s = small(seed)
    assert shuffled(s, seed).digest == s.digest
    states = s.dir_state.copy()
    states[0] = (states[0] + 1) % 4
    assert replace(s, dir_state=states).digest != s.digest
    assert replace(s, planned=s.size + 1).digest != s.digest
    if len(s.size):
        assert replace(s, size=s.size + 1).digest != s.digest


def view(**changes: Any) -> KafkaView:
    def dirs(b: int) -> tuple[LogDir, ...]:
        return (
            LogDir("/d0", total_bytes=1000, replicas={("t", 0): 100} if b != 3 else {}),
            LogDir("/d1", total_bytes=1000, error=56 if b == 3 else 0, replicas={}),
        )

    fields: dict[str, Any] = {
        "brokers": {b: Broker(b, rack=f"r{b}", log_dirs=dirs(b)) for b in (1, 2, 3)},
        "partitions": (Partition("t", 0, 1, (1, 2, 3), (1, 2)),),
    }
    return KafkaView(**{**fields, **changes})


def test_what_no_live_dir_shows_stands_on_the_offline_one() -> None:
    s = from_view(view(), rates={("t", 0): 5.0})
    assert s.dir_label(int(s.dir[2])) == "broker 3 /d1"
    assert s.dir_state[s.dir[2]] == DirState.OFFLINE
    assert s.size.tolist() == [100, 100, 100]
    assert s.rate.tolist() == [5.0] * 3


def test_partitions_in_motion_are_frozen() -> None:
    s = from_view(view(partitions=(Partition("t", 0, 1, (1, 2, 3), (1, 2), adding=(3,)),)))
    assert s.frozen.all()


def test_unknown_is_not_gone() -> None:
    with pytest.raises(SnapshotError, match="brokers or partitions are unknown"):
        from_view(KafkaView())
    known = view().brokers or {}
    silent = {b: replace(x, log_dirs=None if b == 2 else x.log_dirs) for b, x in known.items()}
    with pytest.raises(SnapshotError, match="broker 2 did not report its log dirs"):
        from_view(view(brokers=silent))
    s = from_view(view(brokers=silent), dead=[2])
    assert s.alive.tolist() == [True, False, True]
    assert s.size.tolist() == [100, 100, 100]


def test_a_replica_that_nobody_shows_is_a_problem() -> None:
    lost = view(partitions=(Partition("t", 1, 1, (1, 2), (1, 2)),))
    with pytest.raises(SnapshotError, match="t-1 is assigned to broker 1, which has no log of it"):
        from_view(lost)
    with pytest.raises(SnapshotError, match="t-0 is assigned to broker 8, which is not registered"):
        from_view(view(partitions=(Partition("t", 0, 1, (1, 8), (1,)),)))
