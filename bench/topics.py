"""Topics as resources: where they are placed, and what a pass with many of them costs.

``python -m bench.topics [500]`` places so many topics of mixed size as Spindle does for KafkaTopics, and as Kafka itself does, side by side.

Both get the same topics, one after the other, on the same empty cluster; the size of each is known only after it was placed. Kafka's placement is
that of its controller (``StripedReplicaPlacer``): brokers and racks are shuffled once, each topic starts at a random one, partitions follow in turn; each broker takes the log dir
with the fewest logs.

``python -m bench.topics --passes 10000`` plans passes over so many KafkaTopics that are as they should be: unchanged, and with a change of one.
"""

import json
import random
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from spindle.model.actions import ConfigureTopic
from spindle.reconcile.plan import plan
from spindle.topics.placement import BrokerRoom, DirRoom, Rooms, place
from tests.model.failing import Failing
from tests.model.many_topics import changed, told, with_topics

GIB = 1 << 30
Key = tuple[int, str]


@dataclass(frozen=True)
class Shape:
    """A cluster: brokers by rack, log dirs of each broker, bytes of a dir."""

    racks: Mapping[int, str]
    dirs: int = 4
    capacity: int = 4096 * GIB


@dataclass(frozen=True)
class Topic:
    """One topic; ``sizes`` are the bytes of a replica of each partition."""

    replicas: int
    sizes: tuple[int, ...]


@dataclass
class Held:
    """What the topics that were placed so far take up."""

    bytes: Counter[Key] = field(default_factory=Counter)
    replicas: Counter[Key] = field(default_factory=Counter)
    leaders: Counter[int] = field(default_factory=Counter)

    def add(self, topic: Topic, rows: Sequence[Sequence[int]], dirs: Mapping[tuple[int, int], str]) -> None:
        """Count a topic's replicas."""
        for index, row in enumerate(rows):
            self.leaders[row[0]] += 1
            for broker in row:
                key = broker, dirs[broker, index]
                self.bytes[key] += topic.sizes[index]
                self.replicas[key] += 1


def topics(count: int, seed: int) -> list[Topic]:
    """Topics of mixed size: 1 to 48 partitions, few with most of the bytes (log-normal over five decades), partitions that differ by a factor of about two."""
    chance = random.Random(seed)  # noqa: S311 - the same topics in each run
    made = []
    for _ in range(count):
        partitions = chance.choice((1, 1, 2, 3, 3, 6, 6, 12, 12, 24, 48))
        usual = chance.lognormvariate(20, 2)  # bytes of a partition, median about 0.5 GB
        sizes = tuple(int(min(usual * chance.lognormvariate(0, 0.3), 200 * GIB)) for _ in range(partitions))
        made.append(Topic(chance.choice((2, 3, 3, 3)), sizes))
    return made


def by_spindle(shape: Shape, wanted: Sequence[Topic]) -> Held:
    """Each topic placed with what is there by then."""
    held = Held()
    paths = [f"disk{i}" for i in range(shape.dirs)]
    for topic in wanted:
        count = sum(held.replicas.values())
        size = max(shape.capacity * 1e-4, sum(held.bytes.values()) / count if count else 0.0)
        brokers = {
            broker: BrokerRoom(
                broker,
                rack,
                [
                    DirRoom(p, held.bytes[broker, p], shape.capacity, 0.9, held.replicas[broker, p])
                    for p in paths
                ],
                sum(held.replicas[broker, p] for p in paths),
                held.leaders[broker],
            )
            for broker, rack in shape.racks.items()
        }
        placed = place(Rooms(brokers, size), len(topic.sizes), topic.replicas)
        held.add(topic, placed.rows, {(broker, index): path for broker, index, path in placed.dirs})
    return held


def by_kafka(shape: Shape, wanted: Sequence[Topic], chance: random.Random) -> Held:
    """As Kafka's controller and brokers do without a choice."""
    held = Held()
    for topic in wanted:
        rows = _striped(shape.racks, len(topic.sizes), topic.replicas, chance)
        dirs: dict[tuple[int, int], str] = {}
        logs = Counter(held.replicas)
        for index, row in enumerate(rows):
            for broker in row:
                path = min((f"disk{i}" for i in range(shape.dirs)), key=lambda p: (logs[broker, p], p))
                logs[broker, path] += 1
                dirs[broker, index] = path
        held.add(topic, rows, dirs)
    return held


