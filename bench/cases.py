"""Clusters to plan on: aged ones of any size, and small odd ones. Same arguments, same cluster, byte for byte.

An aged cluster: topics of very different sizes arrive one after another while brokers join, each partition is put where
Kafka would put it (striped over racks, in the dir with the fewest logs), and nobody ever looks at bytes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from spindle.planner.snapshot import DirState, PlannerSnapshot, build

EVENTS = ("none", "dead-broker", "dead-dir", "drain-dir", "cordon", "new-brokers", "new-dir", "hetero")


@dataclass(frozen=True)
class Shape:
    """Size and mood of an aged cluster."""

    brokers: int = 100
    dirs: int = 10
    racks: int = 10
    replicas: int = 50_000
    rf: int = 3
    fill: float = 0.55
    seed: int = 1
    event: str = "none"


SIZES = {
    "M": Shape(),
    "M65": Shape(fill=0.65),
    "L": Shape(replicas=300_000),
    "XL": Shape(brokers=1000, replicas=1_000_000),
}


def aged(shape: Shape) -> PlannerSnapshot:
    """An aged cluster of this shape."""
    return build(*columns(shape))


def columns(shape: Shape) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The same as columns, as :func:`spindle.planner.snapshot.build` takes them."""
    rng = np.random.default_rng(shape.seed)
    b, d = shape.brokers, shape.dirs
    partitions = -(-shape.replicas // shape.rf)
    topic, partition, size = _topics(rng, partitions)
    broker = _stripe(rng, shape, topic)
    row = _fewest_logs(broker.ravel(), b, d)
    weight = np.ones((b, d))
    if shape.event == "hetero":
        weight[:, d // 2 :] = 2.0
    capacity = np.floor(1e12 * weight * b * d / weight.sum())
    bytes_ = np.maximum(1, np.floor(size * shape.fill * capacity.sum() / (size.sum() * shape.rf)))
    _spill(broker.ravel(), row, np.repeat(bytes_, shape.rf), capacity)
    rate = bytes_ / (7 * 86400) * rng.lognormal(0, 0.5, partitions)
    states = np.full((b, d), int(DirState.ONLINE))
    alive, extra = np.ones(b, np.bool_), 0
    if shape.event == "dead-broker":
        alive[rng.integers(b)] = False
    elif shape.event == "dead-dir":
        states[rng.integers(b), rng.integers(d)] = DirState.OFFLINE
    elif shape.event == "drain-dir":
        states[rng.integers(b), rng.integers(d)] = DirState.DRAINING
    elif shape.event == "cordon":
        states[rng.integers(b, size=5), rng.integers(d, size=5)] = DirState.CORDONED
    elif shape.event == "new-brokers":
        extra = 2
    dirs: dict[str, Any] = {
        "broker": np.repeat(np.arange(b + extra), d),
        "dir": [f"/data/d{k}" for _ in range(b + extra) for k in range(d)],
        "capacity": np.concatenate([capacity.ravel(), np.tile(capacity[0], extra)]),
        "state": np.concatenate([states.ravel(), np.full(extra * d, int(DirState.ONLINE))]),
    }
    if shape.event == "new-dir":
        lucky = int(rng.integers(b))
        new = {
            "broker": lucky,
            "dir": f"/data/d{d}",
            "capacity": capacity[lucky, 0],
            "state": int(DirState.ONLINE),
        }
        dirs = {k: [*v, new[k]] for k, v in dirs.items()}
    brokers = {
        "broker": np.arange(b + extra),
        "rack": [f"rack-{k % shape.racks:02d}" for k in range(b + extra)],
        "alive": np.append(alive, np.ones(extra, np.bool_)),
    }
    replicas = {
        "topic": np.repeat(topic, shape.rf),
        "partition": np.repeat(partition, shape.rf),
        "broker": broker.ravel(),
        "dir": row,
        "position": np.tile(np.arange(shape.rf), partitions),
        "size": np.repeat(bytes_, shape.rf),
        "rate": np.repeat(rate, shape.rf),
    }
    return brokers, dirs, replicas


def _topics(rng: np.random.Generator, partitions: int) -> tuple[Any, Any, Any]:
    """Topic and number of each partition, and its size: Exp(1) per topic times Exp(1) per partition."""
    counts: list[int] = []
    while sum(counts) < partitions:
        counts.append(int(np.clip(round(rng.lognormal(2.3, 1.0)), 1, 400)))
    counts[-1] -= sum(counts) - partitions
    topic = np.repeat(np.arange(len(counts)), counts)
    partition = np.concatenate([np.arange(n) for n in counts])
    size = np.repeat(rng.exponential(1.0, len(counts)), counts) * rng.exponential(1.0, partitions)
    return topic, partition, size


def _stripe(rng: np.random.Generator, shape: Shape, topic: Any) -> Any:
    """Broker of every replica, int[P, rf]: rack after rack, inside a rack one broker after another."""
    b, r, rf = shape.brokers, shape.racks, shape.rf
    partitions = len(topic)
    # A third of the brokers joins during the first half of the cluster's life, a whole row of racks at a time.
    old = max(int(b * 0.7), min(b, rf))
    joins = np.zeros(b)
    joins[old:] = np.sort(rng.uniform(0.1, 0.5, b - old))
    out = np.zeros((partitions, rf), np.int64)
    turn = rng.integers(0, 1 << 20, r)
    edges = np.flatnonzero(np.diff(topic, prepend=-1))
    for first, last in zip(edges.tolist(), [*edges[1:].tolist(), partitions], strict=True):
        ids = np.arange(b)
        present = ids[joins <= first / partitions]
        racks = [present[present % r == k] for k in range(r)]
        racks = [x for x in racks if len(x)]
        at = int(rng.integers(len(racks)))
        for p in range(first, last):
            chosen: list[int] = []
            k = 0
            while len(chosen) < rf:
                rack = (at + p + k) % len(racks)
                pool = (
                    [x for x in racks[rack].tolist() if x not in chosen]
                    if k >= len(racks)
                    else racks[rack].tolist()
                )
                k += 1
                if pool:
                    chosen.append(int(pool[turn[rack] % len(pool)]))
                    turn[rack] += 1
            out[p] = chosen
    return out


def _fewest_logs(broker: Any, b: int, d: int) -> Any:
    """Dir of each replica within its broker: the one with the fewest logs so far, that is, in turn."""
    order = np.argsort(broker, kind="stable")
    first = np.searchsorted(broker[order], np.arange(b))
    row = np.empty(len(broker), np.int64)
    row[order] = (np.arange(len(broker)) - first[broker[order]]) % d
    return row


def _spill(broker: Any, row: Any, size: Any, capacity: Any) -> None:
    """Where a dir would be too full, logs go to its broker's emptiest one, as an owner would have done in time."""
    fill = np.zeros(capacity.shape)
    np.add.at(fill, (broker, row), size)
    for _ in range(len(size)):
        share = fill / capacity
        b, k = np.unravel_index(int(share.argmax()), share.shape)
        if share[b, k] <= 0.95:
            return
        to = int(share[b].argmin())
        rows = np.flatnonzero((broker == b) & (row == k) & (size <= 0.9 * capacity[b, to] - fill[b, to]))
        if not len(rows):
            raise ValueError(f"too full: a log of broker {b} fits in none of its dirs")
        r = rows[int(size[rows].argmax())]
        row[r] = to
        fill[b, k] -= size[r]
        fill[b, to] += size[r]


def small(seed: int, *, states: bool = True, crowded: bool = True) -> PlannerSnapshot:
    """A random cluster of at most 6 brokers and 40 replicas; with ``states``, some dirs or a broker in trouble."""
    rng = np.random.default_rng(seed)
    b = int(rng.integers(2, 7))
    racks = int(rng.integers(1, 5))
    per = rng.integers(1, 4, b)
    d = int(per.sum())
    rf = int(rng.integers(1, min(3, b) + 1))
    partitions = int(rng.integers(1, 40 // rf + 1))
    broker = np.array([rng.permutation(b)[:rf] for _ in range(partitions)])
    row = rng.integers(0, 1 << 20, (partitions, rf)) % per[broker]
    size = np.ceil(1e6 * rng.exponential(1.0, partitions) ** rng.uniform(0.3, 1.5))
    dir_broker = np.repeat(np.arange(b), per)
    first = np.searchsorted(dir_broker, np.arange(b))
    used = np.bincount((first[broker] + row).ravel(), np.repeat(size, rf), d)
    weight = rng.choice([1.0, 1.0, 2.0], d)
    fill = rng.uniform(0.2, 0.7)
    fullest = rng.uniform(0.6, 1.0) if crowded else 0.8
    capacity = np.ceil(np.maximum(size.sum() * rf / fill * weight / weight.sum(), used / fullest))
    state = np.full(d, int(DirState.ONLINE))
    alive = np.ones(b, np.bool_)
    if states:
        trouble = rng.random(d)
        state[trouble < 0.06] = DirState.OFFLINE
        state[(trouble >= 0.06) & (trouble < 0.10)] = DirState.DRAINING
        state[(trouble >= 0.10) & (trouble < 0.14)] = DirState.CORDONED
        if b > rf + 1 and rng.random() < 0.15:
            alive[rng.integers(b)] = False
    return build(
        {
            "broker": np.arange(b) * 3 + 1,
            "rack": [f"r{k}" for k in rng.integers(0, racks, b)],
            "alive": alive,
        },
        {
            "broker": dir_broker * 3 + 1,
            "dir": [f"/d{k}" for k in range(d)],
            "capacity": capacity,
            "state": state,
        },
        {
            "topic": np.repeat(np.arange(partitions) // 3, rf),
            "partition": np.repeat(np.arange(partitions) % 3, rf),
            "broker": broker.ravel() * 3 + 1,
            "dir": row.ravel(),
            "position": np.tile(np.arange(rf), partitions),
            "size": np.repeat(size, rf),
            "rate": np.repeat(size * rng.lognormal(0, 1, partitions), rf),
        },
    )
