"""CPU of passes over a large cluster: ``plan()`` on a converged world of the tests' model, with nothing to do, and with a disk that has just failed.

.venv/bin/python -m bench.fleet.passes [BROKERS ...]
"""

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bench.fleet.shape import DISKS, Shape
from spindle.api import names
from spindle.api.cluster import MAX_CLUSTER_DISKS
from spindle.config.dynamic_config import ON_BROKERS, ON_CLUSTER
from spindle.model.actions import Reassign
from spindle.model.agents import Agent
from spindle.model.config_values import ConfigValues
from spindle.model.replica_sizes import ReplicaSizes
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.times import stamp
from spindle.model.view import STORAGE_ERROR, KafkaView, LogDir, Partition
from spindle.reconcile.plan import plan
from tests.model.nodes import host
from tests.model.world import World

_PASSES = 5
_START = 80  # passes, at most, until a new cluster has come up
_QUIET = 3  # passes without an action, after which it has
_SIZE = 10**13  # of a disk
_HEALTHY = {"verdict": "Healthy", "content": "ours"}
_FAILED = {"verdict": "Failed", "reason": "IOError", "content": "unknown"}
_HOLDS = {
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "cleanup.policy": "delete",
}


class _ByKind(dict[tuple[str, str], dict[str, Any]]):
    """Objects by kind and name; those of one kind are found without a look at all others."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[str, dict[str, dict[str, Any]]] = {}

    def __setitem__(self, key: tuple[str, str], value: dict[str, Any]) -> None:
        super().__setitem__(key, value)
        self.kinds.setdefault(key[0], {})[key[1]] = value

    def __delitem__(self, key: tuple[str, str]) -> None:
        super().__delitem__(key)
        del self.kinds[key[0]][key[1]]


@dataclass
class Fleet(World):
    """The model's world with searches that a thousand nodes need; its Kafka holds what it is given."""

    objects: _ByKind = field(default_factory=_ByKind)
    given: KafkaView | None = None
    _taken: set[tuple[str, str]] = field(default_factory=set)

    def all(self, kind: str) -> tuple[dict[str, Any], ...]:
        """In the order of names."""
        return tuple(value for _, value in sorted(self.objects.kinds.get(kind, {}).items()))

    def snapshot(self) -> ClusterSnapshot:
        """Not a copy: nothing changes it while it is planned on."""
        nodes = [each["spec"]["node"] for each in self.all("KafkaBroker") if each["spec"].get("node")]
        return replace(
            self._snapshot(), agents=dict.fromkeys(nodes, Agent(age=1.0, unchanged=1.0, ahead=0.0))
        )

    def report(self, failed: tuple[int, int] | None = None) -> None:
        """Every agent reports its disks; ``failed``: broker and number of one that cannot be read."""
        for each in self.all("KafkaBroker"):
            disks = [
                {
                    "name": disk["name"],
                    "fsUuid": disk.get("fsUuid"),
                    "capacityBytes": _SIZE,
                    "since": stamp(self.now),
                    **(_FAILED if (each["spec"]["id"], number) == failed else _HEALTHY),
                }
                for number, disk in enumerate(each["spec"]["disks"])
            ]
            observed = {"node": each["spec"]["node"], "disks": disks, "moves": []}
            self.put({**each, "status": {**each.get("status", {}), "observed": observed}})

    def kafka(self) -> KafkaView:
        """As given, else what the model's brokers say."""
        return self.given or super().kafka()

    def _log_dirs(self, broker_id: int) -> tuple[LogDir, ...]:
        disks = json.loads(
            self.get("Pod", f"demo-broker-{broker_id}")["metadata"]["annotations"][names.ANN_DISKS]
        )
        return tuple(
            LogDir(names.log_dir(disk["name"]), total_bytes=_SIZE, usable_bytes=_SIZE) for disk in disks
        )

    def _volumes(self) -> None:
        """Nothing here is kept for a claim."""

    def _free(self, node: str) -> list[dict[str, Any]]:
        volumes = [self.objects["PersistentVolume", f"{node}-disk{disk}"] for disk in range(DISKS)]
        return [v for v in volumes if v["status"]["phase"] == "Available" and not v["spec"].get("claimRef")]

    def _fits(self, pod: dict[str, Any], node: dict[str, Any], claims: list[dict[str, Any]]) -> bool:
        """One broker and one controller a node, in the zone that the pod asks for."""
        name, zone = node["metadata"]["name"], node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        role = pod["metadata"]["labels"].get(names.LABEL_ROLE)
        wanted = json.dumps(pod["spec"].get("affinity", {}).get("nodeAffinity", {}))
        if (role, name) in self._taken or (
            "topology.kubernetes.io/zone" in wanted and f'"{zone}"' not in wanted
        ):
            return False
        bound = [self.get("PersistentVolume", v) for c in claims if (v := c["spec"].get("volumeName"))]
        if any(host(volume) not in (None, name) for volume in bound):
            return False
        self._taken.add((role, name))
        return True


def empty(brokers: int) -> Fleet:
    """A cluster that has come up, without topics."""
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": DISKS, "size": "1Gi", "storageClass": "local-disks"},
    }
    world = Fleet.of(("abc" * brokers)[:brokers], disks=DISKS, brokerPools=[pool])
    world.allowed = replace(world.allowed, disks=MAX_CLUSTER_DISKS)
    _settle(world)
    return world


def converged(brokers: int) -> Fleet:
    """A cluster that has come up, full of replicas, with nothing left to do."""
    world = empty(brokers)
    world.given = _filled(world, Shape(brokers))
    world.report()
    _settle(world)
    return world