def _striped(
    racks: Mapping[int, str], partitions: int, replicas: int, chance: random.Random
) -> list[list[int]]:
    """Racks and their brokers in a random order; a partition's first replica is in the next rack, its others in those that follow; each rack gives its brokers in turn."""
    names = sorted(set(racks.values()))
    chance.shuffle(names)
    members = {name: sorted(b for b, rack in racks.items() if rack == name) for name in names}
    for brokers in members.values():
        chance.shuffle(brokers)
    turn = {name: chance.randrange(len(members[name])) for name in names}
    first = chance.randrange(len(names))
    rows = []
    for index in range(partitions):
        row: list[int] = []
        at = first + index
        while len(row) < replicas:
            name = names[at % len(names)]
            at += 1
            for _ in members[name]:
                broker = members[name][turn[name] % len(members[name])]
                turn[name] += 1
                if broker not in row:
                    row.append(broker)
                    break
        rows.append(row)
    return rows


def spread(values: Sequence[float]) -> str:
    """Largest over mean, and standard deviation over mean."""
    mean = statistics.fmean(values)
    return f"{max(values) / mean:5.2f} {statistics.pstdev(values) / mean:5.2f}"


def report(shape: Shape, held: Held) -> dict[str, str]:
    """The spread of bytes, replicas and leaders over brokers, racks and dirs."""
    keys = [(broker, f"disk{i}") for broker in shape.racks for i in range(shape.dirs)]

    def grouped(of: Counter[Key], by: Callable[[Key], object]) -> list[float]:
        found: Counter[object] = Counter({by(key): 0 for key in keys})
        for key in keys:
            found[by(key)] += of[key]
        return [float(value) for value in found.values()]

    def broker(key: Key) -> int:
        return key[0]

    def rack(key: Key) -> str:
        return shape.racks[key[0]]

    def itself(key: Key) -> Key:
        return key

    rows = {
        f"{what} by {name}": spread(grouped(of, by))
        for what, of in (("bytes", held.bytes), ("replicas", held.replicas))
        for name, by in (("broker", broker), ("rack", rack), ("dir", itself))
    }
    racks: Counter[str] = Counter()
    for each, count in held.leaders.items():
        racks[shape.racks[each]] += count
    rows["leaders by broker"] = spread([float(held.leaders[each]) for each in shape.racks])
    rows["leaders by rack"] = spread([float(racks[each]) for each in sorted(set(shape.racks.values()))])
    return rows


SHAPES = {
    "12 brokers, 3 racks of 4": Shape({i: "abc"[i % 3] for i in range(12)}),
    "11 brokers, racks of 5, 4, 2": Shape({i: "aaaaabbbbcc"[i] for i in range(11)}),
}


def passes(console: Console, count: int) -> None:
    """CPU time of plans over many KafkaTopics, without what reads them, and the memory that they take."""
    pool = {
        "name": "main",
        "replicas": 3,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Failing.of("abc", brokerPools=[pool])
    world.settle(80)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = with_topics(world, count)
    began = time.process_time()
    first = plan(seen, world.now)
    rows = [("first", time.process_time() - began, first)]
    seen = told(seen, first.topic_statuses)
    one = changed(seen, count // 2, {"retention.ms": "7"})
    for name, snapshot in (("nothing changed", seen), ("one changed", one)):
        taken = []
        made = first
        for _ in range(3):
            began = time.process_time()
            made = plan(snapshot, world.now + 60)
            taken.append(time.process_time() - began)
        rows.append((name, statistics.median(taken), made))
    text = json.dumps(seen.topics[0])
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    console.print(
        f"{count} KafkaTopics, {3 * count} partitions; a KafkaTopic with its status has {len(text)} bytes; memory grew by {grown:.0f} MiB"
    )
    for name, seconds, made in rows:
        acts = sum(isinstance(action, ConfigureTopic) for action in made.actions)
        writes = sum(status != first.topic_statuses[key] for key, status in made.topic_statuses.items())
        console.print(f"{name:16} {seconds:6.2f} s CPU, {acts} requests to Kafka, {writes} changed statuses")


def main(arguments: Sequence[str]) -> int:
    """Print the comparison; an argument is the number of topics."""
    console = Console(highlight=False, width=160)
    if arguments and arguments[0] == "--passes":
        passes(console, int(arguments[1]) if len(arguments) > 1 else 10_000)
        return 0
    count = int(arguments[0]) if arguments else 500
    wanted = topics(count, seed=7)
    partitions = sum(len(each.sizes) for each in wanted)
    total = sum(sum(each.sizes) * each.replicas for each in wanted) / 1e12
    console.print(
        f"{count} topics, {partitions} partitions, {total:.1f} TB; each figure: largest / mean, standard deviation / mean"
    )
    for name, shape in SHAPES.items():
        began = time.perf_counter()
        ours = report(shape, by_spindle(shape, wanted))
        took = time.perf_counter() - began
        theirs = report(shape, by_kafka(shape, wanted, random.Random(1)))  # noqa: S311 - likewise
        console.print(
            f"\n{name} ({1000 * took / count:.1f} ms a topic)\n{'':20} {'Spindle':>12} {'Kafka':>12}"
        )
        for row, figures in ours.items():
            console.print(f"{row:20} {figures:>12} {theirs[row]:>12}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