def _settle(world: Fleet) -> None:
    quiet = 0
    for _ in range(_START):
        quiet = 0 if world.reconcile().actions else quiet + 1
        world.breathe()
        if quiet == _QUIET:
            return
    raise RuntimeError(f"not settled after {_START} passes")


def _filled(world: Fleet, shape: Shape) -> KafkaView:
    """The view of a Kafka of that shape on this world's brokers."""
    view = world.kafka()
    racks = {int(each["spec"]["id"]): each["spec"]["rack"] for each in world.all("KafkaBroker")}
    partitions = tuple(
        Partition(shape.name(topic), index, at[0], at, at, elr=())
        for topic in range(shape.topics)
        for index in range(shape.partitions_of(topic))
        for at in [tuple(shape.replicas(topic, index))]
    )
    if any(len({racks[node] for node in each.replicas}) < len(each.replicas) for each in partitions):
        raise RuntimeError("partitions are not spread over the racks")
    brokers = {
        node: replace(
            each, fenced=False, rack=racks[node], log_dirs=_with_replicas(each.log_dirs or (), shape, node)
        )
        for node, each in (view.brokers or {}).items()
    }
    topics = [shape.name(topic) for topic in range(shape.topics)]
    return replace(
        view,
        brokers=brokers,
        partitions=partitions,
        min_isr=dict.fromkeys(topics, 2),
        metadata_version=30,
        features={"metadata.version": 30, "kraft.version": 1},
        topics=dict.fromkeys(topics, _HOLDS),
        settings={("topic", topic): {} for topic in topics} | {("broker", str(node)): {} for node in racks},
        standing={node: _standing(world, node) for node in racks},
    )


def _with_replicas(dirs: tuple[LogDir, ...], shape: Shape, node: int) -> tuple[LogDir, ...]:
    found = []
    for log_dir, held in zip(dirs, shape.held(node), strict=True):
        replicas = {(shape.name(topic), index): 10**9 for topic, there in held.items() for index in there}
        usable = _SIZE - sum(replicas.values())
        found.append(replace(log_dir, replicas=ReplicaSizes.of(replicas), usable_bytes=usable))
    return tuple(found)


def _standing(world: Fleet, node: int) -> Mapping[str, ConfigValues]:
    """What a broker says of its dynamic settings: those of its file."""
    text = world.get("ConfigMap", names.config_map("demo", node))["data"]["server.properties"]
    file = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: ConfigValues(None, None, file.get(key), None) for key in ON_BROKERS | ON_CLUSTER}


def _asked_again(view: KafkaView) -> KafkaView:
    """The same Kafka in a new view: nothing that was computed of the former is left."""
    brokers = {
        node: replace(each, log_dirs=tuple(map(replace, each.log_dirs or ())))
        for node, each in (view.brokers or {}).items()
    }
    return replace(view, brokers=brokers)


def _without_a_dir(view: KafkaView) -> KafkaView:
    """The same Kafka after the first log dir of broker 0 went offline."""
    brokers = dict(view.brokers or {})
    lost, *others = brokers[0].log_dirs or ()
    gone = LogDir(lost.path, STORAGE_ERROR)
    brokers[0] = replace(brokers[0], log_dirs=(gone, *others))

    def shrunk(partition: Partition) -> Partition:
        if (partition.topic, partition.index) not in lost.replicas:
            return partition
        isr = tuple(node for node in partition.isr if node != 0)
        return replace(partition, isr=isr, leader=isr[0] if partition.leader == 0 else partition.leader)

    return replace(view, brokers=brokers, partitions=tuple(map(shrunk, view.partitions or ())))


def react(world: Fleet) -> float:
    """Least CPU seconds of the pass that finds a disk failed and starts to move its replicas."""
    healthy = world.snapshot()
    view = _without_a_dir(healthy.kafka)
    world.report(failed=(0, 0))
    failed, times = world.snapshot(), []
    for _ in range(_PASSES):
        plan(replace(healthy, kafka=_asked_again(healthy.kafka)), world.now)
        began = time.process_time()
        made = plan(replace(failed, kafka=_asked_again(view)), world.now)
        times.append(time.process_time() - began)
        if not any(isinstance(action, Reassign) for action in made.actions):
            raise RuntimeError("no replica is moved")
    return min(times)


def measure(world: Fleet) -> tuple[float, float]:
    """Least CPU seconds of a pass: after changes of partitions, and with the very same partitions as in the pass before."""
    times: dict[bool, list[float]] = {False: [], True: []}
    snapshot, before = world.snapshot(), KafkaView()
    gc.collect()
    gc.disable()
    for number in range(2 * _PASSES):
        view, same = _asked_again(snapshot.kafka), number % 2 == 1
        if same:
            view.share_index(before)
        before = view
        began = time.process_time()
        made = plan(replace(snapshot, kafka=view), world.now)
        times[same].append(time.process_time() - began)
        if made.actions:
            raise RuntimeError(f"the cluster is not settled: {made.actions[0]}")
    gc.enable()
    return min(times[False]), min(times[True])


def main() -> None:
    """Measure each size, and the exponent from one size to the next."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int, nargs="*", default=[10, 100])
    options = parser.parse_args()
    former: tuple[int, float] | None = None
    for brokers in options.brokers:
        world = converged(brokers)
        changed, same = measure(world)
        reacted = react(world)
        grows = ""
        if former is not None:
            grows = f", exponent {math.log(same / former[1]) / math.log(brokers / former[0]):.2f}"
        former = brokers, same
        sys.stdout.write(
            f"{brokers} brokers, {Shape(brokers).partitions} partitions: {same:.3f} s of CPU a steady pass, {changed:.3f} s if partitions changed, {reacted:.3f} s from a failed disk to the first moves{grows}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
